"""Pin sets that an inventory declares, on a node: installed, verified and taken off.

The package is a tiny one of this test; what roles/trainer does with any pin set is in test_trainer.
"""

import json
import uuid
from collections.abc import Iterator

import pytest

from tests.cluster.fixtures import Group, RealNodes
from tests.conftest import ROOT
from tests.roles import wheels
from tests.roles.play import play

pytestmark = pytest.mark.cluster
FOLDER = "/opt/trainbench-command"
HOME = f"{FOLDER}/systems/command/mine"
VARIABLES = {
    "cluster_root": FOLDER,
    "cluster_systems": ["command"],
    "cluster_devices_per_node": 1,
    "dataset_names": [],
    "setup_privileged": False,
    "command_pins": {
        "mine": {"requirements": ["alpha==1.0"], "imports": ["alpha"]},
        "other": {"requirements": ["alpha==9.9"]},  # which there is not
    },
    "command_pin_sets": ["mine"],
    "site_mirrors": {"pip": {"https://pypi.org/simple": f"{FOLDER}-wheels"}},
}


@pytest.fixture
def group(real_nodes: RealNodes) -> Iterator[Group]:
    pool = ROOT / "build" / f"command-{uuid.uuid4().hex[:8]}"  # test nodes hide /tmp
    wheels.write(pool, "alpha", "1.0")
    group = real_nodes(1, variables=VARIABLES)
    (node,) = group.nodes
    node.exec(["cp", "-r", str(pool), f"{FOLDER}-wheels"], check=True)
    yield group
    node.exec(["rm", "-rf", FOLDER, f"{FOLDER}-wheels"], check=True)


def test_declared_pin_sets_are_installed_verified_and_taken_off(group: Group) -> None:
    (node,) = group.nodes
    ran = play(group.inventory, "--tags", "validate,software,verify")
    assert ran.rc == 0, ran.out
    installed = json.loads(node.read(f"{HOME}/installed.json"))
    assert (installed["system"], installed["pin"]) == ("command", "mine")
    assert installed["identity"]["versions"]["alpha"] == "1.0"
    node.exec(["sh", "-c", f"rm -r {HOME}/env/lib/python3*/site-packages/alpha*"], check=True)
    broken = play(group.inventory, "--tags", "verify")
    assert broken.rc != 0
    assert "alpha" in broken.out
    gone = play(group.inventory, "-e", "teardown=yes", playbook="teardown.yml")
    assert gone.rc == 0, gone.out
    assert node.exec(["ls", f"{FOLDER}/systems"]).stdout == ""

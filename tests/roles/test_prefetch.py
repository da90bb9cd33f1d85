"""A node that reaches nothing but this machine is set up from a prefetched folder alone."""

from pathlib import Path

import pytest

from tests.cluster.fixtures import RealNodes
from tests.roles.play import play

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.network,
    pytest.mark.nightly("setup", by_day="minutes"),
]
VARIABLES = {
    "cluster_root": "/opt/trainbench-alone",
    "cluster_systems": ["torch_gpt"],
    "cluster_devices_per_node": 1,
    "setup_privileged": False,
}
# The machine's own choice of index may name folders, which a test node sees as well.
PIP_FILES = ["/etc/pip.conf", "/root/.pip", "/root/.config/pip"]


@pytest.mark.timeout(900)  # torch is downloaded, brought and installed
def test_a_node_without_a_network_is_set_up(tmp_path: Path, real_nodes: RealNodes) -> None:
    # A disk of its own in memory: what is removed from the node is gone for this test alone.
    group = real_nodes(1, variables=VARIABLES, upper_size_mib=5000)
    node = group.nodes[0]
    folder = tmp_path / "prefetch"

    filled = play(group.inventory, "-e", f"prefetch_dir={folder}", playbook="prefetch.yml")
    assert filled.rc == 0, filled.out
    assert list(folder.glob("pip/torch-2.13.0*.whl"))
    assert list(folder.glob("pip/tokenizers-*.whl"))
    again = play(group.inventory, "-e", f"prefetch_dir={folder}", playbook="prefetch.yml")
    assert again.changed() == {"node1": 0}, again.out

    node.exec(["ip", "route", "del", "default"], check=True)
    node.exec(["rm", "-rf", *PIP_FILES], check=True)
    assert node.exec(["ip", "route", "get", "192.0.2.1"]).returncode != 0, "it is not cut off"

    words = ["-e", f"site_prefetched={folder}"]
    made = play(group.inventory, *words)
    assert made.rc == 0, made.out
    assert play(group.inventory, *words).changed() == {"node1": 0}

    # What is damaged on the node comes again, and nothing else does.
    wheel = next(folder.glob("pip/numpy-*.whl")).name
    place = f"/opt/trainbench-alone/prefetched/pip/{wheel}"
    node.exec(["sh", "-c", f"echo damaged >>{place}"], check=True)
    mended = play(group.inventory, *words, "--tags", "validate")
    assert mended.changed() == {"node1": 1}, mended.out
    assert node.exec(["stat", "-c", "%s", place]).stdout.strip() == str(
        (folder / "pip" / wheel).stat().st_size
    )

    gone = play(group.inventory, "-e", "teardown=yes", playbook="teardown.yml")
    assert gone.rc == 0, gone.out
    left = node.exec(["find", "/opt/trainbench-alone", "-type", "f"]).stdout.split()
    assert left == ["/opt/trainbench-alone/env.json"]  # what verify wrote, as runs stay

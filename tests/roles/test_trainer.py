"""roles/trainer, python_env and apex on real nodes: real git, venv, pip, from a folder of wheels.

The packages are tiny ones of this test, `torch` among them: what is proved is how an environment is
made, kept and repaired, not what is in it.
"""

import json
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fixtures import Group, RealNodes
from tests.cluster.node import Node
from tests.conftest import ROOT
from tests.roles import wheels
from tests.roles.play import Ran, play_trainer

pytestmark = [pytest.mark.cluster, pytest.mark.network]
BASE = "/opt/trainbench-trainer"
HOME = f"{BASE}/root/systems/toy/one"
PYTHON = f"{HOME}/env/bin/python3"
TORCH = """
class version: cuda = "11.3"
class cuda: is_available = staticmethod(lambda: True)
__version__ = "1.10.1+cu113"
"""
# As apex's setup.py takes its options: from the command line, or from the environment.
SETUP = """
import os, sys
from setuptools import setup
import torch
flags = [flag for flag in ("--cpp_ext", "--cuda_ext") if flag in sys.argv]
sys.argv = [word for word in sys.argv if word not in flags]
setup(name="apex", version="0.1", packages=["apex"], py_modules=["apex_C"] if flags else [])
"""
MAKE_REPOSITORIES = f"""
set -e
cd {BASE}/git
for name in toy apex; do
  cd {BASE}/git/$name
  git init -q && git config user.email a@example.org && git config user.name A
  git add . && git commit -qm first && git rev-parse HEAD
done
"""
PATCH = "--- a/main.py\n+++ b/main.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"


@dataclass
class Site:
    """Nodes that have wheels and repositories in a folder, and the pin set of a toy system."""

    group: Group
    folder: Path
    pin: dict[str, Any] = field(default_factory=dict)

    def run(self, *words: str, **changed: Any) -> Ran:
        extra = {"trainer_system": "toy", "trainer_pins": {"one": self.pin}, **changed}
        return play_trainer(self.group, self.folder, *words, **extra)

    def read(self, node: Node, name: str) -> Any:
        return json.loads(node.read(f"{HOME}/{name}"))


@pytest.fixture
def site(real_nodes: RealNodes, tmp_path: Path) -> Iterator[Site]:
    # Where test nodes see it: they hide /tmp. Each time a new folder, since what changes below a
    # node's overlay while it is mounted may be seen or not.
    shared = ROOT / "build" / f"trainer-{uuid.uuid4().hex[:8]}"
    pool = shared / "wheels"
    wheels.write(pool, "torch", "1.10.1+cu113", TORCH)
    for version in ("1.0", "1.1"):
        wheels.write(pool, "alpha", version, needs=["beta"])
    for version in ("2.0", "2.1"):
        wheels.write(pool, "beta", version)
    wheels.write(pool, "extra", "3.0")
    wheels.download(pool, "setuptools==75.3.2", "wheel==0.45.1")
    for path, text in {
        "toy/main.py": "x = 1\n",
        "toy/setup.py": "from setuptools import setup\nsetup(name='toy', version='5', "
        "py_modules=['main'])\n",
        "apex/setup.py": SETUP,
        "apex/apex/__init__.py": "",
        "apex/apex_C.py": "",
    }.items():
        (shared / "git" / path).parent.mkdir(parents=True, exist_ok=True)
        (shared / "git" / path).write_text(text)
    (tmp_path / "toy.patch").write_text(PATCH)
    mirrors = {
        "pip": {"https://pypi.org/simple": f"{BASE}/wheels"},
        "git": {"https://github.com/example/": f"{BASE}/git/"},
    }
    variables = {"cluster_root": f"{BASE}/root", "cluster_device": "cuda", "site_mirrors": mirrors}
    group = real_nodes(2, variables=variables)
    for node in group.nodes:
        node.exec(["cp", "-r", str(shared), BASE], check=True)
        made = node.exec(
            ["sh", "-c", MAKE_REPOSITORIES],
            env={"PATH": "/usr/bin:/bin", "HOME": "/root"}
            | {f"GIT_{who}_DATE": "2022-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")},
            check=True,
        )
    toy, apex = made.stdout.split()
    pin = {
        "source": {
            "repository": "https://github.com/example/toy",
            "commit": toy,
            "patches": [str(tmp_path / "toy.patch")],
            "install": "editable",
        },
        "cuda": "11.3",
        "build": ["setuptools==75.3.2", "wheel==0.45.1"],
        "torch": {"version": "1.10.1+cu113"},
        "requirements": ["alpha==1.1"],
        "apex": {
            "repository": "https://github.com/example/apex",
            "commit": apex,
            "extensions": ["cpp_ext"],
        },
        "imports": ["alpha", "beta", "main"],
    }
    shutil.rmtree(shared)
    yield Site(group, tmp_path, pin)
    for node in group.nodes:
        node.exec(["rm", "-rf", BASE], check=True)


@pytest.mark.nightly("setup", by_day="a minute")
def test_made_kept_and_repaired(site: Site) -> None:
    nodes = site.group.nodes
    checked = site.run("--check")
    assert checked.changed() == {"node1": 1, "node2": 1}, checked.out
    assert nodes[1].exec(["test", "-e", f"{BASE}/root"]).returncode == 1

    made = site.run()
    assert made.rc == 0, made.out
    again = site.run()
    assert again.changed() == {"node1": 0, "node2": 0}, again.out
    assert {counts["ok"] for counts in again.recap.values()} == {2}, again.out
    verified = site.run(entry="verify")
    assert verified.rc == 0, verified.out
    locks = [node.read(f"{HOME}/lock.txt") for node in nodes]
    assert locks[0] == locks[1]
    assert "beta==2.1\n" in locks[0]
    installed = [site.read(node, "installed.json") for node in nodes]
    assert installed[0] == installed[1]
    assert installed[0]["identity"]["versions"]["apex"] == "0.1"
    assert installed[0]["cuda_home"] == "/usr/local/cuda-11.3"
    assert nodes[1].read(f"{HOME}/src/main.py") == "x = 2\n"
    assert f"toy==5 @ file://{HOME}/src\n" in locks[0]
    # Apex was built on one node, with its option, and both have that wheel.
    logs = [node.exec(["test", "-e", f"{HOME}/logs/apex-build.log"]).returncode for node in nodes]
    assert logs == [0, 1]

    # By hand on one node: a dependency, an addition, apex itself. Named, and only that is repaired.
    by_hand = [PYTHON, "-m", "pip", "install", "-q", "--no-index", "-f", f"{BASE}/wheels"]
    nodes[1].exec([*by_hand, "beta==2.0", "extra"], check=True)
    nodes[1].exec([PYTHON, "-m", "pip", "uninstall", "-qy", "apex"], check=True)
    config = f"{HOME}/env/bin/python3-config"
    nodes[1].exec(["rm", config], check=True)
    broken = site.run(entry="verify")
    assert broken.recap["node1"]["failed"] == 0
    assert broken.recap["node2"]["failed"] == 1
    for words in (
        "apex is not there, not 0.1 as it was installed",
        "beta is 2.0, not 2.1 as in the lock",
        "extra 3.0 is not in the lock",
        f"{config} is not that of its Python",
    ):
        assert words in broken.out
    repaired = site.run()
    assert repaired.rc == 0, repaired.out
    assert repaired.changed()["node1"] == 0
    assert repaired.changed()["node2"] > 0
    suffix = nodes[1].exec([config, "--extension-suffix"], check=True).stdout
    assert suffix == nodes[0].exec([config, "--extension-suffix"], check=True).stdout != ""
    assert nodes[1].read(f"{HOME}/lock.txt") == locks[0]
    assert site.run(entry="verify").rc == 0


@pytest.mark.nightly("setup", by_day="minutes")
def test_pins_that_move_on_and_nodes_that_come_later(site: Site) -> None:
    nodes = site.group.nodes
    # The first node is set up while the index has an older release of what a pin pulls in.
    newer = f"{BASE}/wheels/beta-2.1-py3-none-any.whl"
    nodes[0].exec(["mv", newer, f"{BASE}/"], check=True)
    alone = site.run("--limit", "node1")
    assert alone.rc == 0, alone.out
    nodes[0].exec(["mv", f"{BASE}/beta-2.1-py3-none-any.whl", newer], check=True)
    both = site.run()
    assert both.rc == 0, both.out
    assert both.changed()["node1"] == 0
    locks = [node.read(f"{HOME}/lock.txt") for node in nodes]
    assert "beta==2.0\n" in locks[0]
    assert locks[0] == locks[1]
    # It got the first one's wheel of apex, too.
    assert nodes[1].exec(["test", "-e", f"{HOME}/logs/apex-build.log"]).returncode == 1

    site.pin["requirements"] = ["alpha==1.0"]
    moved = site.run()
    assert moved.rc == 0, moved.out
    assert site.read(nodes[0], "installed.json")["identity"]["versions"]["alpha"] == "1.0"
    assert "beta==2.0\n" in nodes[0].read(f"{HOME}/lock.txt")

    # A pin that the folder lacks is one sentence, and leaves a node that the next run mends.
    site.pin["requirements"] = ["alpha==9.9"]
    refused = site.run()
    assert refused.rc != 0
    assert "No matching distribution found for alpha==9.9 (step requirements)" in refused.out
    site.pin["requirements"] = ["alpha==1.1"]
    assert site.run().rc == 0
    assert nodes[0].read(f"{HOME}/lock.txt") == locks[0]

    # A build that fails: the end of its log, and nothing that looks like a wheel.
    site.pin["apex"]["extensions"] = ["cpp_ext", "cuda_ext"]
    unbuilt = site.run()
    assert unbuilt.rc != 0
    assert "/usr/local/cuda-11.3 has no nvcc, with which apex is built" in unbuilt.out

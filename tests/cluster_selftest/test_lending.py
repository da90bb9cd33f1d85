"""A run of a suite in four workers: one cluster, pairs side by side, all four in turn."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster_selftest.test_commands import ROOT, traces

pytestmark = pytest.mark.cluster

SUITE = """
import json, os, signal, time
from pathlib import Path
import pytest

HERE = Path(__file__).parent

def borrowed(real_nodes, count, name):
    group = real_nodes(count)
    names = [node.hostname for node in group.nodes]
    assert all(not node.faults() and not node.processes() for node in group.nodes)
    where = [group.cluster.name, str(group.cluster.directory)]
    for node in names:
        (HERE / node).touch(exist_ok=False)  # nobody else has it
    (HERE / f"{name}.json").write_text(json.dumps([*where, names]))
    return group

def give_back(group):
    for node in group.nodes:
        (HERE / node.hostname).unlink()

def until(*names):
    end = time.monotonic() + 100
    while not all((HERE / f"{name}.json").exists() for name in names):
        assert time.monotonic() < end
        time.sleep(0.05)

@pytest.mark.parametrize("me", [0, 1])
def test_pairs_at_once(real_nodes, me):
    group = borrowed(real_nodes, 2, f"pair{me}")
    until(f"pair{1 - me}")
    give_back(group)

def test_dies(real_nodes):
    group = borrowed(real_nodes, 2, "dies")
    give_back(group)
    group.nodes[0].link(False)
    group.nodes[1].exec(["sh", "-c", "setsid sleep 1005 >/dev/null 2>&1 &"], check=True)
    os.kill(os.getpid(), signal.SIGKILL)

@pytest.mark.parametrize("me", [0, 1])
def test_all_of_them(real_nodes, me):
    until("pair0", "pair1")  # who waits for all keeps others from the last pair
    give_back(borrowed(real_nodes, 4, f"all{me}"))

def test_leaves_a_process(real_nodes):
    group = borrowed(real_nodes, 1, "leaves")
    group.nodes[0].exec(["sh", "-c", "setsid sleep 1006 >/dev/null 2>&1 &"], check=True)
    give_back(group)
"""


def test_workers_share_one_cluster_and_one_that_dies_takes_nothing_with_it(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SUITE)
    words = ["-q", "-n", "4", "-p", "tests.cluster.fixtures", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, f"--rootdir={tmp_path}", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert "1 failed, 5 passed, 1 error" in done.stdout, done.stdout
    assert "crashed while running 'test_it.py::test_dies'" in done.stdout
    assert "sleep 1006" in done.stdout
    found = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    ((name, directory),) = {(name, directory) for name, directory, _ in found.values()}
    pairs = [["node1", "node2"], ["node3", "node4"]]
    assert sorted(found[f"pair{me}"][2] for me in (0, 1)) == pairs
    assert found["all0"][2] == [*pairs[0], *pairs[1]]
    assert traces(name, Path(directory)) == []

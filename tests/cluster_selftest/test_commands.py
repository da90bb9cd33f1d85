"""Clusters from up to down: the command line, interrupted and killed tools, no trace left."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster import registry
from tests.cluster.cluster import sweep

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
SAY = 'echo "$(hostname) $*"; exit 7'


def cli(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.cluster", *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def traces(name: str, directory: Path) -> list[str]:
    """Whatever of the cluster this machine still shows."""
    found = [str(path) for path in Path("/sys/class/net").glob(f"tb-{name}*")]
    found += [str(path) for path in Path("/run/netns").glob(f"tb-{name}-*")]
    found += [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/trainbench-{name}-*")]
    found += [str(path) for path in registry.HOME.glob(f"{name}.*")]
    found += [str(directory)] if directory.exists() else []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{number}/cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if f"tb-{name}-" in words or str(directory) in words:
            found.append(words)
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    found += [line for line in mounts if str(directory) in line or f"tb-{name}-" in line]
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True).stdout
    return found + [line for line in tables.splitlines() if line.endswith(f"trainbench_{name}")]


def test_command_line_from_up_to_down(tmp_path: Path) -> None:
    name, directory = f"c{os.getpid():x}", tmp_path / "state"
    before = registry.machine_before()  # not as it is: a killed session may have left a cluster
    try:
        options = ("--name", name, "--nodes", "2")
        up = cli("up", *options, "--dir", str(directory), "--var", "ports=[1, 2]")
        assert up.returncode == 0, up.stderr
        assert str(directory / "inventory") in up.stdout
        assert (
            "ports:\n- 1\n- 2\n"
            in (directory / "inventory/group_vars/all/variables.yml").read_text()
        )
        assert traces(name, directory)

        again = cli("up", *options)
        assert again.returncode == 0
        assert "is up already" in again.stdout
        other = cli("up", "--name", name, "--nodes", "3")
        assert other.returncode != 0
        assert "already with 2 nodes" in other.stderr
        assert f"cluster {name}: 2 nodes" in cli("status").stdout

        inside = cli("exec", "--name", name, "node2", "--", "sh", "-c", SAY, "--", "--")
        assert (inside.stdout, inside.returncode) == ("node2 --\n", 7)
        killed = cli("exec", "--name", name, "node2", "--", "sh", "-c", "kill -9 $$")
        assert killed.returncode == 137
        assert "has no node9" in cli("exec", "--name", name, "node9", "--", "true").stderr
    finally:
        down = cli("down", "--name", name)
    assert down.returncode == 0, down.stderr
    assert traces(name, directory) == []
    if not registry.records():
        assert Path("/proc/sys/net/ipv4/ip_forward").read_text() == before["ip_forward"]
        assert not registry.HOME.exists()


def test_killed_tool_is_cleaned_up_after(tmp_path: Path) -> None:
    name, directory = f"k{os.getpid():x}", tmp_path / "state"
    code = (
        "import os; from pathlib import Path; from tests.cluster import Cluster; "
        f"Cluster(2, name='{name}', directory=Path('{directory}'), upper_size_mib=64).up(); "
        "os.kill(os.getpid(), 9)"
    )
    died = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    assert died.returncode == -signal.SIGKILL
    left = traces(name, directory)
    assert any("init.py" in trace for trace in left)
    with ThreadPoolExecutor() as threads:  # tests begin side by side, and each sweeps
        for swept in [threads.submit(sweep) for _ in range(3)]:
            swept.result()
    assert traces(name, directory) == []


NOT_ROOT = "import os; os.geteuid = lambda: 65534\n"


@pytest.mark.parametrize(("ci", "outcome"), [("", "1 skipped"), ("true", "1 error")])
def test_not_root_skips_but_fails_in_ci(tmp_path: Path, ci: str, outcome: str) -> None:
    (tmp_path / "conftest.py").write_text(NOT_ROOT)
    (tmp_path / "test_it.py").write_text("def test_it(real_nodes): real_nodes(1)\n")
    words = ["-m", "pytest", "-q", "-rs", "-p", "tests.cluster.fixtures", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, *words, f"--rootdir={tmp_path}", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
    )
    assert outcome in done.stdout
    assert "need root" in done.stdout

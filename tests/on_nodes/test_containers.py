"""torch_gpt in containers of two real nodes: built by our role, trained, killed, nothing left.

The base image is a debootstrap root, since no registry can be reached, and pip's packages come from
a folder that node 1 serves. Podman has runc, cgroupfs and lowered ulimits, as nodes without systemd
need; its images lie in memory, since a node's own disk is an overlay.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from runner.systems.common.pins import pins
from tests.cluster.fixtures import Group, RealNodes
from tests.cluster.node import Node
from tests.conftest import ROOT
from tests.on_nodes.campaign import Bench, wait
from tests.roles.play import play

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.network,
    pytest.mark.nightly("nodes", by_day="minutes"),
]

PORT = 8765
# Kept between sessions: a minute and 350 MB of downloads.
CACHE = Path("/var/tmp/trainbench-test-images")  # as root, on the machine's disk
HOME = ROOT / ".trainbench/systems/torch_gpt/container"
PIN = pins("torch_gpt")["container"]
DEEPSPEED = f"deepspeed=={PIN['deepspeed']['version']}"
PINS = [DEEPSPEED, *PIN["build"], *PIN["requirements"]]
VARIABLES: dict[str, Any] = {
    "cluster_root": str(ROOT / ".trainbench"),
    "cluster_devices_per_node": 1,
    "cluster_systems": ["torch_gpt"],
    "cluster_env": {"GLOO_SOCKET_IFNAME": "eth0", "NOTE": 'two words="a" $HOME'},
    "setup_privileged": False,
    "ssh_mesh_enabled": True,
    "ssh_mesh_ports": [22, 2222],
    "torch_gpt_pin_sets": ["torch-2.13", "container"],
    "site_mirrors": {"images": {"docker.io/library/": "localhost/base/"}},
    "python_env_index_url": f"http://127.0.0.1:{PORT}/",
}
CONTAINERS_CONF = """
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=50000:50000"]
"""
ENGINE = """
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -qy --no-install-recommends podman runc debootstrap
mkdir -p /var/lib/containers /etc/containers/containers.conf.d
mountpoint -q /var/lib/containers || mount -t tmpfs -o size=6g tmpfs /var/lib/containers
cat > /etc/containers/containers.conf.d/test.conf
for each in cpu cpuset devices freezer pids; do
  if [ -d /sys/fs/cgroup/memory ] && ! [ -d /sys/fs/cgroup/$each ]; then
    mkdir /sys/fs/cgroup/$each
    mount -t cgroup -o $each cgroup /sys/fs/cgroup/$each
  fi
done
"""
BASE = """
set -e
cd /var/lib/containers
debootstrap --variant=minbase --include=ca-certificates,python3,python3-pip,python3-dev,g++ \
  bookworm base http://deb.debian.org/debian >&2
rm -rf base/usr/lib/python3*/EXTERNALLY-MANAGED base/var/cache/apt/archives/*.deb
tar -C base -c .
rm -rf base
"""


@pytest.fixture
def group(real_nodes: RealNodes) -> Iterator[Group]:
    """Two nodes with an engine; the first has the base, and serves pip's packages."""
    group = real_nodes(2, variables=VARIABLES)
    for node in group.nodes:
        node.exec(["sh", "-c", ENGINE], input=CONTAINERS_CONF, check=True, timeout=600)
    first = group.nodes[0]
    bring_base(first)
    bring_packages(first)
    server = first.popen(
        [*("python3", "-m", "http.server", "-d", "/opt/simple"), "--bind", "127.0.0.1", str(PORT)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield group
    server.kill()
    server.wait()
    for node in group.nodes:
        words = "podman rm -fa; umount -l /var/lib/containers/storage/overlay /var/lib/containers"
        gone = f"rm -rf /root/.ssh /opt/simple {HOME}"  # what other nodes lack spoils comparisons
        node.exec(["sh", "-c", f"{words}; {gone}; mkdir -m 700 /root/.ssh"])
    for folder in Path("/sys/fs/cgroup").glob("*/libpod_parent"):  # empty; the engine leaves it
        for each in (*folder.iterdir(), folder):
            if each.is_dir():
                each.rmdir()


def bring_base(node: Node) -> None:
    """The stand-in of python:3.11-bookworm: Debian 12 with its Python 3.11."""
    CACHE.mkdir(parents=True, exist_ok=True)
    tar = CACHE / "base.tar"
    if not tar.exists():
        fresh = CACHE / f"base.{os.getpid()}"
        with fresh.open("wb") as file:
            words: dict[str, Any] = {"stdout": file, "stderr": subprocess.PIPE, "text": False}
            node.exec(["sh", "-c", BASE], check=True, timeout=900, **words)
        fresh.rename(tar)
    with tar.open("rb") as file:
        argv = ["podman", "import", "--quiet", "-", "localhost/base/python:3.11-bookworm"]
        node.exec(argv, stdin=file, check=True, timeout=300)


def bring_packages(node: Node) -> None:
    """A package index of files, for the image's Python 3.11, which is this one's version."""
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the image's Python is 3.11, and pip downloads for its own")
    pool, simple = CACHE / "wheels", CACHE / f"simple-{sha256(repr(PINS).encode()).hexdigest()[:8]}"
    pip = [sys.executable, "-m", "pip"]
    if not simple.exists():
        argv = [
            *pip,
            "wheel",
            "--quiet",
            "--no-deps",
            "--wheel-dir",
            str(pool),
            DEEPSPEED,
        ]
        subprocess.run(argv, check=True, timeout=600)
        argv = [*pip, "download", "--quiet", "--dest", str(pool), "--find-links", str(pool)]
        subprocess.run([*argv, *PINS], check=True, timeout=900)
        fresh = CACHE / "simple.new"
        shutil.rmtree(fresh, ignore_errors=True)
        for wheel in pool.glob("*.whl"):
            name = re.sub(r"[-_.]+", "-", wheel.name.partition("-")[0]).lower()
            (fresh / name).mkdir(parents=True, exist_ok=True)
            os.link(wheel, fresh / name / wheel.name)
        fresh.rename(simple)
    with subprocess.Popen(["tar", "-C", simple, "-c", "."], stdout=subprocess.PIPE) as tar:
        argv = ["sh", "-c", "mkdir -p /opt/simple && tar -C /opt/simple -x"]
        node.exec(argv, stdin=tar.stdout, check=True, timeout=120)


OURS = re.compile(r"train\.py|podman|conmon|trainbench-sshd|sshd_config|supervisor\.|sampler:")


def running(node: Node) -> dict[str, str]:
    """Pid to command line of what a run or an engine started; `ps` sees into containers."""
    said = node.exec(["ps", "-eo", "pid=,args="], check=True).stdout
    lines = [line.split(maxsplit=1) for line in said.splitlines()]
    return {pid: argv for pid, argv in lines if OURS.search(argv)}


def left(group: Group) -> list[str]:
    """Containers of any state, and processes of a run."""
    found = []
    for node in group.nodes:
        found += node.exec(["podman", "ps", "--all", "--quiet"], check=True).stdout.split()
        found += running(node).values()
    return found


def kill(node: Node, word: str) -> None:
    """SIGKILL the processes with that word, but for engines, which have it in their own line."""
    found = [pid for pid, argv in running(node).items() if word in argv]
    engines = [pid for pid, argv in running(node).items() if re.search("podman|conmon", argv)]
    pids = [pid for pid in found if pid not in engines]
    assert pids, (word, running(node))
    node.exec(["kill", "-KILL", *pids], check=True)


@pytest.mark.timeout(3000)
def test_trained_in_containers_and_nothing_left(group: Group, tmp_path: Path) -> None:
    made = play(group.inventory, playbook="software.yml", timeout=1500)
    assert made.rc == 0, made.out
    ids = {
        node.exec(["podman", "images", "--no-trunc", "-q", "localhost/trainbench/torch_gpt"]).stdout
        for node in group.nodes
    }
    assert len(ids) == 1, ids
    assert "sha256:" in ids.pop()
    meshed = play(group.inventory, playbook="ssh.yml")
    assert meshed.rc == 0, meshed.out
    again = play(group.inventory, playbook="software.yml", timeout=600)
    assert set(again.changed().values()) == {0}, again.out
    only = ["-e", '{"verify_only": ["torch_gpt", "ssh_mesh"]}']
    verified = play(group.inventory, *only, playbook="verify.yml")
    assert verified.rc == 0, verified.out

    small = {"seq_length": 64, "micro_batch_size": 2, "global_batch_size": 8, "train_iters": 5}
    over_ssh = {"pin": "container", "launcher": "deepspeed"}
    matrix: dict[str, Any] = {
        "name": "containers",
        "defaults": {"system": "torch_gpt", "nodes": 2, **small},
        "include": [{"pin": "torch-2.13"}, {"pin": "container"}, over_ssh],
        "time_limit_s": 400,
    }
    done = Bench(tmp_path, group.inventory, matrix).run("--format", "json", timeout=1200)
    assert done.stdout, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["status"] for row in rows] == ["ok"] * 3, done.stderr
    assert len({row["figures"]["final_loss"] for row in rows}) == 1, rows
    assert left(group) == []

    long = {**matrix, "defaults": {**matrix["defaults"], "train_iters": 5000}}
    for name, victim, cell in (
        ("trainer", "train.py", {"pin": "container"}),
        ("supervisor", "supervisor.preparation", over_ssh),
        ("bench", "", over_ssh),
    ):
        bench = Bench(tmp_path, group.inventory, {**long, "name": name, "include": [cell]})
        bench.start()
        bench.wait_for_step(2, timeout=500)
        assert left(group)
        if victim:
            kill(group.nodes[1], victim)
            bench.finish(timeout=500)
        else:
            assert bench.process is not None
            os.kill(bench.process.pid, signal.SIGKILL)
            bench.process.wait()
        wait(lambda: left(group) == [], 90, f"the end of all after SIGKILL of the {name}")

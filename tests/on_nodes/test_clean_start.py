"""What others left on a real node: refused or noted before a run.

The trainer is the stand-in (tests/stand_in.py), and so is nvidia-smi, which names a real process.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.folder import names
from tests.cluster.fixtures import RealNodes
from tests.cluster.node import Node
from tests.cluster.system import base_python
from tests.on_nodes.campaign import Bench, wait

pytestmark = pytest.mark.cluster

# Holds 28 MiB of a file that it has deleted, as a DataLoader's worker does.
HOLDER = """
import os, sys, time
handle = os.open("/dev/shm/torch_1_2_3", os.O_RDWR | os.O_CREAT)
os.write(handle, bytes(28 << 20))
os.unlink("/dev/shm/torch_1_2_3")
print("held", flush=True)
time.sleep(1000)
"""
NVIDIA_SMI = """#!/bin/sh
case "$1" in
*compute-apps*) printf 'GPU-0, %s, sleep\\n' {pid} ;;
*) printf '0, GPU-0, 0, 16384\\n' ;;
esac
"""


def at(root: Path) -> dict[str, Any]:
    return {"cluster_root": str(root), "cluster_devices_per_node": 1}


def matrix(name: str) -> dict[str, Any]:
    cell = {"system": "torch_gpt", "devices_per_node": 1, "nodes": 1, "train_iters": 5}
    return {"name": name, "defaults": {**cell, "env": {"STEP_S": "0.01"}}}


def noted(bench: Bench, **which: int) -> list[str]:
    path = next((bench.attempt("", **which) / names.NODES).glob(f"*/{names.PREPARED}"))
    said: list[str] = json.loads(path.read_text())["noted"]
    return said


def of(node: Node, argv: list[str]) -> list[int]:
    return [pid for pid, each in node.processes() if each == argv]


def python(node: Node, code: str) -> subprocess.Popen[str]:
    argv = [base_python(), "-I", "-S", "-c", code]
    process: subprocess.Popen[str] = node.popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_shared_memory_is_refused_by_holder_and_leftovers_are_noted(
    tmp_path: Path, real_nodes: RealNodes, stand_in_root: Path
) -> None:
    group = real_nodes(1, variables=at(stand_in_root))
    node = group.nodes[0]
    node.exec(["mount", "-o", "remount,size=32m", "/dev/shm"], check=True)
    try:
        holder = python(node, HOLDER)
        bench = Bench(tmp_path, group.inventory, matrix("shm"))
        bench.run()
        refused = bench.outcome("")
        pids = [pid for pid, argv in node.processes() if HOLDER in argv]
        assert (refused["status"], refused["cause"]) == ("did_not_run", "disk_full")
        assert "only 4 of 32 MiB of /dev/shm are free and a run needs 16: pid " in refused["reason"]
        assert f"pid {pids[0]} (python" in refused["reason"]
        assert "of root, " in refused["reason"]
        assert "has 28 MiB in deleted files; end it" in refused["reason"]
        node.signal(pids[0])
        holder.wait()
        left = [
            "sh",
            "-c",
            "head -c 3M /dev/zero > /dev/shm/nccl-aBc9; touch -d -2days /dev/shm/n*",
        ]
        node.exec(left, check=True)
        done = bench.run()
        assert done.returncode == 0, done.stderr
        assert noted(bench, attempt=2) == [
            "/dev/shm holds 3 MiB that dead processes left: nccl-aBc9 has 3 MiB, of root,"
            " 2 days old; remove it where nobody uses it"
        ]
        argv = [sys.executable, "-m", "runner", "collect", "--campaign", str(bench.campaign)]
        ran = subprocess.run(
            [*argv, "--format", "json"], capture_output=True, check=True, text=True
        )
        assert "not_clean" in ran.stdout
        assert f"{node.hostname}: /dev/shm holds 3 MiB" in ran.stdout
    finally:
        node.exec(["sh", "-c", "rm -f /dev/shm/*; mount -o remount,size=50% /dev/shm"], check=True)


@pytest.mark.nightly("nodes")
def test_a_gpu_in_use_is_refused(
    tmp_path: Path, real_nodes: RealNodes, stand_in_root: Path, request: pytest.FixtureRequest
) -> None:
    group = real_nodes(1, variables={**at(stand_in_root), "cluster_device": "cuda"})
    node = group.nodes[0]
    smi = "/usr/local/bin/nvidia-smi"
    other = node.popen(["sleep", "777"])
    wait(lambda: bool(of(node, ["sleep", "777"])), 10, "somebody's process")
    pid = of(node, ["sleep", "777"])[0]
    node.exec(["tee", smi], input=NVIDIA_SMI.format(pid=pid), check=True)
    node.exec(["chmod", "755", smi], check=True)
    request.addfinalizer(lambda: node.exec(["rm", smi]))  # the node is others' afterwards
    busy = Bench(tmp_path, group.inventory, matrix("busy"))
    busy.run()
    assert busy.outcome("")["cause"] == "device_busy"
    said = busy.outcome("")["reason"]
    assert f"GPU 0 is in use by pid {pid} (sleep) of root, " in said
    assert said.endswith(" s old; end it, or wait for it")
    node.signal(pid, signal.SIGKILL)
    other.wait()

"""verify.yml and `runner doctor` on real nodes: the odd node, the slow one, and who is silent."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fixtures import Group, RealNodes
from tests.conftest import ROOT
from tests.on_nodes.campaign import wait
from tests.roles.play import play

pytestmark = pytest.mark.cluster
MTU = 1280  # less than any node's link has; IPv6 asks for no less


def variables(**more: Any) -> dict[str, Any]:
    """Nodes that see this checkout's .trainbench (made by `make setup`) as their root."""
    return {
        "cluster_root": str(ROOT / ".trainbench"),
        "cluster_devices_per_node": 1,
        "cluster_systems": ["torch_gpt"],
        "cluster_env": {"GLOO_SOCKET_IFNAME": "eth0"},
        "setup_privileged": False,
        **more,
    }


@pytest.fixture
def group(real_nodes: RealNodes) -> Iterator[Group]:
    if not (ROOT / ".trainbench" / "datasets").is_dir():
        pytest.fail("this machine is not set up: run `make setup` first", pytrace=False)
    found = real_nodes(3, variables=variables())
    link = json.loads(found.nodes[1].exec(["ip", "-j", "link", "show", "eth0"]).stdout)[0]
    yield found
    for node in found.nodes:
        node.exec(["ip", "link", "set", "eth0", "mtu", str(link["mtu"])])
        node.exec(["tc", "qdisc", "del", "dev", "eth0", "root"])


def doctor(folder: Path, inventory: Path, *more: str) -> list[str]:
    runs = ["--runs", str(folder / "runs")]
    return [sys.executable, "-m", "runner", "doctor", "-i", str(inventory), *runs, *more]


def asked(folder: Path, inventory: Path, *more: str) -> tuple[int, dict[str, Any]]:
    argv = doctor(folder, inventory, "--format", "json", *more)
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=200)
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout)


def test_the_odd_node_is_named_and_every_role_is_asked(tmp_path: Path, group: Group) -> None:
    """Three faults at once, one a node: a cut dataset, another MTU, a clock that is off.

    The clock is in no namespace: seconds are added to what was measured.
    """
    out = ["-e", f"verify_out_dir={tmp_path}"]
    first = play(group.inventory, *out, playbook="verify.yml")
    assert first.rc == 0, first.out
    assert "3 nodes compared, 2 roles asked: no difference" in first.out
    env = json.loads(group.nodes[0].read(f"{ROOT}/.trainbench/env.json"))
    assert env["hostname"] == "node1"
    assert abs(env["time"]["offset_s"]) <= env["time"]["error_s"] + 0.1

    data = f"{ROOT}/.trainbench/datasets/default/default_text_document.bin"
    group.nodes[0].exec(["cp", "-a", data, f"{data}.kept"], check=True)
    group.nodes[0].exec(["truncate", "-s", "-10", data], check=True)
    group.nodes[1].exec(["ip", "link", "set", "eth0", "mtu", str(MTU)], check=True)
    clock = "{{ 7.5 if inventory_hostname == 'node3' else 0 }}"
    try:
        words = [*out, "-e", json.dumps({"__verify_clock_offset_s": clock})]
        second = play(group.inventory, *words, playbook="verify.yml")
    finally:
        group.nodes[0].exec(["mv", f"{data}.kept", data], check=True)
    assert second.rc != 0
    assert {host: counts["failed"] for host, counts in second.recap.items()} == {
        "node1": 1,
        "node2": 1,
        "node3": 1,
    }
    assert second.changed() == {"node1": 0, "node2": 0, "node3": 0}
    assert "node1: dataset: " in second.out
    assert f"{data} has " in second.out
    assert f"node2: MTU is {MTU}, the others'" in second.out
    offset = re.search(r"node3: time offset is \+([0-9.]+)", second.out)
    assert offset, second.out
    assert 7.0 < float(offset[1].rstrip(".")) < 8.0  # 7.5, and how long a slow machine took to say
    # The failed role did not keep the next one from being asked.
    assert "2 differences that spoil comparisons, 1 failed check" in second.out
    assert second.out.count("[trainer : Compare with its pins") == 1


@pytest.mark.nightly("setup")
def test_devices_and_network_are_measured_in_torch(tmp_path: Path, group: Group) -> None:
    """How fast is not asserted: these nodes share their machine's cores with all else on it."""
    rc, found = asked(tmp_path, group.inventory)
    tests = {one["test"]: one for one in found["measured"]["tests"]}
    noisy = [one for one in tests.values() if one["reason"].startswith("too noisy to tell")]
    assert rc in (0, 1, *([2] if noisy else []))
    assert found["measured"]["reason"] == ""
    assert list(tests) == ["matmul_fp32", "matmul_bf16", "memory", "all", "pair"]
    for one in tests.values():
        assert one["reason"] == "" or one in noisy
        assert all(figure["value"] > 0 for figure in one["figures"])
    assert {tuple(figure["nodes"]) for figure in tests["pair"]["figures"]} == {
        ("node1", "node2"),
        ("node1", "node3"),
        ("node2", "node3"),
    }
    assert [(one["nodes"], one["item"]) for one in found["findings"]] == []
    assert found["measured"]["notes"] == [] or "share a switch" in found["measured"]["notes"][0]


@pytest.mark.nightly("setup")
def test_ctrl_c_ends_the_measurement_everywhere(tmp_path: Path, group: Group) -> None:
    argv = doctor(tmp_path, group.inventory, "--only", "network")
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        logs = tmp_path / "runs" / ".doctor"
        wait(lambda: any(b"step" in p.read_bytes() for p in logs.rglob("launcher.log")), 60, "step")
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[1]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130, said
    wait(lambda: not any("probe.py" in str(n.processes()) for n in group.nodes), 5, "clean nodes")


@pytest.mark.nightly("setup")
def test_a_silent_node_is_named_and_the_others_are_compared(tmp_path: Path, group: Group) -> None:
    group.nodes[2].link(False)
    rc, found = asked(tmp_path, group.inventory, "--only", "env")
    assert rc == 2
    assert list(found["unreachable"]) == ["node3"]
    assert list(found["environment"]) == ["node1", "node2"]
    assert "2 of 3 nodes compared, 2 roles asked: node3 not asked" in found["text"]

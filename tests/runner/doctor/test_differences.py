"""Nodes' env.json compared: the odd node, ties, the inventory, thresholds; and the table."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from runner.base.errors import UserError
from runner.base.grid import plain_text
from runner.doctor import answer, table
from runner.doctor.differences import MIXED, STARVED, Finding, NodeComparison, compare_nodes, short
from runner.doctor.items import NOTE, SPOILS
from runner.folder.checkup import Checkup, checkup_of

GPU = {
    "name": "NVIDIA H200",
    "power.limit": "700.00",
    "ecc.mode.current": "Enabled",
    "ecc.errors.uncorrected.volatile.total": "0",
}
PIN = {
    "identity": {"commit": "a" * 40, "versions": {"torch": "2.1.0"}},
    "lock": {"torch": "2.1.0", "numpy": "1.26.4"},
    "torch": "2.1.0",
}
ENV: dict[str, Any] = {
    "system": {"kernel": "5.15.0-91", "os": "Ubuntu 22.04", "limits": {"stack_bytes": None}},
    "cpu": {"model": "EPYC", "cores": 64},
    "memory": {"total_mib": 515_000},
    "gpu": {"driver": "535.104.05", "problem": None, "devices": [GPU] * 8},
    "packages": {"libnccl2": "2.18.3-1", "libcudnn8": "8.9.2"},
    "systems": {"torch_gpt/torch-2.1": PIN},
    "datasets": {"default": {"sha256": {"a.bin": "b" * 64}}},
    "network": {
        "interfaces": {"eth0": {"mtu": 9000, "speed_mbit_s": 100000, "carries": "cluster"}}
    },
    "disk": {"path": "/opt/tb", "free_mib": 500_000},
    "time": {"offset_s": 0.01, "error_s": 0.02, "synchronised": True},
}


def nodes(count: int, **odd: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """node1, node2, ...; `odd` has the paths that one of them has another value at."""
    found = {f"node{number}": copy.deepcopy(ENV) for number in range(1, count + 1)}
    for host, changes in odd.items():
        for path, value in changes.items():
            put(found[host], path.split("/"), value)
    return found


def put(content: Any, path: list[str], value: Any) -> None:
    for key in path[:-1]:
        content = content[int(key) if isinstance(content, list) else key]
    content[int(path[-1]) if isinstance(content, list) else path[-1]] = value


def only(found: NodeComparison) -> Finding:
    assert len(found.findings) == 1, found.findings
    assert len(found.differences) == 1, found.differences
    return found.findings[0]


# --- the odd node ---------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 64])
def test_nodes_that_are_alike_have_no_finding(count: int) -> None:
    assert compare_nodes(nodes(count)) == NodeComparison()


@pytest.mark.parametrize(
    ("path", "value", "item", "severity"),
    [
        ("gpu/driver", "530.30.02", "GPU driver", SPOILS),
        ("network/interfaces/eth0/mtu", 1500, "MTU", SPOILS),
        ("network/interfaces/eth0/speed_mbit_s", 1000, "link speed Mbit/s", SPOILS),
        ("cpu/governor", "powersave", "CPU governor", SPOILS),
        ("gpu/devices", [GPU] * 7, "GPU count", SPOILS),
        ("gpu/problem", "nvidia-smi: it hangs", "GPU problem", SPOILS),
        ("memory/total_mib", 257_000, "memory MiB", SPOILS),
        ("system/kernel", "5.15.0-88", "kernel", NOTE),
        ("system/limits/stack_bytes", 8388608, "limit stack bytes", NOTE),
        ("time/synchronised", False, "time synchronised", NOTE),
        ("systems/torch_gpt~torch-2.1/identity/commit", "c" * 40, "system torch_gpt", SPOILS),
        ("datasets/default/sha256/a.bin", "d" * 64, "dataset default", SPOILS),
        ("packages/libnccl2", "2.19.3-1", "packages", SPOILS),
    ],
)
def test_the_odd_one_of_three_is_named(path: str, value: Any, item: str, severity: str) -> None:
    envs = nodes(3)
    put(envs["node2"], [part.replace("~", "/") for part in path.split("/")], value)
    finding = only(compare_nodes(envs))
    assert finding.nodes == ("node2",)
    assert finding.item.startswith(item)
    assert finding.severity == severity


def test_two_nodes_that_differ_are_both_named() -> None:
    found = compare_nodes(nodes(2, node2={"gpu/driver": "530.30.02"}))
    assert [(one.nodes, one.value, one.others) for one in found.findings] == [
        (("node1",), "535.104.05", "node2 530.30.02"),
        (("node2",), "530.30.02", "node1 535.104.05"),
    ]
    assert found.differences[0].usual is None
    assert found.differences[0].odd == ("node1", "node2")


def test_a_majority_of_a_third_is_one_and_a_tie_is_none() -> None:
    three = {"node4": {"cpu/model": "B"}, "node5": {"cpu/model": "C"}}
    assert compare_nodes(nodes(5, **three)).differences[0].odd == ("node4", "node5")
    two = {"node3": {"cpu/model": "B"}, "node4": {"cpu/model": "B"}}
    assert len(compare_nodes(nodes(4, **two)).differences[0].odd) == 4


def test_a_small_difference_in_memory_is_none() -> None:
    assert compare_nodes(nodes(3, node2={"memory/total_mib": 514_100})) == NodeComparison()


@pytest.mark.parametrize(
    ("device", "cpu", "value"),
    [
        ("cuda", {"usable": 7}, "7"),
        ("npu", {"usable": 8, "quota_percent": 150}, "1.5"),
        ("cuda", {"usable": 8, "quota_percent": None}, None),
        ("cpu", {"usable": 1}, None),
    ],
)
def test_fewer_cpus_than_devices_are_a_fault_of_a_single_node(
    device: str, cpu: dict[str, Any], value: str | None
) -> None:
    envs = nodes(1, node1={f"cpu/{key}": number for key, number in cpu.items()})
    compared = compare_nodes(envs, {"node1": {"device": device, "devices": 8}})
    found = [finding for finding in compared.findings if finding.item == STARVED]
    assert [finding.severity for finding in found] == [SPOILS] * (value is not None)
    assert [finding.words for finding in found] == [
        f"usable CPUs for devices is {value} for 8 devices, at least one per device"
    ] * (value is not None)


def test_one_device_unlike_the_others_of_its_node() -> None:
    odd = {"gpu/devices/5": {**GPU, "power.limit": "500.00"}}
    finding = only(compare_nodes(nodes(1, node1=odd)))
    assert finding.words == f"GPU power limit W is 700.00 (5: 500.00), {MIXED}"
    assert only(compare_nodes(nodes(3, node2=odd))).nodes == ("node2",)


def test_what_is_wrong_on_all_nodes_is_found_too() -> None:
    problem = {"gpu/problem": "nvidia-smi: No devices were found"}
    finding = only(compare_nodes(nodes(2, node1=problem, node2=problem)))
    assert (finding.nodes, finding.words) == (
        ("node1", "node2"),
        "GPU problem: nvidia-smi: No devices were found",
    )


def test_of_a_lock_the_packages_that_differ_are_shown() -> None:
    path = "systems/torch_gpt~torch-2.1/lock"
    envs = nodes(3)
    lock = {"torch": "2.1.0", "numpy": "1.24.1", "six": "1.16.0"}
    put(envs["node3"], [part.replace("~", "/") for part in path.split("/")], lock)
    finding = only(compare_nodes(envs))
    assert finding.words == (
        "system torch_gpt/torch-2.1 lock is numpy 1.24.1, six 1.16.0,"
        " the others' numpy 1.26.4, six –"
    )
    many = {f"p{number}": "1" for number in range(9)}
    put(envs["node3"], ["systems", "torch_gpt/torch-2.1", "lock"], many)
    assert only(compare_nodes(envs)).value == "numpy –, p0 1, p1 1 and 8 more"


# --- the inventory, thresholds --------------------------------------------------------------------


@pytest.mark.parametrize(("wanted", "named"), [(8, ()), (4, ()), (16, ("node1", "node2"))])
def test_fewer_devices_than_the_inventory_says(wanted: int, named: tuple[str, ...]) -> None:
    expected = {host: {"device": "cuda", "devices": wanted} for host in ("node1", "node2")}
    found = compare_nodes(nodes(2), expected)
    assert tuple(host for one in found.findings for host in one.nodes) == named
    if named:
        words = "GPU count is 8, the inventory's cluster_devices_per_node 16"
        assert found.findings[0].words == words


def test_no_device_at_all_on_a_cluster_of_gpus() -> None:
    none: dict[str, Any] = {"gpu": {"driver": None, "problem": None, "devices": []}}
    found = compare_nodes(nodes(1, node1=none), {"node1": {"device": "cuda", "devices": 8}})
    assert only(found).value == "0"
    assert (
        compare_nodes(nodes(1, node1=none), {"node1": {"device": "cpu", "devices": 8}})
        == NodeComparison()
    )


@pytest.mark.parametrize(
    ("offset", "severity"), [(0.05, None), (0.5, NOTE), (1.01, NOTE), (1.5, SPOILS), (-7.5, SPOILS)]
)
def test_time_offsets(offset: float, severity: str | None) -> None:
    found = compare_nodes(nodes(3, node2={"time/offset_s": offset}))
    assert [one.severity for one in found.findings] == ([severity] if severity else [])
    assert all(one.nodes == ("node2",) for one in found.findings)


def test_an_offset_within_its_error_is_none() -> None:
    loose = {"time/offset_s": 3.0, "time/error_s": 3.0}
    assert compare_nodes(nodes(3, node2=loose)) == NodeComparison()


def test_a_control_node_whose_clock_is_off_is_no_fault_of_the_nodes() -> None:
    off = {f"node{number}": {"time/offset_s": 9.0} for number in (1, 2, 3)}
    assert compare_nodes(nodes(3, **off)) == NodeComparison()
    both = {f"node{number}": {"time/offset_s": 9.0} for number in (1, 2)}
    assert len(compare_nodes(nodes(2, **both)).findings) == 2


@pytest.mark.parametrize(("free", "severity"), [(30_000, None), (10_000, NOTE), (900, SPOILS)])
def test_free_disk(free: int, severity: str | None) -> None:
    found = compare_nodes(nodes(3, node2={"disk/free_mib": free}))
    assert [one.severity for one in found.findings] == ([severity] if severity else [])


# --- the table ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        (["node1", "node2", "node3", "node7"], "node1-3, node7"),
        (["node7", "node9"], "node7, node9"),
        (["gpu08", "gpu09", "gpu10"], "gpu08-10"),
        ([f"n{number}" for number in range(0, 40, 2)], "n0, n2, n4, n6, n8, n10 and 14 more"),
        (["a"], "a"),
    ],
)
def test_names_in_few_words(hosts: list[str], words: str) -> None:
    assert short(hosts) == words


def test_few_nodes_have_a_column_each_and_the_odd_one_a_star() -> None:
    envs = nodes(3, node2={"gpu/driver": "530.30.02", "system/kernel": "6.1"})
    shown = plain_text(
        [table.differences_table(compare_nodes(envs).differences, list(envs), 120)], 120
    )
    lines = [" ".join(line.replace("│", "|").split()) for line in shown.splitlines()]
    assert lines[2:] == [
        "GPU driver | spoils | 535.104.05 | 530.30.02 * | 535.104.05",
        "kernel | note | 5.15.0-91 | 6.1 * | 5.15.0-91",
    ]


def test_64_nodes_are_grouped_by_what_they_have() -> None:
    odd = {"gpu/driver": "530.30.02"}
    envs = nodes(64, node7=odd, node9=odd, node20={"gpu/driver": None})
    shown = plain_text(
        [table.differences_table(compare_nodes(envs).differences, list(envs), 100)], 100
    )
    assert "61 nodes: 535.104.05" in shown
    assert "node7, node9: 530.30.02" in shown
    assert "node20: –" in shown
    assert len(shown.splitlines()) == 4


def test_words_of_several_nodes_are_said_once_and_whole() -> None:
    entry = {"role": "base", "message": "package gcc-10: not installed\npackage git: \x1b[31mnone"}
    lines = table.failure_lines({f"node{number}": [entry] for number in (1, 2, 3)})
    assert [line.plain for line in lines] == [
        "node1-3: base: package gcc-10: not installed\n    package git: none"
    ]


# --- a folder to an answer ------------------------------------------------------------------------


def written(path: Path, envs: dict[str, Any], **entries: Any) -> Checkup:
    found = checkup_of(path, "rack")
    (found.path / "env").mkdir(parents=True)
    listed = {}
    for host, env in envs.items():
        listed[host] = {"lost": False, "failures": [], **entries.get(host, {})}
        content = {"unreachable": env} if isinstance(env, str) else {"env": env}
        (found.path / "env" / f"{host}.json").write_text(json.dumps(content))
    asked = {"schema": 1, "at": 1.0, "roles": ["base"], "nodes": listed}
    (found.path / "asked.json").write_text(json.dumps(asked))
    return found


def test_alike_is_0_and_says_so(tmp_path: Path) -> None:
    found = answer.gather(written(tmp_path, nodes(3)))
    assert found.exit_code == 0
    content = found.as_json(100)
    assert content["text"] == "3 nodes compared, 1 role asked: no difference\n"
    assert (content["faults"], content["nodes"]) == ({}, ["node1", "node2", "node3"])


def test_a_difference_that_spoils_is_1_and_a_note_is_0(tmp_path: Path) -> None:
    note = answer.gather(written(tmp_path / "a", nodes(3, node2={"system/kernel": "6.1"})))
    assert (note.exit_code, note.faults()) == (0, {})
    assert "1 to note" in note.as_json(100)["text"]
    bad = answer.gather(written(tmp_path / "b", nodes(3, node2={"gpu/driver": "1"})))
    assert bad.exit_code == 1
    assert bad.faults() == {"node2": ["node2: GPU driver is 1, the others' 535.104.05"]}
    assert bad.as_json(100)["text"].splitlines()[-1] == (
        "3 nodes compared, 1 role asked: 1 difference that spoils comparisons"
    )


def test_a_failed_check_is_1_and_a_silent_node_2(tmp_path: Path) -> None:
    failure = {"failures": [{"role": "base", "message": "package git: not installed"}]}
    failed = answer.gather(written(tmp_path / "a", nodes(3), node3=failure))
    assert failed.exit_code == 1
    assert failed.faults() == {"node3": ["node3: base: package git: not installed"]}
    assert "-i INVENTORY`; then" in failed.as_json(100)["text"]  # of a folder of an older version
    told = {"failures": [{"role": "dataset", "message": "x is gone; run setup's data step again"}]}
    named = answer.gather(written(tmp_path / "c", nodes(3), node3=told), inventory="inventory/\\1")
    assert named.faults()["node3"] == [
        "node3: dataset: x is gone; run `python -m runner setup --tags data -i 'inventory/\\1'`"
        " again"
    ]
    assert named.as_json(200)["text"].splitlines()[-2] == (
        "To fix what setup installs: `python -m runner setup -i 'inventory/\\1'`;"
        " then `python -m runner doctor -i 'inventory/\\1'`"
    )
    silent = {**nodes(2), "node3": "ssh: no route to host"}
    lost = answer.gather(written(tmp_path / "b", silent, node3={"lost": True}))
    assert lost.exit_code == 2
    assert lost.unreachable == {"node3": "ssh: no route to host"}
    assert "2 of 3 nodes compared" in lost.as_json(100)["text"]


def test_a_folder_that_holds_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no asked.json; `python -m runner verify"):
        answer.gather(checkup_of(tmp_path, "rack"))

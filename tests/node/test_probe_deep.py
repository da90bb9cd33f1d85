"""Switches; and processors beside a device and nccl-tests, without a GPU or a second NUMA node.

torch's answer is made up; a script in place of nccl-tests prints lines that it printed on two H200
(docs/results/accept-on-h200.md has the real one).
"""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from node import nccl_tests, probe_deep


def process_of(**facts: int) -> Any:
    cuda = SimpleNamespace(get_device_properties=lambda device: SimpleNamespace(**facts))
    return SimpleNamespace(kind="cuda", device=0, torch=SimpleNamespace(cuda=cuda))


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8\n", {0, 1, 2, 3, 8}),
        ("5\n", {5}),
        ("\n", set()),  # as a virtual machine's kernel says
        ("none\n", set()),
        (None, set()),
    ],
)
def test_local_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, cpus: set[int]
) -> None:
    monkeypatch.setattr(probe_deep, "PCI", str(tmp_path))
    if text is not None:
        (tmp_path / "0000:1a:00.0").mkdir()
        (tmp_path / "0000:1a:00.0" / "local_cpulist").write_text(text)
    facts = {"pci_domain_id": 0, "pci_bus_id": 0x1A, "pci_device_id": 0}
    assert probe_deep.local_cpus(process_of(**facts)) == cpus


def test_an_older_torch_names_no_bus() -> None:
    assert probe_deep.local_cpus(process_of()) == set()


@pytest.mark.parametrize("elsewhere", [False, True])
def test_memory_beside_a_device_is_allocated_on_usable_processors(
    monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    usable = os.sched_getaffinity(0)
    first = min(usable)
    beside = {max(usable) + 1} if elsewhere else {first}
    monkeypatch.setattr(probe_deep, "local_cpus", lambda process: beside)
    with probe_deep.local_memory(None):
        assert os.sched_getaffinity(0) == (usable if elsewhere else {first})
    assert os.sched_getaffinity(0) == usable


ROW = f"{1 << 29} {1 << 27} float sum -1 {{}} 344.9 344.9 {{}} 1556.7 344.8 344.8 0"


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (
            f"echo '# nccl-tests'; echo '{ROW.format(1556.2, 0)}'",
            {"samples": [344.9, 344.8], "wrong": 0},
        ),
        (f"echo '{ROW.format(1556.2, 7)}'; exit 1", {"samples": [344.9, 344.8], "wrong": 7}),
        (f"echo '{ROW.format(1556.2, 0)}'; exit 3", {"error": "ended with code 3"}),
        ("echo libnccl.so.2 is missing >&2; exit 127", {"error": "libnccl.so.2 is missing"}),
        ("exit 0", {"error": "it printed nothing"}),
        ("echo '# a'; echo '#'; exit 2", {"error": "ended with code 2: # a"}),
        ("sleep 60", {"error": "did not end within"}),
        (None, None),
    ],
)
def test_nccl_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, told: dict[str, Any] | None
) -> None:
    if script is not None:
        program = tmp_path / probe_deep.ALL_REDUCE
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("NCCL_TESTS_HOME", str(tmp_path))
    monkeypatch.setattr(probe_deep, "NCCL_TESTS_S", 60.0 if script != "sleep 60" else 0.2)
    monkeypatch.setitem(sys.modules, "nccl_tests", nccl_tests)  # beside it in the run's folder
    lines: list[dict[str, Any]] = []
    here = {"begin": lambda title: None, "meet": lambda name: None, "node": 3, "local": 0}
    process: Any = SimpleNamespace(per_node=2, **here)
    probe_deep.nccl_tests(process, lambda **line: lines.append(line))
    if told is None:
        assert lines == []
        return
    (line,) = lines
    assert (line["test"], line["node"]) == ("nccl_tests", 3)
    if "error" in told:
        assert told["error"] in line["error"]
    else:
        assert line == {**line, **told, "nodes": [3], "bytes": 1 << 29}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        # Recorded by others, from 2021 (without a root) to 2026.
        (
            "    67108864      16777216     float     sum      -1  2801.78   23.95   44.91       0"
            "  2804.72   23.93   44.86       0",
            (67_108_864, [44.91, 44.86], 0),
        ),
        (
            "  8589934592  1073741824  float  none  -1  249500  34.43  17.21  0"
            "  245143  35.04  17.52  N/A",
            (8_589_934_592, [17.21, 17.52], 0),
        ),
        (
            "[1,0]<stdout>:     1048576        262144   float     sum    105.9    9.90   17.33"
            "  5e-07    105.7    9.92   17.37  5e-07",
            (1_048_576, [17.33, 17.37], 0),
        ),
        ("", None),
        ("1024 256 float sum", None),
        ("1 2 float sum 1.2.3 4 5 0 1 2 3 0", None),
        ("1 2 float sum 1 4 5.6.7 0 1 2 3 0", None),
        ("9" * 600, None),
    ],
)
def test_a_line_of_nccl_tests(line: str, told: tuple[int, list[float], int] | None) -> None:
    row = nccl_tests.row(line)
    assert row == (told and dict(zip(("bytes", "samples", "wrong"), told, strict=True)))


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (["a", "a", "b", "b"], [[0, 1], [2, 3]]),
        (["a", "b", "a", "b", "", "c"], [[0, 2], [1, 3]]),
        # As many of each: the figures of two nodes and of four are not comparable.
        (["a", "a", "a", "b", "b"], [[0, 1], [3, 4]]),
        (["a", "a", "a", "b", "b", "b", "c", "c"], [[0, 1, 2], [3, 4, 5]]),
        (["a", "a", "a", "a"], []),
        (["a", "b", "c", "d"], []),
        (["", "", "", ""], []),
        ([], []),
    ],
)
def test_nodes_of_the_same_switch(names: list[str], groups: list[list[int]]) -> None:
    assert probe_deep.same_switch(names) == groups

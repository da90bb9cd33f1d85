"""Processors beside a device. torch's answer is made up: no GPU is here, nor a second NUMA node."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from node import probe_deep


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

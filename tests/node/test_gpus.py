"""The supervisor's look at GPUs before a run, from what nvidia-smi printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.supervisor.gpus import gpu_fault, nvidia_smi

GPUS = [
    ["0", "GPU-aa11", "4", "143771"],
    ["1", "GPU-bb22", "4", "143771"],
]


def who(pid: int, program: str) -> str:
    return f"pid {pid} ({program}) of alice, 3 days old"


def fault(
    wanted: list[str], computing: list[list[str]], gpus: list[list[str]] = GPUS
) -> tuple[str, str] | None:
    return gpu_fault(wanted, gpus, computing, who)


@pytest.mark.parametrize("wanted", [["0", "1"], ["GPU-bb22", "GPU-aa"], ["MIG-cc/1/0"], []])
def test_idle_gpus_are_fine(wanted: list[str]) -> None:
    assert fault(wanted, []) is None


@pytest.mark.parametrize("word", ["4", "GPU-cc", "nonsense"])
def test_missing_gpu_is_named(word: str) -> None:
    assert fault(["0", word], []) == (
        "no_device",
        f"GPU {word} is not there; nvidia-smi lists 0, 1",
    )


def test_foreign_process_is_named_and_only_on_wanted_gpus() -> None:
    computing = [["GPU-bb22", "4711", "/usr/bin/python3 --token=x"]]
    assert fault(["0"], computing) is None
    words = "GPU 1 is in use by pid 4711 (python3) of alice, 3 days old; end it, or wait for it"
    assert fault(["0", "1"], computing) == ("device_busy", words)
    assert fault(["GPU-bb"], computing) == ("device_busy", words)


def test_words_of_a_sick_driver_are_no_rows() -> None:
    words = ["Unable to determine the device handle for gpu 0000:1B:00.0: GPU is lost", "reboot"]
    assert fault(["1"], [words], [words, *GPUS]) is None
    listed = "GPU 2 is not there; nvidia-smi lists 0, 1"
    assert fault(["2"], [], [words, *GPUS]) == ("no_device", listed)


def test_memory_of_an_unseen_process_shows() -> None:
    gpus = [["0", "GPU-aa", "70000", "143771"]]
    words = "GPU 0 has 70000 of 143771 MiB in use by a process that nvidia-smi does not list"
    words += ", perhaps in a container; end it, or wait for it"
    assert fault(["0"], [], gpus) == ("device_busy", words)


def test_a_line_that_is_no_row_is_no_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho No devices were found\necho NVIDIA L4, 23034, 580.1\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert nvidia_smi() == [{"name": "NVIDIA L4", "memory_mib": "23034", "driver": "580.1"}]

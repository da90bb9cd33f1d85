"""node/driver.py on trees that look like a node's /sys and /proc."""

from pathlib import Path

import pytest

from node.driver import look

OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build\n"
    "GCC version:  gcc version 12.3.0\n"
)
CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def device(root: Path, place: str, vendor: str, kind: str) -> None:
    folder = root / "sys/bus/pci/devices" / place
    write(folder / "vendor", vendor)
    write(folder / "class", kind)


def test_gpus_and_switches_are_counted_by_vendor_and_class(tmp_path: Path) -> None:
    device(tmp_path, "0000:01:00.0", "0x10de", "0x030200")
    device(tmp_path, "0000:02:00.0", "0x10de", "0x030000")
    device(tmp_path, "0000:02:00.1", "0x10de", "0x040300")  # a GPU's sound
    device(tmp_path, "0000:03:00.0", "0x10de", "0x068000")
    device(tmp_path, "0000:04:00.0", "0x1a03", "0x030000")  # the board's own graphics
    found = look({"root": str(tmp_path)})
    assert (found["gpus"], found["switches"]) == (2, 1)
    assert found["loaded"] == ""
    assert not found["nouveau"]


@pytest.mark.parametrize(("text", "version"), [(OPEN, "580.82.07"), (CLOSED, "535.104.05")])
def test_loaded_version_is_read_from_either_place(tmp_path: Path, text: str, version: str) -> None:
    write(tmp_path / "proc/driver/nvidia/version", text)
    assert look({"root": str(tmp_path)})["loaded"] == version
    write(tmp_path / "sys/module/nvidia/version", "550.54.15")
    assert look({"root": str(tmp_path)})["loaded"] == "550.54.15"

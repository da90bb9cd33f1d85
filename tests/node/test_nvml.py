"""A node's GPUs by the driver's library, a small stand-in for which is compiled here."""

import shutil
import subprocess
from pathlib import Path

import pytest

from node import nvml
from runner.results.sample_table import read_samples
from tests.runner.results.made_samples import rows_of

SOURCE = Path(__file__).with_name("fake_nvml.c")
COMPILER = shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler for the stand-in library")


def library(folder: Path, *macros: str) -> str:
    made = folder / "libnvidia-ml.so.1"
    argv = [str(COMPILER), "-shared", "-fPIC", *(f"-D{name}" for name in macros)]
    subprocess.run([*argv, "-o", str(made), str(SOURCE)], check=True)
    return str(made)


def rows(driver: nvml.Driver, looks: int = 1) -> str:
    return nvml.HEADER + "".join(row for _ in range(looks) for row in driver.rows())


def test_a_row_says_what_a_device_tells_and_no_more(tmp_path: Path) -> None:
    first, second = rows_of(read_samples(rows(nvml.Driver(library(tmp_path))).encode()))
    assert (first.device, first.utilisation_percent, first.memory_used_mib) == ("0", 97, 1024)
    assert (first.power_w, first.energy_j, first.temperature_c) == (100, 100, 43)
    assert (first.sm_clock_mhz, first.clock_events) == (1980, 4)
    assert (second.device, second.utilisation_percent, second.temperature_c) == ("1", None, None)
    assert second.energy_j == 100


def test_a_counter_grows_or_begins_again_as_the_library_says(tmp_path: Path) -> None:
    samples = rows_of(read_samples(rows(nvml.Driver(library(tmp_path, "RESET")), 4).encode()))
    assert [s.energy_j for s in samples if s.device == "0"] == [100, 200, 100, 200]


def test_a_library_without_the_counter_is_no_trouble(tmp_path: Path) -> None:
    samples = rows_of(read_samples(rows(nvml.Driver(library(tmp_path, "WITHOUT_ENERGY"))).encode()))
    assert [s.energy_j for s in samples] == [None, None]
    assert [s.power_w for s in samples] == [100, 100]


def test_no_library_is_said(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nothing"):
        nvml.Driver(str(tmp_path / "nothing.so"))

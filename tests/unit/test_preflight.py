"""The supervisor's look at GPUs before a run, from what nvidia-smi printed; and the sampler."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from pathlib import Path

from node.supervisor.gpus import gpu_fault
from runner.base.paths import PROJECT

FILES = PROJECT / "node"
GPUS = [
    ["0", "GPU-aa", "4", "143771"],
    ["1", "GPU-bb", "4", "143771"],
]


def test_idle_gpus_are_fine() -> None:
    assert gpu_fault([0, 1], GPUS, []) is None


def test_missing_gpu_is_named() -> None:
    assert gpu_fault([0, 4], GPUS, []) == ("no_device", "GPU 4 is not there; nvidia-smi lists 0, 1")


def test_foreign_process_is_named_and_only_on_wanted_gpus() -> None:
    computing = [["GPU-bb", "4711", "/usr/bin/python3 --token=x"]]
    assert gpu_fault([0], GPUS, computing) is None
    words = "GPU 1 is in use by pid 4711 (python3); end it, or wait for it"
    assert gpu_fault([0, 1], GPUS, computing) == ("device_busy", words)


def test_memory_of_an_unseen_process_shows() -> None:
    gpus = [["0", "GPU-aa", "70000", "143771"]]
    words = "GPU 0 has 70000 of 143771 MiB in use by somebody not seen here"
    assert gpu_fault([0], gpus, []) == ("device_busy", words)


def test_sampler_writes_a_row_a_second_and_costs_little(tmp_path: Path) -> None:
    out = tmp_path / "samples.csv"
    argv = [sys.executable, "-I", "-S", str(FILES / "sampler.py"), "cpu", str(out)]
    process = subprocess.Popen(argv)
    try:
        until = time.monotonic() + 20
        while out.read_text().count("\n") < 4 if out.exists() else True:
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.1)
        ticks = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    finally:
        process.kill()
        process.wait()
    header, *rows = out.read_text().splitlines()
    assert header.startswith("timestamp, utilization.cpu [%], memory.used [MiB]")
    stamps = [float(row.split(", ")[0]) for row in rows]
    assert all(0.9 < after - before < 2.0 for before, after in itertools.pairwise(stamps))
    assert all(row.endswith(" MiB") and " %" in row for row in rows)
    assert int(ticks[11]) + int(ticks[12]) < 20  # hundredths of a second, start included

"""The sampler that a node runs beside a trainer."""

import itertools
import subprocess
import sys
import time
from pathlib import Path

from node.sampler import Packages
from plugins import program


def test_sampler_writes_a_row_a_second_and_costs_little(tmp_path: Path) -> None:
    out = tmp_path / "samples.csv"
    message = program.message("sampler:sample", {"device": "cpu", "path": str(out)})
    argv = [sys.executable, "-I", "-S", *program.command("sampler:sample"), message]
    process = subprocess.Popen(argv)
    try:
        until = time.monotonic() + 20
        while out.read_text().count("\n") < 4 if out.exists() else True:
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.1)
        ticks = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ended = time.time()
        process.terminate()
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
    header, *rows = out.read_text().splitlines()
    assert header.startswith("timestamp, utilization.cpu [%], memory.used [MiB]")
    stamps = [float(row.split(", ")[0]) for row in rows]
    assert all(0.9 < after - before < 2.0 for before, after in itertools.pairwise(stamps[:-1]))
    assert stamps[-1] > ended - 0.001  # samples span a run to its end; stamps are in milliseconds
    assert all(
        row.endswith((" mJ", "[N/A]")) and " MiB, " in row and " %" in row for row in rows[:-1]
    )
    assert int(ticks[11]) + int(ticks[12]) < 20  # hundredths of a second, start included


def test_a_processors_counter_that_begins_again_goes_on(tmp_path: Path) -> None:
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    (zone / "max_energy_range_uj").write_text("1000000")
    (zone / "energy_uj").write_text("900000")
    (tmp_path / "intel-rapl:0:0").mkdir()  # a part of the package, which has it already
    (tmp_path / "intel-rapl:0:0" / "energy_uj").write_text("5")
    packages = Packages(f"{tmp_path}/intel-rapl:*[0-9]/energy_uj")
    (zone / "energy_uj").write_text("950000")
    assert packages.used_mj() == 50
    (zone / "energy_uj").write_text("100000")
    assert packages.used_mj() == 200
    (zone / "energy_uj").unlink()
    assert packages.used_mj() is None
    assert Packages(f"{tmp_path}/nothing").used_mj() is None

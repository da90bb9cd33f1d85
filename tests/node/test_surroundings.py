"""A look around on this machine: real processes and disks; npu-smi is a stand-in."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from node.supervisor import leftovers, npus, process_scan, surroundings
from node.supervisor.answers import RefusedError
from node.supervisor.orphans import lives
from node.supervisor.process_scan import Around
from node.supervisor.processes import stat_of
from tests.node.test_npu import CHIP, HEAD


def job(tmp_path: Path, **more: Any) -> dict[str, Any]:
    return {"runs": str(tmp_path), "env": {}, "device": "cpu", "device_ids": [0, 1], **more}


def test_a_busy_process_is_timed_and_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(leftovers, "SETTLED_S", 0.0)
    monkeypatch.setattr(leftovers, "NOTED_CORES", leftovers.BUSY)  # where others are busy, too
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        noted: list[str] = []
        until = time.monotonic() + 10
        while not noted and time.monotonic() < until:
            only = Around()
            only.pids = {busy.pid, os.getpid()}  # whatever else this machine does
            noted = surroundings.look_at_processors(job(tmp_path), only)
        (note,) = noted
        assert note.startswith(f"pid {busy.pid} (python")
        assert "of the run's" in note
    finally:
        busy.kill()
        busy.wait()


def test_what_is_hidden_is_no_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As under hidepid=2: this process alone has a folder in /proc. Then none can be read."""
    hidden = Around()
    hidden.pids = {os.getpid()}
    assert surroundings.look_at_processors(job(tmp_path), hidden) == []
    monkeypatch.setattr(process_scan, "read_bytes", lambda path: b"")
    blind = Around()
    assert surroundings.look_at_processors(job(tmp_path), blind) == []
    assert blind.named(os.getpid(), "python3") == f"pid {os.getpid()} (python3)"


def test_a_tools_pid_of_another_namespace_is_nobody_here() -> None:
    own = Around().named(os.getpid(), os.path.basename(sys.orig_argv[0]))
    assert own.startswith(f"pid {os.getpid()} (")
    assert own.endswith(" old")
    assert Around().named(os.getpid(), "megatron") == f"pid {os.getpid()} (megatron)"


@pytest.mark.parametrize("which", ["runs", "scratch", "TMPDIR"])
def test_a_full_disk_is_refused_by_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, which: str
) -> None:
    real, small = os.statvfs, tmp_path / "small"
    small.mkdir()

    class Full:
        f_blocks, f_bavail, f_frsize, f_files, f_favail = 1000, 100, 4096, 0, 0

    monkeypatch.setattr(os, "statvfs", lambda path: Full if path == str(small) else real(path))
    full = str(small / "not there yet")
    spec = (
        job(tmp_path, env={"TMPDIR": full}) if which == "TMPDIR" else job(tmp_path, **{which: full})
    )
    with pytest.raises(RefusedError, match=f"on the disk of {full} and a run needs"):
        surroundings.look_at_disks(spec)
    assert surroundings.look_at_disks(job(tmp_path, env={"HOME": full})) == [
        f"only 0 MiB are free on the disk of {full} and a run needs 1; make room there"
    ]
    assert surroundings.look_at_disks(job(tmp_path, env={"HOME": "/"})) == []


def test_a_job_is_granted_its_part_of_a_nodes_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other jobs of a shared node hold is theirs."""
    text = "MemTotal:  1000000 kB\nMemAvailable:  50000 kB\n"
    monkeypatch.setattr(surroundings, "read_text", lambda path: text)
    (note,) = surroundings.look_at_memory(Around())
    assert note.startswith("only 0.0 of 1.0 GiB of memory are free; pid ")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "4")
    monkeypatch.setenv("SLURM_MEM_PER_CPU", "12")
    assert surroundings.look_at_memory(Around()) == []
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "49")
    assert surroundings.look_at_memory(Around()) != []


def test_devices_are_those_that_the_environment_shows(tmp_path: Path) -> None:
    def shown(**env: str) -> list[str]:
        return surroundings.visible_devices(job(tmp_path, env=env), "CUDA_VISIBLE_DEVICES")

    assert shown() == ["0", "1"]
    assert shown(CUDA_VISIBLE_DEVICES="5, GPU-1a") == ["5", "GPU-1a"]
    assert shown(CUDA_VISIBLE_DEVICES="") == []


def test_a_process_on_an_npu_refuses_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    row = "| 1       0                 | 4711          | python3            | 30145          |\n"
    chips = "".join(CHIP.format(n=n, bus=f"C{n}", health="OK") for n in (0, 1))
    (tmp_path / "table").write_text(HEAD + chips + row)
    program = tmp_path / "npu-smi"
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/table\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(npus, "IDLE_PATIENCE_S", 0.0)

    def who(pid: int, name: str) -> str:
        return f"pid {pid} ({name}) of alice, 3 days old"

    npus.check_npus(["0"], who)
    words = r"NPU 1 is in use by pid 4711 \(python3\) of alice, 3 days old; end it, or wait for it"
    with pytest.raises(RefusedError, match=words):
        npus.check_npus(["0", "1"], who)
    program.write_text("#!/bin/sh\nexit 1\n")
    npus.check_npus(["1"], who)  # one that fails says nothing


def test_a_supervisor_lives_by_its_pid_and_start() -> None:
    entry = stat_of(os.getpid())
    assert entry is not None
    assert lives(f"{os.getpid()}:{entry[1]}")
    assert not lives(f"{os.getpid()}:{entry[1] - 1}")  # a later process has its pid
    assert not lives("4194304:1")  # beyond every pid
    assert lives("of another kind")

"""Samples of a large run are read once, and again when anything that they depend on has changed."""

import os
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from node.files import read_start
from runner.folder import packed
from runner.load import kept_samples
from runner.load.samples import with_fetched
from runner.terms.record import Measurement
from tests.runner.load.test_samples import GPU_POWER_HEADER, a_run, gpu_rows, run_folder


@pytest.fixture
def reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Keep what any samples say, in a cache of the test's own; counts the files that are read."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kept_samples, "LARGE_BYTES", 0)
    counted = Mock(wraps=read_start)
    monkeypatch.setattr(packed, "read_start", counted)
    return counted


def measured(log: Path, warmup_iters: int = 5) -> Measurement:
    run = replace(a_run(), warmup_iters=warmup_iters)
    return with_fetched(run, {0: log}, {0: [0]}).measurement


def test_a_second_look_says_the_same_and_reads_nothing(tmp_path: Path, reads: Mock) -> None:
    log = run_folder(tmp_path / "n1", GPU_POWER_HEADER + gpu_rows(0, 100))
    first = measured(log)
    assert first.energy.joules == pytest.approx(1500)
    assert first.busy[0]
    reads.reset_mock()
    assert measured(log) == first
    assert not reads.called


def test_what_changed_is_read_again(tmp_path: Path, reads: Mock) -> None:
    log = run_folder(tmp_path / "n1", GPU_POWER_HEADER + gpu_rows(0, 100))
    first = measured(log)
    assert measured(log, warmup_iters=10) != first
    path = log.with_name("samples.csv")
    path.write_text(GPU_POWER_HEADER + gpu_rows(0, 300))
    assert measured(log).energy.joules == pytest.approx(4500)
    os.utime(path, (1, 1))  # as in an unpacked archive
    reads.reset_mock()
    measured(log)
    assert reads.called


def test_a_damaged_entry_is_made_again(tmp_path: Path, reads: Mock) -> None:
    log = run_folder(tmp_path / "n1", GPU_POWER_HEADER + gpu_rows(0, 100))
    first = measured(log)
    (entry,) = (tmp_path / "cache" / "trainbench" / "samples").iterdir()
    assert entry.stat().st_mode & 0o777 == 0o600
    whole = entry.read_bytes()
    for damaged in (b"", b"no archive", whole[: len(whole) // 2]):
        entry.write_bytes(damaged)
        assert measured(log) == first
        assert entry.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, reads: Mock) -> None:
    (tmp_path / "cache").write_text("a file")
    log = run_folder(tmp_path / "n1", GPU_POWER_HEADER + gpu_rows(0, 100))
    assert measured(log) == measured(log)


def test_entries_that_nobody_used_go(tmp_path: Path, reads: Mock) -> None:
    log = run_folder(tmp_path / "n1", GPU_POWER_HEADER + gpu_rows(0, 100))
    measured(log)
    (entry,) = (tmp_path / "cache" / "trainbench" / "samples").iterdir()
    old = entry.with_name("0.npz")
    old.write_bytes(b"")
    os.utime(old, (1, 1))
    measured(log, warmup_iters=10)
    assert not old.exists()
    assert entry.exists()

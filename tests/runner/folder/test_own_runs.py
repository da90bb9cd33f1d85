"""What is one's own is known by the bytes that bench wrote, in a place of this user alone."""

import os
from pathlib import Path

import pytest

from runner.folder import own_runs

RUN = Path("/runs/m/c/repeat1/attempt1/run.json")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "trainbench"


def test_only_the_same_bytes_in_the_same_place_are_ones_own(state: Path) -> None:
    assert not own_runs.is_own(RUN, b"{}")
    own_runs.remember(RUN, b"{}")
    own_runs.remember(RUN, b"[]")
    assert own_runs.is_own(RUN, b"{}")
    assert own_runs.is_own(RUN, b"[]")
    assert not own_runs.is_own(RUN, b"{} ")
    assert not own_runs.is_own(Path("/unpacked") / RUN.relative_to("/runs"), b"{}")
    modes = [path.stat().st_mode & 0o777 for path in (state, own_runs.record())]
    assert modes == [0o700, 0o600]


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_record_that_others_can_write_proves_nothing(state: Path, mode: int) -> None:
    own_runs.remember(RUN, b"{}")
    for path, before in ((own_runs.record(), 0o600), (state, 0o700)):
        path.chmod(before | mode)
        assert not own_runs.is_own(RUN, b"{}")
        path.chmod(before)
    assert own_runs.is_own(RUN, b"{}")


def test_a_record_of_another_user_a_link_or_a_pipe_proves_nothing(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_runs.remember(RUN, b"{}")
    record = own_runs.record()
    record.rename(state / "other")
    record.symlink_to("other")
    assert not own_runs.is_own(RUN, b"{}")
    own_runs.remember(RUN, b"[]")  # through the link nothing is written either
    assert (state / "other").read_bytes().count(b"\n") == 1
    record.unlink()
    os.mkfifo(record)
    assert not own_runs.is_own(RUN, b"{}")
    record.unlink()
    (state / "other").rename(record)
    assert own_runs.is_own(RUN, b"{}")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert not own_runs.is_own(RUN, b"{}")


def test_where_nothing_can_be_recorded_bench_goes_on_and_rerun_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    own_runs.remember(RUN, b"{}")
    assert not own_runs.is_own(RUN, b"{}")


def test_a_state_folder_without_a_root_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert own_runs.record() == Path.home() / ".local/state/trainbench/runs.sha256"

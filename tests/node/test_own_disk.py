"""What a node keeps on its own disk while it runs, and how that comes back."""

import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from node.supervisor import names, own_disk, scratch

HEADER = "timestamp, utilization.cpu [%], memory.used [MiB], memory.total [MiB]\n"
ROW = "1700000000.000, 50 %, 100 MiB, 1000 MiB\n"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A run's folder, where it is, and its scratch folder on another disk."""
    (tmp_path / "run").mkdir()
    (tmp_path / "own").mkdir(mode=0o700)
    monkeypatch.chdir(tmp_path / "run")
    return {"dir": str(tmp_path / "run"), "scratch": str(tmp_path / "own"), "flush_s": 10.0}


def test_samples_are_on_the_nodes_own_disk_and_come_back_as_one_file(job: dict[str, Any]) -> None:
    own_disk.keep(job)
    assert job["flush_s"] == 0.0
    Path(own_disk.path_of(job, names.SAMPLES)).write_text(HEADER + ROW)
    Path(names.ARRIVALS).write_text("began 1.000 within_ms 5\n9.0 7\n")  # of a node that is shown
    Path(names.SAMPLES_NOW).write_text(HEADER)
    scratch.remove(job)  # by who ends its processes: what is kept there is not lost
    own_disk.bring(job)
    assert os.listdir() == [names.PACKED]
    assert os.stat(names.PACKED).st_mode & 0o777 == 0o600
    with zipfile.ZipFile(names.PACKED) as packed:
        assert packed.read(names.SAMPLES).decode() == HEADER + ROW
        assert packed.read(names.ARRIVALS).endswith(b"9.0 7\n")
    assert not Path(job["scratch"]).exists()


def test_what_a_sampler_complained_of_comes_back(job: dict[str, Any]) -> None:
    own_disk.keep(job)
    Path(own_disk.path_of(job, names.SAMPLER_TROUBLE)).write_text("no such device\n")
    own_disk.bring(job)
    assert {name: Path(name).read_text() for name in os.listdir()} == {
        names.SAMPLER_TROUBLE: "no such device\n"
    }


def test_a_run_without_a_scratch_folder_packs_what_it_wrote(job: dict[str, Any]) -> None:
    job["scratch"] = ""
    own_disk.keep(job)
    assert job["flush_s"] == 10.0
    Path(own_disk.path_of(job, names.SAMPLES)).write_text(HEADER + ROW)
    own_disk.show_newest(job)
    own_disk.bring(job)
    assert os.listdir() == [names.PACKED]


def test_a_folder_of_another_runs_is_left_alone(job: dict[str, Any]) -> None:
    """A node that is refused, because another run has its scratch folder, brings nothing."""
    (Path(job["scratch"]) / names.SAMPLES).write_text(ROW)
    own_disk.bring(job)
    assert os.listdir() == []
    assert os.listdir(job["scratch"]) == [names.SAMPLES]


def test_a_disk_without_room_loses_samples_and_no_more(
    job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    own_disk.keep(job)
    Path(own_disk.path_of(job, names.SAMPLES)).write_text(HEADER + ROW)
    monkeypatch.setattr(os, "replace", full)
    own_disk.bring(job)
    assert os.listdir() == [names.TROUBLE]
    assert "samples cannot be brought: [Errno 28]" in Path(names.TROUBLE).read_text()
    assert not Path(job["scratch"]).exists()


def test_a_live_view_gets_the_newest_samples(job: dict[str, Any]) -> None:
    own_disk.keep(job)
    rows = [f"{at}.000, 50 %, 100 MiB, 1000 MiB\n" for at in range(1_700_000_000, 1_700_003_600)]
    Path(own_disk.path_of(job, names.SAMPLES)).write_text(HEADER + "".join(rows))
    own_disk.show_newest(job)
    shown = Path(names.SAMPLES_NOW).read_text().splitlines(keepends=True)
    assert (shown[0], shown[-1]) == (HEADER, rows[-1])
    assert len("".join(shown)) <= own_disk.NEWEST_BYTES + len(HEADER)


def test_one_look_at_a_run_is_at_64_nodes_at_most() -> None:
    assert own_disk.looked_at(4) == [0, 1, 2, 3]
    many = own_disk.looked_at(4096)
    assert (len(many), many[0], many[-1]) == (64, 0, 4095)

"""events.jsonl: what happened to a campaign, a line each, also where a bench was killed."""

import json
import math
import stat
from pathlib import Path

from runner.folder import events, names
from runner.folder.events import RUN_ENDED, Event


def ended(cell: str = "a", **more: object) -> Event:
    return Event(event=RUN_ENDED, at=1.8e9, campaign="m", cell=cell, **more)  # type: ignore[arg-type]


def test_what_was_added_is_read_again(tmp_path: Path) -> None:
    said = [ended("a", status="ok", samples_per_s=189.0), ended("b", status="failed", repeat=2)]
    for event in said:
        events.add(tmp_path, event)
    assert events.events(tmp_path) == said
    path = tmp_path / names.HAPPENED
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "loss" not in path.read_text()  # what is not known is left out


def test_a_line_that_was_cut_short_spoils_no_other(tmp_path: Path) -> None:
    events.add(tmp_path, ended("a"))
    with (tmp_path / names.HAPPENED).open("a") as stream:
        stream.write('{"event": "run_en')
    events.add(tmp_path, ended("b"))
    assert [event.cell for event in events.events(tmp_path)] == ["a", "b"]


def test_no_line_of_anybody_else_is_an_event(tmp_path: Path) -> None:
    lines = (b"{}", b"[1]", b"\xff", b'{"event": "rm -rf"}', b"[" * 9999, b'{"at": 1e999}')
    (tmp_path / names.HAPPENED).write_bytes(b"\n".join(lines))
    assert events.events(tmp_path) == []
    assert events.events(tmp_path / "gone") == []


def test_a_number_that_is_none_is_left_out(tmp_path: Path) -> None:
    events.add(tmp_path, ended("a", last_loss=math.nan, reason="two\nlines"))
    (line,) = (tmp_path / names.HAPPENED).read_text().splitlines()
    assert "last_loss" not in json.loads(line)


def test_a_run_is_named_by_its_place_and_repeat() -> None:
    assert ended("a", number=2, runs=4, repeat=3).title == "[2/4] a repeat 3"
    assert ended("a", repeat=1).title == "a"

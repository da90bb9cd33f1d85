"""The timeline: what ran when, what waited, what failed; and time on a line."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.base.paths import TEMPLATES
from runner.figures.goodput import PARTS
from runner.folder import names
from runner.folder.campaign import Campaign
from runner.folder.stored import write_json
from runner.report.timeline import MOST_LANES, Axis, timelines
from runner.results.records import records_of
from runner.tables.build import measured
from runner.terms.outcome import Outcome
from runner.terms.record import Record, Tried
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, torch_gpt, write
from tests.runner.documents import render
from tests.runner.report.test_report import EVIL, Page, failed, record

NOON = 1_790_000_000.0


def ran(at: float, wall_s: float = 100.0, name: str = "n1-zero0", **more: Any) -> Record:
    return record(name, began=NOON + at, wall_s=wall_s, hosts=("n1", "n2"), **more)


def drawn(*records: Record) -> dict[str, Any]:
    (found,) = timelines(measured(records)[0])
    return found


def test_a_block_a_run_in_a_lane_a_cell() -> None:
    second = ran(200, repeat=2, status="failed", reason="boom")
    found = drawn(ran(0), second, ran(100, name="other", zero=1))
    one, other = found["lanes"]
    assert [lane["name"] for lane in (one, other)] == ["n1-zero0", "other"]
    blocks = one["blocks"]
    assert [(b["left"], b["width"], b["status"], b["label"]) for b in blocks] == [
        ("0.00", "33.33", "ok", "1"),
        ("66.67", "33.33", "failed", "2"),
    ]
    assert blocks[1]["title"] == "repeat 2: failed, 2026-09-21 14:16 to 14:18 (100 s), on n1, n2"
    assert other["blocks"][0]["href"] == "other/launcher.log"


def test_what_a_queue_held_it_for_is_a_line_and_one_that_never_began_only_waited() -> None:
    never = ran(300, 0.0, "never", status="did_not_run", reason="gone", queued_s=100.0)
    found = drawn(ran(200, 100.0, queued_s=200.0), never)
    began, waited = found["lanes"]
    assert began["waits"] == [{"left": "0.00", "width": "50.00"}]
    assert began["blocks"][0]["left"] == "50.00"
    assert waited["waits"] == [{"left": "75.00", "width": "25.00"}]
    assert waited["blocks"][0]["width"] == "0.00"
    assert "queued for 3 min before" in began["blocks"][0]["title"]


def test_an_attempt_that_ran_again_is_there_too() -> None:
    before = Tried(1, "node_lost", "n2 is gone", NOON, 50.0, None, ("n1",))
    found = drawn(ran(60, 40.0, attempt=2, tried=(before,)))
    first, second = found["lanes"][0]["blocks"]
    assert (first["status"], first["last"], first["href"]) == ("node_lost", False, None)
    assert first["title"].startswith("repeat 1, attempt 1: node_lost")
    assert second["title"].startswith("repeat 1, attempt 2: ok")
    assert found["again"] == 1


def test_of_many_cells_a_lane_is_a_node_and_specks_are_one_block() -> None:
    many = [ran(10.0 * n, 10.0, f"c{n}", zero=n) for n in range(MOST_LANES * 10)]
    found = drawn(*many)
    assert [lane["name"] for lane in found["lanes"]] == ["n1", "n2"]
    blocks = found["lanes"][0]["blocks"]
    assert 100 < len(blocks) < 250
    assert blocks[0]["title"].startswith("4 runs, ok: 2026-09-21 14:13 to ")
    assert blocks[0]["href"] is None


def test_without_a_time_there_is_none_and_several_campaigns_have_one_each() -> None:
    assert timelines(measured([record(), failed(record("b"))])[0]) == []
    assert "timeline" not in render([record()], "html")
    two = [ran(0), replace(ran(500), campaign="other")]
    assert [each["title"] for each in timelines(measured(two)[0])] == ["zero", "other"]


def test_names_and_hosts_are_text() -> None:
    page = render([replace(ran(0, name=EVIL), hosts=(EVIL,), campaign=EVIL)], "html")
    assert Page(page).open == []
    assert EVIL not in page
    assert 'id="timeline"' in page


def test_ticks_are_round_times_with_their_day_where_it_changes() -> None:
    labels = [tick["label"] for tick in Axis(NOON, NOON + 7200 * 8).ticks()]
    assert labels[0] == "2026-09-21 18:00"
    assert "2026-09-22 00:00" in labels
    assert drawn(ran(0, 0.0))["lanes"][0]["blocks"][0]["left"] == "0.00"
    assert [tick["label"] for tick in Axis(NOON, NOON + 30).ticks()][1:3] == [
        "14:13:30",
        "14:13:35",
    ]


def test_earlier_attempts_come_with_the_record_of_the_last(tmp_path: Path) -> None:
    matrix = small_matrix(defaults={"train_iters": 20})

    def story(cell: object, repeat: int) -> Story:
        return Story({0: torch_gpt(20)})

    campaign: Campaign = write(tmp_path, matrix, small_cluster(1, 1), story)
    (cell,) = matrix.cells
    (first,) = campaign.attempts(cell.id, 1)
    again = campaign.new_attempt(cell.id, 1)
    for path in first.path.iterdir():
        path.rename(again.path / path.name)
    ended = Outcome("node_lost", "", "n1 is gone", started_at=NOON, wall_s=7.0, queued_s=3.0)
    write_json(first.path / names.OUTCOME, ended.to_json())
    (found,) = records_of(campaign, tmp_path)
    assert (found.attempt, found.status) == (2, "ok")
    assert found.tried == (Tried(1, "node_lost", "n1 is gone", NOON, 7.0, 3.0, ()),)


@pytest.mark.parametrize("key", ["wall_s", "queued_s"])
@pytest.mark.parametrize("value", [1e11, 1e300])
def test_no_length_of_time_ends_the_page(key: str, value: float, tmp_path: Path) -> None:
    """Not even one that no clock can show: that run is unreadable, and the others are there."""
    campaign: Campaign = write(
        tmp_path,
        small_matrix({"seed": [1, 2]}, {"train_iters": 20}),
        small_cluster(1, 1),
        lambda cell, repeat: Story({0: torch_gpt(20)}),
    )
    path = min(campaign.path.glob(f"*/*/*/{names.OUTCOME}"))
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    records = records_of(campaign, tmp_path)
    assert Page(render(records, "html")).open == []
    assert sorted(found.status for found in records) == [
        "ok",
        "ok" if value < 1e12 else "unreadable",
    ]


def test_each_part_of_a_runs_time_has_its_colour() -> None:
    style = (TEMPLATES / "page" / "style.css").read_text(encoding="utf-8")
    assert set(re.findall(r"\.spent\.in-(\w+)", style)) == PARTS.keys()

"""Time to a loss and learning alike in a table's formats, from a campaign with seeds."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from runner.results.records import records_of
from runner.terms.cell import Cell
from runner.terms.record import Record
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, torch_gpt, write
from tests.runner.documents import render

SEEDS = [11, 12, 13, 14, 15, 16]


def records(folder: Path, late: int = 10, target: float = 3.0, seeds: Any = SEEDS) -> list[Record]:
    """A campaign in which zero_stage 1 reaches the loss `late` iterations after zero_stage 0.

    Of zero_stage 3 the run of the last seed never does.
    """
    axes = {"zero_stage": [0, 1, 3]}
    matrix = small_matrix(axes, {"train_iters": 40}, seeds=seeds, target_loss=target)

    def story(cell: Cell, repeat: int) -> Story:
        stage = cell.axes["zero_stage"]
        at = 10 + repeat + (late if stage == 1 else 0)
        never = stage == 3 and repeat == len(seeds)
        return Story({0: torch_gpt(40, loss=lambda step: 2.0 if step >= at and not never else 4.0)})

    return records_of(write(folder, matrix, small_cluster(), story), folder)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    return records(tmp_path_factory.mktemp("runs"))


def test_each_run_is_recorded_with_its_seed(measured: list[Record]) -> None:
    assert [record.parameters["seed"] for record in measured] == SEEDS * 3
    assert {record.target_loss for record in measured} == {3.0}


def test_terminal_and_markdown_say_what_a_cell_needs_and_mark_what_learns_slower(
    measured: list[Record],
) -> None:
    text = render(measured, "markdown", "zero_stage=0")
    assert "target loss 3," in text
    for figures in ("6/6 |             14 (11-16)", "24 (21-26)", "5/6 |           14 (from 11)"):
        assert figures in text
    assert (
        "▼ learns_slower: learns slower than its baseline (one-sided p 0.0011) (zero_stage=1)."
        in text
    )
    assert "zero_stage=3: target loss 3 not reached in 40 iterations by 1 of 6 runs." in text
    wide = render(measured, "table", "zero_stage=0", width=400, wide=True)
    assert "slower (p 0.0011)" in wide
    assert "99.98≠▼" in wide
    page = render(measured, "html", "zero_stage=0")
    assert "learns slower than its baseline" in page


def test_csv_and_json_have_the_figures(measured: list[Record]) -> None:
    rows = list(csv.DictReader(io.StringIO(render(measured, "csv", "zero_stage=0"))))
    assert [row["iterations_to_target"] for row in rows] == ["13.5", "23.5", "13.5"]
    assert [row["learns"] for row in rows] == ["", "slower", "alike"]
    assert [row["target_reached"] for row in rows] == ["6", "6", "5"]
    document = json.loads(render(measured, "json", "zero_stage=0"))
    run = document["rows"][2]["runs"][-1]
    assert (run["seed"], run["iterations_to_target"], run["iterations_trained"]) == (16, None, 40)


def test_a_target_that_no_run_reaches_is_no_number(tmp_path: Path) -> None:
    found = records(tmp_path, target=1.0)
    row = json.loads(render(found, "json", "zero_stage=0"))["rows"][1]
    assert row["figures"]["iterations_to_target"] is None
    why = "not reached in 40 iterations by 6 of 6 runs"
    assert row["missing"]["iterations_to_target"] == why
    assert row["missing"]["learns"] == "no run of either reached the loss"
    assert "not reached" in render(found, "table", width=400, wide=True)

"""A search through bench on pretended nodes (pretended.py): what runs, what wins, what is said."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.folder import names
from runner.folder.campaign import Campaign
from runner.launch.status import look
from runner.matrix.file import parse_matrix
from runner.results.records import records_of
from runner.study.showing import to_text
from tests.runner.tune.pretended import Behaviour, Tuning, steady, tune_matrix


def plain(values: Mapping[str, Any], number: int) -> Behaviour:
    """Larger micro batches are faster, ZeRO is slower."""
    return steady(1.0 / values["micro_batch_size"] ** 0.5 + 0.1 * values["zero_stage"] + 0.5)


class KilledError(Exception):
    """What ends the bench."""


def killed_before(run: int) -> Callable[[int], None]:
    """What ends the bench before that run, counted from 0."""

    def kill(number: int) -> None:
        if number == run:
            raise KilledError

    return kill


def test_the_fastest_wins_by_its_long_runs(tmp_path: Path) -> None:
    tuning = Tuning(tmp_path, plain)
    tuned = tuning.go()
    found = tuned.detail
    assert (found["why"], found["winner"]) == ("decided", "micro_batch_size=8,zero_stage=0")
    assert abs(found["figure"] / (0.5 + 8**-0.5) - 1) < 0.01
    lengths = {run["train_iters"] for run in tuning.runs}
    assert lengths == {16, 40}
    assert tuning.runs[0] == {"micro_batch_size": 4, "zero_stage": 0, "train_iters": 16}
    default, second = tuned.tables[0].rows
    assert 14 < default["percent"] < 20
    assert default["low"] > 0
    assert second["to"] == "faster than the second"


def test_the_runs_are_those_of_an_ordinary_campaign(tmp_path: Path) -> None:
    tuning = Tuning(tmp_path, plain)
    tuned = tuning.go()
    campaign = Campaign(tmp_path / "t-rack")
    records = records_of(campaign, tmp_path)
    told = sum(row["runs"] for row in tuned.tables[1].rows)
    assert len(records) == len(tuning.nodes.ran) == told
    status = look(campaign)
    assert (status.runs, status.over) == (len(records), len(records))
    stored = json.loads((campaign.path / names.ANSWER).read_text())
    assert stored == json.loads(to_text(tuned, "json")) | {"cannot_build": {}}
    text = (campaign.path / names.WINNER).read_text()
    (cell,) = parse_matrix(text, "winner.yaml", "winner", lambda _: 1).cells
    assert cell.parameters["micro_batch_size"] == 8
    assert cell.parameters["train_iters"] == 40


def test_the_same_command_goes_on_and_runs_nothing_twice(tmp_path: Path) -> None:
    whole = Tuning(tmp_path / "whole", plain)
    expected = whole.go()
    tuning = Tuning(tmp_path / "parts", plain)
    tuning.nodes.before = killed_before(5)
    with pytest.raises(KilledError):
        tuning.go()
    tuning.nodes.before = lambda _: None
    tuned = tuning.go()
    assert tuned.sentence == expected.sentence
    assert tuning.runs == whole.runs
    before = len(tuning.nodes.ran)
    assert tuning.go().sentence == expected.sentence
    assert len(tuning.nodes.ran) == before


def test_a_search_stopped_before_its_last_comparison_names_the_winner(tmp_path: Path) -> None:
    whole = Tuning(tmp_path / "whole", plain)
    expected = whole.go()

    tuning = Tuning(tmp_path / "parts", plain)
    tuning.nodes.before = killed_before(len(whole.runs) - 1)
    with pytest.raises(KilledError):
        tuning.go()
    tuned = tuning.session.answer()
    assert (tuned.verdict, tuned.exit_code) == ("going_on", 1)
    assert tuned.detail["winner"] == expected.detail["winner"]
    assert tuned.sentence.endswith("; runs that compare it with the default are left")


def test_an_edited_block_is_growth(tmp_path: Path) -> None:
    few = {"micro_batch_size": [4, 2], "zero_stage": [0, 1]}
    tuning = Tuning(tmp_path, plain, tune_matrix(few))
    assert tuning.go().detail["winner"] == "micro_batch_size=4,zero_stage=0"
    first = list(tuning.runs)
    tuning.matrix = tune_matrix({"micro_batch_size": [4, 2, 8], "zero_stage": [0, 1]})
    tuned = tuning.go()
    assert tuned.detail["winner"] == "micro_batch_size=8,zero_stage=0"
    again = [run for run in tuning.runs[len(first) :] if run["train_iters"] == 16]
    assert all(run["micro_batch_size"] == 8 for run in again)
    assert sum(row["runs"] for row in tuned.tables[1].rows) == len(tuning.runs)


def test_a_slow_run_is_ended_early_and_no_failure(tmp_path: Path) -> None:
    def behave(values: Mapping[str, Any], number: int) -> Behaviour:
        return steady(5.0 if values["zero_stage"] == 2 else 1.0)

    knobs = {"zero_stage": [0, 2]}
    tuning = Tuning(tmp_path, behave, tune_matrix(knobs))
    tuning.nodes.waits_s = 3.0
    tuned = tuning.go()
    states = {one["candidate"]: one["state"] for one in tuned.tables[1].rows}
    assert states == {"zero_stage=0": "winner", "zero_stage=2": "ended early"}
    assert tuning.code == 0
    (early,) = [row for row in tuned.tables[1].rows if row["state"] == "ended early"]
    assert 4 < early["measured"] < 6
    assert "a step took" in early["reason"]


def test_nodes_that_carry_out_no_run_stop_the_search(tmp_path: Path) -> None:
    def behave(values: Mapping[str, Any], number: int) -> Behaviour:
        lost = {"cause": "unreachable", "message": "n1 cannot be reached"}
        return steady(1.0, iterations=1, halt=lost)

    tuning = Tuning(tmp_path, behave)
    tuned = tuning.go()
    assert (tuned.verdict, len(tuning.nodes.ran)) == ("going_on", 4)
    assert "4 runs in a row could not be carried out: n1 cannot be reached" in tuned.notes[-1]


def test_a_budget_of_zero_runs_nothing(tmp_path: Path) -> None:
    tuning = Tuning(tmp_path, plain, budget=0.0)
    tuned = tuning.go()
    assert (tuned.verdict, tuning.code, tuning.nodes.ran) == ("going_on", 1, [])
    assert tuned.notes[-1] == "not over: the budget of 0 node-hours is spent"
    assert not (tmp_path / "t-rack").exists()


def test_a_budget_stops_the_search_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    whole = Tuning(tmp_path / "whole", plain)
    whole.go()
    tuning = Tuning(tmp_path / "parts", plain, budget=1e-9)
    stopped = tuning.go()
    assert (stopped.verdict, tuning.code, len(tuning.runs)) == ("going_on", 1, 1)
    assert stopped.sentence.startswith("fastest so far: micro_batch_size=4,zero_stage=0, ")
    assert stopped.detail["winner"] == "micro_batch_size=4,zero_stage=0"
    assert (tmp_path / "parts" / "t-rack" / names.WINNER).is_file()
    tuning.budget = 1e9
    assert (tuning.go().verdict, tuning.runs) == ("winner", whole.runs)

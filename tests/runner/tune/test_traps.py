"""What a search must not fall for, through bench, logs and judgement on pretended nodes."""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.base.errors import UserError
from runner.matrix.file import parse_matrix
from runner.study.showing import to_text
from runner.study.study import Answer
from runner.terms.cell import Matrix
from runner.terms.tuning import OBJECTIVES, Objective
from tests.runner.campaigns import OUT_OF_MEMORY
from tests.runner.tune.pretended import Behaviour, Tuning, steady, tune_matrix

KNOBS = {"micro_batch_size": [4, 8], "zero_stage": [0, 1]}
BEST = "micro_batch_size=8,zero_stage=0"
SECOND = "micro_batch_size=8,zero_stage=1"


def step_s(values: Mapping[str, Any]) -> float:
    return float(1.0 - 0.05 * values["micro_batch_size"] + 0.1 * values["zero_stage"])


def is_best(values: Mapping[str, Any]) -> bool:
    return (values["micro_batch_size"], values["zero_stage"]) == (8, 0)


def searched(folder: Path, trap: Any) -> Answer:
    """Search where the fastest candidate behaves as `trap(values, number)` says."""

    def behave(values: Mapping[str, Any], number: int) -> Behaviour:
        found: Behaviour | None = trap(values, number) if is_best(values) else None
        return found or steady(step_s(values))

    return Tuning(folder, behave, tune_matrix(KNOBS)).go()


def candidate(tuned: Answer, name: str) -> Mapping[str, Any]:
    (one,) = (each for each in tuned.tables[1].rows if each["candidate"] == name)
    return one


def test_slower_in_each_second_half_is_refused_by_name(tmp_path: Path) -> None:
    tuned = searched(tmp_path, lambda *_: Behaviour(lambda n: 0.3 + 0.005 * n))
    assert tuned.detail["winner"] == SECOND
    assert candidate(tuned, BEST)["state"] == "refused"
    assert "it grows slower" in candidate(tuned, BEST)["reason"]
    assert f"faster, but refused: {BEST}" in to_text(tuned, "table")


def test_out_of_memory_late(tmp_path: Path) -> None:
    def late(values: Mapping[str, Any], number: int) -> Behaviour | None:
        long = values["train_iters"] > 16
        return steady(0.6, iterations=20, error=OUT_OF_MEMORY) if long else None

    tuned = searched(tmp_path, late)
    assert tuned.detail["winner"] == SECOND
    assert "memory" in candidate(tuned, BEST)["reason"]


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda n: 8.0 - 0.0001 * n, "loss diverges from baseline"),
        (lambda n: math.nan if n > 5 else 8.0, "NaN"),
    ],
    ids=["learns something else", "NaN"],
)
def test_a_wrong_loss_is_no_winner(tmp_path: Path, loss: Any, words: str) -> None:
    tuned = searched(tmp_path, lambda *_: steady(0.3, loss=loss))
    assert tuned.detail["winner"] == SECOND
    assert candidate(tuned, BEST)["state"] == "refused"
    assert words.lower() in candidate(tuned, BEST)["reason"].lower()


def test_where_runs_of_one_setting_differ_as_much_no_loss_is_wrong(tmp_path: Path) -> None:
    """As Llama 3 8B's at a learning rate that is too high: the repeats of the final say so."""

    def behave(values: Mapping[str, Any], number: int) -> Behaviour:
        off = 0.6 if (number + is_best(values)) % 2 else 0.0
        return steady(step_s(values), loss=lambda n: 8.0 / (1 + 0.05 * n) + off * (n > 8))

    tuned = Tuning(tmp_path, behave, tune_matrix(KNOBS)).go()
    assert tuned.detail["winner"] == BEST


def test_none_legal_says_why(tmp_path: Path) -> None:
    knobs = {"tensor_parallel": [3, 5]}
    with pytest.raises(UserError, match="none of the 2 combinations of the knobs can run: "):
        Tuning(tmp_path, lambda *_: steady(1.0), tune_matrix(knobs)).go()


def test_energy_of_cpus_is_refused_beforehand(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has CPUs; ask for objective: step_time"):
        Tuning(tmp_path, lambda *_: steady(1.0), tune_matrix(objective="energy")).go()


def command(knobs: Mapping[str, Any], argv: list[str], **more: Any) -> Matrix:
    content = {
        "name": "t",
        "defaults": {
            "system": "command",
            "cwd": "/srv/trainer",
            "argv": argv,
            "nodes": 2,
            "batch": 32,
            "train_iters": 16,
            "samples_per_step": "batch",
            "log": {
                "step": r"torch_gpt step=(\d+)/(\d+)",
                "loss": r"loss=(\S+)",
                "samples_per_s": r"samples_per_s=(\S+)",
                "step_time": {"pattern": r"step_time_ms=(\S+)", "unit": "ms"},
            },
            **more,
        },
        "tune": {"knobs": dict(knobs)},
    }
    return parse_matrix(json.dumps(content), "t.yaml", "t", lambda _: 1)


def test_a_knob_that_nothing_reads_cannot_run(tmp_path: Path) -> None:
    matrix = command({"unread": [1, 2]}, ["python3", "t.py", "{batch}"])
    with pytest.raises(UserError, match="unread"):
        Tuning(tmp_path, lambda *_: steady(1.0), matrix).go()


def test_tokens_that_are_not_batch_times_length_are_refused(tmp_path: Path) -> None:
    """One value of the knob makes the log's rate that of half the batch that the matrix says."""

    def behave(values: Mapping[str, Any], number: int) -> Behaviour:
        wrong = values["workers"] == 4
        return steady(0.5, rate=0.5) if wrong else steady(1.0)

    argv = ["python3", "t.py", "{batch}", "{workers}", "{train_iters}"]
    tuned = Tuning(tmp_path, behave, command({"workers": [1, 4]}, argv)).go()
    assert tuned.detail["winner"] == "workers=1"
    assert "32 samples an iteration, and rate x time" in candidate(tuned, "workers=4")["reason"]
    assert "faster, but refused: workers=4" in to_text(tuned, "table")


@pytest.mark.parametrize("of_time", [True, False])
def test_an_objective_says_whether_its_figure_is_predicted_as_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_time: bool
) -> None:
    monkeypatch.setitem(OBJECTIVES, "loss", Objective("least loss", "nats", of_time))
    tuning = Tuning(tmp_path, lambda *_: steady(1.0), tune_matrix(objective="loss"))
    assert tuning.study.search.knowledge.of_time == of_time


@pytest.mark.parametrize(("gain", "known"), [(0.1, False), (0.5, True)])
def test_a_gain_whose_interval_holds_0_is_no_winner_and_pays_nothing(
    tmp_path: Path, gain: float, known: bool
) -> None:
    def behave(values: Mapping[str, Any], number: int) -> Behaviour:
        noise = (0.0, 0.3, -0.2, 0.25, -0.3, 0.1)[(number + 3 * values["zero_stage"]) % 6]
        return steady((1 - gain * values["zero_stage"]) * (1 + noise * (0.1 if known else 1)))

    tuning = Tuning(tmp_path, behave, tune_matrix({"zero_stage": [0, 1]}))
    tuned = tuning.go()
    assert tuned.verdict == ("winner" if known else "default_kept")
    (winner,) = tmp_path.glob("*/winner.yaml")
    (cell,) = parse_matrix(winner.read_text(), "winner.yaml", "winner", lambda _: 1).cells
    assert cell.parameters["zero_stage"] == int(known)
    assert (tuned.detail["pays_after"] is not None, tuning.code) == (known, 0 if known else 3)
    unsure = (
        r"the default is kept: zero_stage=\d is fastest by its mean, and perhaps no faster than"
    )
    assert bool(re.match(unsure, tuned.sentence)) == (not known), tuned.sentence
    told = re.search(r"; it takes (about \d+|more than 100) long runs of each", tuned.sentence)
    assert bool(told) != known


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_words_of_a_run_reach_no_terminal_and_no_markup(tmp_path: Path, form: str) -> None:
    boom = steady(1.0, iterations=2, error="<script>\x1b[31mboom\n")
    text = to_text(Tuning(tmp_path, lambda *_: boom).go(), form)
    assert "no winner: no candidate ended well" in text
    assert "\x1b" not in text

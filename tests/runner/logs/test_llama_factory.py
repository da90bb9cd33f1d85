"""LLaMA-Factory's trainer_log.jsonl (ff6d4d12 src/llamafactory/train/callbacks.py:282-310)."""

import json
from typing import Any

import pytest

from runner.logs.kinds import readers_of_family
from runner.logs.measure import measure
from runner.terms.record import Measurement

pytestmark = pytest.mark.made_log


def line(step: int, **more: Any) -> str:
    return json.dumps({"current_steps": step, "total_steps": 60, **more})


def of(*lines: str) -> Measurement:
    return measure(readers_of_family("llama_factory"), {0: ["\n".join((*lines, "")).encode()]})


def test_a_line_has_the_time_and_tokens_since_the_one_before() -> None:
    """20 s for the first 10 steps, then 5 s; throughput is since the beginning."""
    found = of(
        line(10, loss=1.5, throughput=1000.0, total_tokens=20_000, elapsed_time="0:00:20"),
        line(20, loss=1.25, throughput=1600.0, total_tokens=40_000, elapsed_time="0:00:25"),
        line(20, eval_loss=1.125, elapsed_time="0:00:31"),
    )
    assert [(step.iteration, step.loss) for step in found.intervals] == [(10, 1.5), (20, 1.25)]
    assert found.intervals[1].step_time_ms == 500
    assert found.intervals[1].tokens_per_s == 4000
    assert (found.train_iters, found.validation) == (60, ((20, 1.125),))


def test_whole_seconds_say_a_time_where_they_are_enough() -> None:
    found = of(*(line(at, loss=1.0, elapsed_time=f"0:00:{at:02}") for at in (10, 20, 30, 40, 50)))
    times = [step.step_time_ms for step in found.intervals]
    assert times == [None, None, 1000, None, None]
    assert {step.tokens_per_s for step in found.intervals} == {None}


def test_parse_knows_it(read: Any) -> None:
    result = read([line(10, loss=1.5), line(20, loss=float("nan"))])
    assert (result["system"], result["family"], result["nan"]) == ("command", "llama_factory", 1)

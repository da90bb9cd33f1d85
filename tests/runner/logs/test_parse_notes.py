"""Where lines have tokens/s alone: what follows from it, what is missing, and what cures that."""

from collections.abc import Mapping
from typing import Any

import pytest

from runner.logs.kind import Kind
from runner.logs.logged_step import LoggedStep
from runner.logs.parse_notes import Tokens, explained
from runner.logs.run_sizes import Known
from runner.logs.totals import LogTotals


class Lines(Kind):
    """Lines of tokens/s, which are no system's."""

    gives = ("tokens_per_s",)

    def feed(self, text: bytes) -> list[LoggedStep]:
        """Read nothing: the steps are made by hand."""
        return []


def told(
    given: Known, facts: Mapping[str, str], batch: int | None = None, **step: Any
) -> tuple[LogTotals, Tokens, str]:
    """What is made of two lines."""
    totals = LogTotals(global_batch_size=batch)
    steps = [LoggedStep(iteration=at, iterations=1, **step) for at in (1, 2)]
    for line in steps:
        given.or_by(facts).complete(line)
    totals.add(steps)
    tokens = Tokens.of(totals, given.or_by(facts))
    return totals, tokens, "; ".join(explained(Lines, totals, tokens, given, facts))


def test_a_devices_tokens_are_the_jobs_by_the_number_of_devices() -> None:
    totals, tokens, why = told(Known(devices=8), {}, device_tokens_per_s=1000.0)
    assert (tokens.job, tokens.device) == (8000, 1000)
    assert totals.samples_per_s.mean() is None
    assert "tokens per sample are unknown (--tokens-per-sample N)" in why


def test_without_the_number_of_devices_nothing_is_said_of_the_job() -> None:
    totals, tokens, why = told(Known(100), {}, device_tokens_per_s=1000.0)
    assert (tokens.job, tokens.device, totals.samples_per_s.mean()) == (None, 1000, None)
    assert "no tokens/s of the job: the lines have a device's (--devices N)" in why


def test_samples_and_step_time_follow_from_tokens() -> None:
    facts = {"tokens_per_sample": "500", "devices": "2"}
    totals, tokens, why = told(Known(), facts, 32, device_tokens_per_s=1000.0)
    assert (tokens.job, totals.samples_per_s.mean(), totals.step_time_ms.mean()) == (
        2000,
        4,
        8000,
    )
    assert "samples/s from tokens/s and 500 tokens per sample" in why
    assert "step time from the batch size and samples/s" in why


def test_what_the_user_says_counts_and_a_log_that_says_other_is_named() -> None:
    facts = {"tokens_per_sample": "500", "devices": "2"}
    _, tokens, why = told(Known(1000, 4), facts, device_tokens_per_s=1000.0)
    assert tokens.job == 4000
    assert "the log says 500, not --tokens-per-sample 1000" in why
    assert "the log says 2, not --devices 4" in why


@pytest.mark.parametrize("size", ["0", "x", "1_000", "9" * 20])
def test_a_fact_that_is_no_size_is_none(size: str) -> None:
    _, tokens, _ = told(Known(), {"devices": size}, device_tokens_per_s=1000.0)
    assert (tokens.job, tokens.device) == (None, 1000)


def test_the_jobs_own_rate_is_not_replaced() -> None:
    _, tokens, why = told(Known(100, 8), {}, device_tokens_per_s=1000.0, tokens_per_s=7900.0)
    assert tokens.job == pytest.approx(7900)
    assert tokens.device == 1000
    assert "no tokens/s" not in why

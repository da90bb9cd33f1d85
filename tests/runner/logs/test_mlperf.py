"""MLPerf's events, as mlperf_logging.mllog 7bbf792 wrote them from a toy training (16 samples of 64
a step, 24 steps, evaluated each 8): `blocks.log` by the custom of AMD's submissions, `steps.log` by
that of NVIDIA's callbacks.
"""

import json
from typing import Any

import pytest

from runner.base.paths import PROJECT
from runner.logs.kinds import readers_of_family
from runner.logs.measure import measure

DATA = PROJECT / "tests" / "data" / "mlperf"
READERS = readers_of_family("mlperf")
BLOCKS = (DATA / "blocks.log").read_bytes()


def event(key: str, value: Any, **metadata: Any) -> dict[str, Any]:
    return {"time_ms": 1795360158501, "key": key, "value": value, "metadata": metadata}


def lines(*events: dict[str, Any]) -> bytes:
    return "".join(f":::MLLOG {json.dumps(one)}\n" for one in events).encode()


def test_blocks_are_windows_without_evaluations() -> None:
    found = measure(READERS, {0: [BLOCKS]})
    assert [step.iteration for step in found.intervals] == [8, 16, 24]
    assert [step.iterations for step in found.intervals] == [8, 8, 8]
    assert found.intervals[0].step_time_ms == (1795360159070 - 1795360158501) / 8
    assert found.intervals[0].samples_per_s == pytest.approx(16 * 8000 / 569)
    assert found.intervals[-1].loss == 0.03230590373277664
    assert found.facts == {"tokens_per_sample": "64"}


def test_steps_of_tracked_stats() -> None:
    found = measure(READERS, {0: [(DATA / "steps.log").read_bytes()]})
    assert [step.iteration for step in found.intervals] == list(range(2, 25, 2))
    assert {step.iterations for step in found.intervals} == {1}  # a time is of one step
    assert found.intervals[0].step_time_ms == pytest.approx(36.61489486694336)
    assert found.intervals[0].loss == 5.190823554992676


def test_auto(read: Any) -> None:
    result = read(BLOCKS)
    assert (result["system"], result["family"]) == ("command", "mlperf")
    assert (result["logged_lines"], result["step_time_ms"]) == (3, pytest.approx(52.166667))
    assert result["step_time_ms_median"] == 45.25
    assert result["samples_per_s"] == pytest.approx(16000 / 52.166667)
    assert result["status"] == "ok"


@pytest.mark.parametrize(
    "events",
    [
        [event("block_start", None, samples_count=0), event("block_stop", None, samples_count=128)],
        [event("global_batch_size", 16), event("block_stop", None, samples_count=128)],
        [
            *(event("global_batch_size", 16), event("block_start", None, samples_count=0)),
            event("block_stop", None, samples_count=130),
        ],
        [event("block_start", None, first_epoch_num=1), event("block_stop", None, epoch_count=1)],
        [event("tracked_stats", {"throughput": 3.0}, step=[2, 3021])],
        [{"metadata": {"samples_count": "x"}, "key": ["block_stop"]}],
    ],
)
def test_events_that_say_no_whole_steps_are_none(events: list[dict[str, Any]], read: Any) -> None:
    assert measure(READERS, {0: [lines(*events)]}).intervals == ()
    result = read(lines(*events))
    assert (result["system"], result["status"]) == ("command", "no_step")


@pytest.mark.parametrize(
    ("batch", "counts", "steps"),
    [(16, [1, 2, 16, 32], [1, 2, 16, 32]), (16, [16, 32], [1, 2]), (None, [5, 6], [5, 6])],
)
def test_stats_by_step_are_of_steps_or_of_samples(
    batch: int | None, counts: list[int], steps: list[int]
) -> None:
    """NeMo's callbacks of NVIDIA's submissions have no samples_count."""
    value = {"train_step_time": 0.5, "reduced_train_loss": 5.1}
    events = [event("tracked_stats", value, step=count) for count in counts]
    size = [event("global_batch_size", batch)] if batch else []
    read = measure(READERS, {0: [lines(*size, *events)]}).intervals
    assert [step.iteration for step in read] == steps
    assert {step.step_time_ms for step in read} == {500}


def test_a_block_that_ends_with_its_starts_samples_ends_where_the_next_begins() -> None:
    def at(ms: int, key: str, samples: int) -> dict[str, Any]:
        return {**event(key, None, samples_count=samples), "time_ms": ms}

    events = [
        event("global_batch_size", 4),
        *(at(1000, "block_start", 0), at(1400, "block_stop", 0)),
        *(at(2000, "block_start", 32), at(2800, "block_stop", 32), at(3000, "block_start", 64)),
    ]
    read = measure(READERS, {0: [lines(*events)]}).intervals
    assert [(s.iteration, s.iterations, s.step_time_ms) for s in read] == [(8, 8, 50), (16, 8, 100)]


def test_a_loss_that_is_nan_and_one_that_is_missing() -> None:
    size, stop = event("global_batch_size", 4), event("block_stop", None, step=2)
    stop["time_ms"] += 50
    start, loss = event("block_start", None, step=0), event("train_loss", float("nan"))
    (step,) = measure(READERS, {0: [lines(size, start, loss, stop)]}).intervals
    assert (step.loss, step.nan, step.step_time_ms) == (None, 1, 25)
    (step,) = measure(READERS, {0: [lines(size, start, stop)]}).intervals
    assert (step.loss, step.nan) == (None, 0)


BERT = [  # NVIDIA's of 4.0: one block of all, samples as epoch_num, evaluations in it
    event("global_batch_size", 448),
    event("block_start", None, first_epoch_num=1, epoch_count=1),
    *(
        {**event(key, None, epoch_num=448 * steps), "time_ms": 1795360158501 + at}
        for key, steps, at in (
            *(("eval_start", 100, 20_000), ("eval_stop", 100, 21_000)),
            *(("eval_start", 200, 41_000), ("eval_stop", 200, 42_500)),
        )
    ),
]
STOPPED = {**event("run_stop", None, status="aborted"), "time_ms": 1795360158501 + 42_500}


@pytest.mark.parametrize(
    "end",
    [
        [{**STOPPED, "key": "block_stop", "metadata": {"first_epoch_num": 1}}, STOPPED],
        [STOPPED],  # within its block
    ],
)
def test_blocks_of_an_aborted_run(read: Any, end: list[dict[str, Any]]) -> None:
    (step,) = measure(READERS, {0: [lines(*BERT, *end)]}).intervals
    assert (step.iteration, step.iterations, step.step_time_ms) == (200, 200, 200.0)
    result = read(lines(*BERT, *end))
    assert (result["status"], result["logged_lines"]) == ("unfinished", 1)
    assert '"status": "aborted"' in result["reason"]


def test_an_aborted_run_ends_the_block_that_it_is_in() -> None:
    events = [
        event("global_batch_size", 16),
        event("block_start", None, samples_count=0),
        {**event("train_loss", 2.5, samples_count=160), "time_ms": 1795360159001},
        {**event("run_stop", None, status="aborted", samples_count=160), "time_ms": 1795360159501},
    ]
    (step,) = measure(READERS, {0: [lines(*events)]}).intervals
    assert (step.iteration, step.step_time_ms, step.loss) == (10, 100.0, 2.5)


def test_numbers_of_epochs_are_no_samples() -> None:
    events = [event("global_batch_size", 4), event("block_start", None, first_epoch_num=1)]
    events += [event("eval_start", None, epoch_num=4 * n) for n in (1, 2)]
    events += [{**event("block_stop", None, first_epoch_num=1), "time_ms": 1795360199501}, STOPPED]
    assert measure(READERS, {0: [lines(*events)]}).intervals == ()

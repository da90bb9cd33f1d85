"""One verdict a cell: publishable, or why not. Before db77624's successors there was none."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from runner.figures.cell_statistics import cell_statistics
from runner.figures.parity import Parity
from runner.figures.power import POWER_CAP
from runner.figures.publishable import (
    CODES,
    CellEvidence,
    at_once,
    verdict,
)
from runner.figures.target import Alike
from runner.terms.cell import FEWEST_REPEATS
from runner.terms.record import (
    MIXED_FP8,
    NOT_ENDED,
    Interval,
    Measurement,
    Record,
    Telemetry,
)
from tests.runner.figures.test_warmup_and_drift import noise

PINNED = {"fingerprints": {"system torch_gpt/2.13": {"commit": "c0ffee"}, "dataset d": {"a": "1"}}}
WHOLE = Telemetry(gap_s=1.2, before_mib=4.0)


def run(
    repeat: int = 1,
    times: Sequence[float] | None = None,
    status: str = "ok",
    losses: Mapping[int, float] | None = None,
    **more: Any,
) -> Record:
    """A run on an H200 against which nothing speaks, but for what is given."""
    times = noise(30, repeat, 0.5) if times is None else times
    intervals = tuple(
        Interval(step, step_time_ms=time, loss=(losses or {}).get(step, 3.0))
        for step, time in enumerate(times, 1)
    )
    measured: dict[str, Any] = {"telemetry": WHOLE, "unmeasured": 0}
    measured |= {name: more.pop(name) for name in measured if name in more}
    facts: dict[str, Any] = {
        "fingerprinted": ("system torch_gpt/2.13", "dataset d"),
        "environment": PINNED,
        "device": "NVIDIA H200",
        "device_kind": "cuda",
        "arithmetic": "bf16",
        "hosts": ("n1",),
        "began": 1000.0 * repeat,
        "wall_s": 60.0,
    }
    record = Record("c", "a", "a-1", "torch_gpt", status, "", repeat, global_batch_size=8)
    return replace(record, measurement=Measurement(intervals, **measured), **{**facts, **more})


def judged(records: Sequence[Record], **more: Any) -> dict[str, str]:
    return verdict(CellEvidence(records, cell_statistics(records), **more))


def three(**more: Any) -> list[Record]:
    return [run(repeat, **more) for repeat in (1, 2, 3)]


def test_a_cell_against_which_nothing_speaks_is_publishable() -> None:
    assert judged(three()) == {}
    capped = replace(WHOLE, throttled=(POWER_CAP,))
    assert judged(three(telemetry=capped)) == {}  # a busy device is at its power cap


@pytest.mark.parametrize(
    ("word", "records", "why"),
    [
        ("not_ok", [*three(), run(4, status="failed")], "3 of 4 repeats ended ok"),
        ("nan", three(losses={20: float("nan")}), "infinite in 3 lines"),
        ("not_measured", three(unmeasured=2), "left out"),
        (
            "throttled",
            three(telemetry=replace(WHOLE, throttled=(POWER_CAP, "power brake"))),
            "power brake",
        ),
        ("not_clean", three(telemetry=replace(WHOLE, before_mib=600.0)), "600 MiB of a device"),
        ("not_clean", three(noted=("n1: only 2 GiB",)), "n1: only 2 GiB"),
        ("not_clean", [run(n, noted=(f"n{n}: x",)) for n in (1, 2, 3)], "n1: x (and 2 more)"),
        ("other_nodes", [run(1), run(2), run(3, hosts=("n2",))], "repeat 3 on n2"),
        ("drift", [run(n, [100.0 + step for step in range(30)]) for n in (1, 2, 3)], "step time +"),
        ("wide_spread", [run(n, noise(30, n, 0.5, 90 + 5 * n)) for n in (1, 2, 3)], "the repeats"),
        ("few_steps", [run(n, noise(10, n, 0.5)) for n in (1, 2, 3)], "9 counted steps"),
        ("few_repeats", three()[:2], "2 repeats"),
        ("telemetry_gap", three(telemetry=Telemetry(gap_s=9.0)), "no sample of a device for 9.0 s"),
        ("telemetry_gap", three(telemetry=Telemetry(missing="not sampled")), "not sampled"),
        ("unpinned", three(environment={}), "system torch_gpt/2.13 and dataset d"),
        ("unpinned", three(fingerprinted=()), "what it ran was not recorded"),
        ("unknown_peak", three(device="NVIDIA H900"), "no data sheet's peak"),
        ("unknown_peak", three(device=""), "different devices"),
        ("unknown_peak", three(arithmetic=None), "in which precision"),
        ("no_single_peak", three(arithmetic=MIXED_FP8), "fp8 and bf16 products mix, so that MFU"),
        ("unfused_attention", three(attention="unfused"), "written out to memory"),
        ("unfused_attention", three(attention="flash,math"), "written out to memory"),
        ("forced_balance", three(parameters={"routing": "balanced"}), "each expert got as many"),
    ],
)
def test_each_code_holds_alone(word: str, records: list[Record], why: str) -> None:
    found = judged([replace(record, warmup_iters=1) for record in records])
    assert list(found) == [word]
    assert why in found[word]


def test_a_first_line_that_is_counted_is_told() -> None:
    (one,) = (run(1, [5000.0], warmup_iters=None),)
    assert judged([one])["warmup_counted"].startswith("the only counted line is a run's first")
    slow = [run(n, [900.0, *noise(30, n, 0.5)], warmup_iters=0) for n in (1, 2, 3)]
    assert judged(slow)["warmup_counted"].startswith("among 93 counted lines is a run's first")
    assert judged([replace(record, warmup_iters=1) for record in slow]) == {}


def test_a_run_without_a_time_is_not_measured() -> None:
    """Such a cell was publishable, without a figure, or with that of one run for all three."""

    def untimed(record: Record) -> Record:
        steps = (replace(step, step_time_ms=None) for step in record.measurement.intervals)
        return replace(record, measurement=replace(record.measurement, intervals=tuple(steps)))

    first, *others = (replace(record, warmup_iters=0) for record in three())
    none = [untimed(record) for record in (first, *others)]
    assert judged(none) == {"not_measured": "no time or rate was logged by 3 of 3 runs"}
    assert judged([first, *map(untimed, others)]) == {
        "not_measured": "no time or rate was logged by 2 of 3 runs"
    }
    lacks = {"step_time": "`step_time` matched no line of a step", "loss": "`loss` matched none"}
    unmatched = [replace(one, measurement=replace(one.measurement, missing=lacks)) for one in none]
    assert judged(unmatched)["not_measured"] == (
        "no time or rate was logged by 3 of 3 runs: `step_time` matched no line of a step; `loss`"
        " matched none"
    )
    no_batch = [replace(record, global_batch_size=None) for record in (first, *others)]
    assert judged(no_batch) == {}


def test_what_stands_beside_a_cell_is_judged_too() -> None:
    far, near, larger = {("n2",): "b"}, {("n1",): "b"}, {("n2", "n1"): "b"}
    assert judged(three(), nodes_beside=far) == {"other_nodes": "ran on n1, b on n2"}
    assert judged(three(), nodes_beside=near) == judged(three(), nodes_beside=larger) == {}
    assert list(judged(three(), meanwhile="b")) == ["shared_nodes"]
    assert list(judged(three(), meanwhile="b", beside="b")) == ["shared_nodes"]
    assert judged(three(), beside="b") == {
        "side_by_side": "b ran at the same time on other nodes of the cluster"
    }
    slower, faster = (Alike(verdict, 0.001) for verdict in ("slower", "faster"))
    assert list(judged(three(), learning=slower)) == ["learns_slower"]
    assert list(judged(three(), learning=faster)) == ["learns_faster"]
    assert judged(three(), learning=Alike("alike", 0.4)) == {}
    other = Parity(same=False, points=20, at=10, by=0.5, tolerance=0.1)
    assert list(judged(three(), parity=other)) == ["loss_parity"]
    assert judged(three(), parity=replace(other, same=True)) == {}


def test_runs_that_overlap_on_a_node_are_side_by_side() -> None:
    first = run(1, began=100.0, wall_s=60.0, hosts=("n1", "n2"))
    within = replace(first, cell="b", cell_id="b-1", began=130.0, wall_s=1.0, hosts=("n2",))
    late = replace(within, cell="c", cell_id="c-1", began=150.0, wall_s=60.0)
    after = replace(within, cell="d", cell_id="d-1", began=209.5)
    elsewhere = replace(within, cell="e", cell_id="e-1", hosts=("n3",))
    other = replace(elsewhere, cell="f", cell_id="f-1", campaign="another")
    runs = [after, late, within, first, elsewhere, other]
    shared = {("a-1", 1): "b", ("b-1", 1): "a", ("c-1", 1): "a"}
    assert at_once(runs, lambda run: run.hosts) == shared
    assert at_once(runs, lambda run: (run.campaign,)) == {**shared, ("e-1", 1): "a"}


@pytest.mark.parametrize("status", ["failed", "did_not_run", "unreadable", *NOT_ENDED])
def test_a_cell_without_a_run_that_ended_well_says_that_alone(status: str) -> None:
    assert judged([run(status=status)]) == {"not_ok": status}


def test_a_run_that_does_not_learn_says_so() -> None:
    assert list(judged([run(status="diverged")])) == ["not_ok", "nan"]


def test_processors_are_judged_by_less() -> None:
    """A CPU has no data sheet's peak, no throttling told, no energy."""
    cpu: dict[str, Any] = {
        "device": "",
        "device_kind": "cpu",
        "arithmetic": "fp32",
        "telemetry": Telemetry(),
    }
    assert judged(three(**cpu)) == {}
    assert list(judged([run(**cpu)])) == ["few_repeats"]
    npu: dict[str, Any] = {
        "device": "910B2",
        "device_kind": "npu",
        "telemetry": replace(WHOLE, before_mib=3162.0),
    }
    assert list(judged(three(**npu))) == ["unknown_peak"]  # an idle one keeps gigabytes


def test_every_code_says_when_it_holds_and_what_to_do() -> None:
    for word, code in CODES.items():
        assert code.word == word
        assert code.when
        assert code.cure[-1:] not in ("", ".")
    assert str(FEWEST_REPEATS) in CODES["few_repeats"].when

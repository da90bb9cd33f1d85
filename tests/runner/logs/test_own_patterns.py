"""A log by a matrix's own patterns: units, totals, what matched nothing, hostile lines."""

import time
from typing import Any

import pytest

from runner.logs.measure import measure
from runner.logs.patterns import read_patterns, readers_of_patterns
from runner.logs.run_sizes import Known
from runner.terms.memory import MEMORY
from runner.terms.record import Measurement

LOG = {
    "step": r"step (\d+)/(\d+)",
    "loss": r"loss ([\w.+-]+)",
    "step_time": {"pattern": r"dt: ([\d.]+)s", "unit": "s"},
    "tokens_per_s": r"tok/s: ([\d,]+)",
    "memory": {"pattern": r"mem ([\d.]+) ?GiB", "unit": "GiB"},
}
TEXT = (
    b"loading step 9/\n"
    b"\x1b[32mstep 1/30\x1b[0m | loss 3.5 | dt: 0.5s | tok/s: 1,024 | mem 1.5 GiB\r\n"
    b"val loss 9.0 dt: 3s\n"
    b"step 2/30 | loss nan | dt: 0.25s | tok/s: 2,048 | mem 2GiB\n"
    b"step 3/30 | loss 2.5"
)


def by(log: dict[str, Any], *logs: bytes, known: Known | None = None) -> Measurement:
    """Read the logs of as many nodes."""
    readers = readers_of_patterns(read_patterns(log, "log"))
    return measure(readers, {rank: [text] for rank, text in enumerate(logs)}, known or Known())


def test_a_log_by_its_patterns() -> None:
    """Colours, carriage returns, commas and units; half a line says nothing; NaN is counted."""
    found = by(LOG, TEXT, known=Known(tokens_per_sample=512))
    one, two = found.intervals
    assert (one.iteration, one.loss, one.step_time_ms, one.samples_per_s) == (1, 3.5, 500.0, 2.0)
    assert (two.iteration, two.loss, two.nan, two.tokens_per_s) == (2, None, 1, 2048.0)
    assert (found.train_iters, found.memory_allocated_mib) == (30, 2048.0)
    assert found.missing == {}
    whole = b"".join(bytes([byte]) for byte in TEXT)
    pieces = [whole[at : at + 7] for at in range(0, len(whole), 7)]
    readers = readers_of_patterns(read_patterns(LOG, "log"))
    assert measure(readers, {0: pieces}).intervals == by(LOG, TEXT).intervals


def test_each_figure_of_memory_has_a_key() -> None:
    """A user's pattern for RSS was called allocated; the old key goes on meaning that."""
    text = b"step 1 a 1 r 2 u 3 p 4\n"
    keys = {"memory_allocated": "a", "memory_reserved": "r", "memory_used": "u", "memory_rss": "p"}
    log = {key: {"pattern": rf" {word} (\d)", "unit": "MiB"} for key, word in keys.items()}
    found = by({"step": r"step (\d+)", **log}, text)
    assert [getattr(found, key) for key in MEMORY] == [1.0, 2.0, 3.0, 4.0]
    old = by({"step": r"step (\d+)", "memory": log["memory_allocated"]}, text)
    assert [getattr(old, key) for key in MEMORY] == [1.0, None, None, None]


def test_what_is_no_number_is_missing_and_no_nan() -> None:
    """A pattern that takes too much says so; nan and inf of a loss are counted as they are."""
    log = {"step": r"step (\S+)", "loss": r"loss (\S+)", "tokens_per_s": r"tok (\S+)"}
    found = by(log, b"step 1,024/9 loss 3, tok 1.5K\n")
    assert found.intervals == ()
    assert found.missing == {
        "step": "`step` found '1,024/9', which is not a number; put only the number in (...)"
    }
    lines = (
        b"step 1,024 loss 3, tok 1.5K\nstep 1,025 loss 1,000.5 tok 12,000\nstep 1026 loss -inf\n"
    )
    one, two, three = by(log, lines).intervals
    assert (one.iteration, one.loss, one.nan, one.tokens_per_s) == (1024, None, 0, 1500.0)
    assert (two.loss, two.nan, two.tokens_per_s) == (1000.5, 0, 12000.0)
    assert (three.loss, three.nan) == (None, 1)
    assert by(log, b"step 1 loss 3, tok x\n").missing == {
        "loss": "`loss` found '3,', which is not a number; put only the number in (...)",
        "tokens_per_s": "`tokens_per_s` found 'x', which is not a number; put only the number in"
        " (...)",
    }


def test_a_lines_beginning_and_its_end() -> None:
    """Evaluations, bars that a carriage return draws anew, and a prefix of logging."""
    log = {"step": r"^step (\d+)", "loss": r"loss (\S+)$"}
    found = by(log, b"x\rstep 1 loss 3\rval step 1 loss 9\nstep 2 loss 2\r\n")
    assert [(step.iteration, step.loss) for step in found.intervals] == [(1, 3.0), (2, 2.0)]
    log = {"step": r"step\s(\d+)"}
    assert by(log, b"the next step\n5 of them\n").intervals == ()  # no match over two lines


@pytest.mark.parametrize(
    "pattern", [r"loss ([\d.]+)", r"loss (\d+\.\d{4})\b", r"loss=? ?(-?\d\.\d)"]
)
def test_a_loss_that_is_lost_is_counted_by_a_pattern_of_digits(pattern: str) -> None:
    """As the usual pattern does not match it; a norm's infinity is no loss's."""
    found = by(
        {"step": r"step (\d+)", "loss": pattern},
        b"step 1 loss 2.5000\nstep 2 loss nan\nstep 3 norm inf loss -\n",
    )
    assert [step.nan for step in found.intervals] == [0, 1, 0]


def test_counting_from_zero() -> None:
    """A log that begins with step 0 counts from 0; iterations are counted from 1."""
    found = by({"step": r"iter (\d+):"}, b"iter 0: x\niter 1: x\n")
    assert [step.iteration for step in found.intervals] == [1, 2]


def test_what_matched_nothing_is_said_with_the_nearest_lines() -> None:
    """The step itself, and a figure on lines that were steps; of two nodes, what both lack."""
    found = by({"step": r"Step (\d+) of"}, b"hello\nstep 1/2 done\nstep 2/2 done\n")
    assert found.missing == {
        "step": "`step` matched no line; nearest: 'step 1/2 done', 'step 2/2 done'"
    }
    log = {"step": r"step (\d+)", "loss": r"Loss=([\d.]+)"}
    found = by(log, b"step 1 loss 3\n")
    assert found.missing == {"loss": "`loss` matched no line of a step; nearest: 'step 1 loss 3'"}
    assert by(log, b"nothing\n", b"step 1 Loss=2\n").missing == {}
    assert by({"step": r"zzz(\d+)", "loss": r"(\d)"}, b"at step 1\n").missing == {
        "step": "`step` matched no line; no line has one of its words, the first with a number is"
        " 'at step 1'"
    }
    assert by({"step": r"step (\d+)"}, b"").missing == {}  # a run that never started
    stacks = (
        b"[trainbench: rank 1, pid 31, stood at:]\nCurrent thread 0x00007f3 (most recent call):\n"
        b'  File "torch/_ops.py", line 1247 in step\nThread 31 (active): "MainThread"\n'
        b"    step (train.py:12)\n"
    )
    assert by({"step": r"step (\d+)"}, stacks).missing == {"step": "`step` matched no line"}


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (r"(?:a+)+(\d)", b"a" * 65_000),
        (r"(.*?,){20}(\d+)"[:4] + r".*,.*,.*,.*x(\d)", b"," * 65_000),
        (r"step (\d+)", b"step 1 " * 9_000),
    ],
)
def test_no_pattern_costs_more_than_its_line(pattern: str, line: bytes) -> None:
    """What would take a backtracking engine for ever is read in no time, line by line."""
    log = {"step": pattern.replace("(.*", ".*", 1) if "(.*" in pattern else pattern}
    began = time.process_time()
    by({**log, "loss": r"loss (\d+)"}, (line + b"\n") * 3)
    assert time.process_time() - began < 5


COMPOSER = b"""[epoch=1][batch=%d/90]:
\t Train time/batch: 7
\t Train loss/train/total: %s
\t Train memory/peak_reserved_mem: 13.5
\t Train throughput/device/tokens_per_sec: 1,02%d.5
"""


@pytest.mark.parametrize("size", [7, 64, 300, 1 << 20])
def test_a_figure_may_stand_behind_its_steps_line(size: int) -> None:
    """Up to the next step's line, wherever a block of the log ends; a step without it has none."""
    log = {
        "step": r"\[batch=(\d+)/(\d+)\]",
        "loss": r"loss/train/total: (\S+)",
        "device_tokens_per_s": r"device/tokens_per_sec: (\S+)",
        "memory_reserved": {"pattern": r"reserved_mem: (\S+)", "unit": "GiB"},
    }
    lines = b"loss/train/total: 9\n" + b"".join(
        COMPOSER % (n, b"nan" if n == 6 else b"%d" % (10 - n), n) for n in range(1, 8)
    )
    lines += b"[epoch=1][batch=8/90]:\n[epoch=1][batch=9/90]:\n\t Train loss/train/total: 1\n"
    pieces = [lines[at : at + size] for at in range(0, len(lines), size)]
    sizes = Known(tokens_per_sample=1, devices=2)
    found = measure(readers_of_patterns(read_patterns(log, "log")), {0: pieces}, sizes)
    assert [step.loss for step in found.intervals] == [9, 8, 7, 6, 5, None, 3, None, 1]
    assert [step.nan for step in found.intervals] == [0, 0, 0, 0, 0, 1, 0, 0, 0]
    rates = [step.samples_per_s for step in found.intervals]
    assert rates == [*(2 * (1020.5 + n) for n in range(1, 8)), None, None]
    assert found.memory_reserved_mib == 13.5 * 1024
    assert found.missing == {}


def test_what_steps_say_on_their_line_is_not_looked_for_behind_it() -> None:
    """An evaluation behind a step says no loss of it."""
    log = {"step": r"step (\d+)", "loss": r"loss (\S+)"}
    found = by(log, b"step 1 loss 3\nval loss 9\nstep 2\nval loss 8\nstep 3 loss 1\n")
    assert [step.loss for step in found.intervals] == [3, None, 1]

"""MLPerf's `:::MLLOG {..}`, one object a line (mlcommons/logging 7bbf792 mllog/mllog.py:36, :74).

What a step is they do not say: an event has the samples until then, and `global_batch_size` is an
event of its own. Two customs are read, the first where a log has both:

* `tracked_stats` with `{"train_step_time": s, "reduced_train_loss": ..}` and `samples_count`: the
  time of one step (NVIDIA's callbacks of Megatron-Bridge, MaxText's). One without a loss is a mean
  over a block, whose `samples_count` is the block's alone, and is not read;
* `block_start` and `block_stop`: their `time_ms` without evaluations, over the steps by `step`,
  else by `samples_count`; BERT and GPT-3 say samples as `epoch_num` and `first_epoch_num`. An end
  without them has those of the block's last event that has some. The block's loss is its last
  `train_loss`. A run that is aborted within a block ends it by `run_stop`.

`throughput` of tracked_stats is in samples, tokens or sequences a second, as the submitter likes,
and is not read. `eval_accuracy` is an evaluation's. Numbers of epochs are no samples: fewer than
LEAST are not read as such.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from runner.logs.kind import Candidate, Sign
from runner.logs.lines import LineParser
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import LARGEST_QUANTITY, number
from runner.logs.run_sizes import TOKENS_PER_SAMPLE

LEAST = 1000  # samples, where epochs may be meant
_Event = Mapping[str, Any]


class MlPerf(LineParser):
    """Events of a run."""

    name = "mlperf"
    says = "MLPerf's `:::MLLOG` events of blocks, or of steps"
    candidates = (Candidate("command"),)
    mentions = (
        Candidate(
            "command",
            "the log has MLPerf's events, and none says its steps and samples",
            (Sign((b":::mllog {",)),),
        ),
    )
    loss_kind = "iteration"
    holds = "the mean over its block's steps, or its own step's; evaluations are not in it"
    step = rb'"key": "(?:block_stop"|tracked_stats", "value": \{[^{}]{0,1000}"reduced_train_loss")'
    error = rb':::MLLOG \{.{0,1000}"key": "run_stop", .{0,1000}"status": "aborted"'
    success = rb'"key": "run_stop", (?!.{0,1000}"status": "aborted")'
    marker = b":::MLLOG {"
    head = re.compile(rb":::MLLOG (?=\{)")
    _batch = 0
    _counts_steps = False  # whether `step` of tracked_stats is no samples
    _by_step = False  # whether the log has the times of steps
    _begin: tuple[int, float] | None = None  # of the block: steps before it, ms
    _loss: _Event | None = None  # the block's last
    _reached: int | None = None  # steps, by the last event that says them
    _evaluates: float | None = None  # ms: since when
    _paused = 0.0  # ms of the block in which it evaluated
    _ended: float | None = None  # ms: the end of a block that says its start's samples

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read one event; the end of a block or the stats of a step are one."""
        try:
            event = json.loads(
                tail, parse_int=number, parse_float=number, parse_constant=lambda _: None
            )
        except (ValueError, RecursionError):  # the latter of brackets within brackets
            return None
        metadata, key, value = event.get("metadata"), event.get("key"), event.get("value")
        if not isinstance(metadata, dict):
            return None
        if key == "global_batch_size":
            self._batch = _count(value)
        elif key == "max_sequence_length" and _count(value):
            self.notes.facts[TOKENS_PER_SAMPLE] = str(_count(value))
        elif key == "train_loss":
            self._loss = event
        elif key == "tracked_stats" and isinstance(value, dict):
            return self._stats(value, metadata)
        elif key == "block_start":
            return self._start(event, metadata)
        elif key == "block_stop" or (key == "run_stop" and metadata.get("status") == "aborted"):
            return self._stop(event, metadata)
        elif key == "eval_start":
            self._evaluates = _time(event) if self._begin and not self._ended else None
        elif key == "eval_stop" and self._evaluates:
            self._paused += (_time(event) or self._evaluates) - self._evaluates
            self._evaluates = None
        self._reached = self._steps(metadata) or self._reached
        return None

    def _stats(self, value: _Event, metadata: _Event) -> LoggedStep | None:
        iteration = self._step_of_stats(metadata)
        if "reduced_train_loss" not in value or not iteration:
            return None
        self._by_step = True
        seconds = value.get("train_step_time")
        row = self._row(iteration, value["reduced_train_loss"])
        row.iterations = 1
        row.step_time_ms = seconds * 1000 if isinstance(seconds, float) else None
        return row

    def _step_of_stats(self, metadata: _Event) -> int | None:
        """Return the step of stats: by their samples, else by `step`, which is samples where it is
        those of whole steps, and steps from where it is not.
        """
        if "samples_count" in metadata or "step" not in metadata:
            return self._steps({"samples_count": metadata.get("samples_count")})
        count = _count(metadata["step"])
        if not count:
            return None
        self._counts_steps = self._counts_steps or bool(count % (self._batch or count + 1))
        return count if self._counts_steps else count // self._batch

    def _start(self, event: _Event, metadata: _Event) -> LoggedStep | None:
        steps, time = self._steps(metadata), _time(event)
        row = self._block(steps, self._ended) if self._ended else None
        if steps is None and "first_epoch_num" in metadata:
            steps = self._reached or 0
        self._begin = (steps, time) if steps is not None and time else None
        self._loss, self._ended, self._paused = None, None, 0.0
        return row

    def _stop(self, event: _Event, metadata: _Event) -> LoggedStep | None:
        steps, time = self._steps(metadata), _time(event)
        steps = self._reached if steps is None else steps
        if self._begin and steps == self._begin[0]:  # its start's: the next start says its end's
            self._ended = time
            return None
        return self._block(steps, time)

    def _block(self, steps: int | None, time: float | None) -> LoggedStep | None:
        begin, self._begin = self._begin, None
        if self._by_step or not begin or not steps or steps <= begin[0] or not time:
            return None
        row = self._row(steps, self._loss.get("value") if self._loss else None)
        row.nan = int(self._loss is not None and row.loss is None)
        row.iterations = steps - begin[0]
        row.step_time_ms = (time - begin[1] - self._paused) / row.iterations
        return row

    def _row(self, iteration: int, loss: Any) -> LoggedStep:
        value = loss if isinstance(loss, float) else None
        return LoggedStep(iteration, global_batch=self._batch, loss=value, nan=int(value is None))

    def _steps(self, metadata: _Event) -> int | None:
        """Return the steps until an event; None where nothing says whole ones."""
        if "step" in metadata:
            return _count(metadata["step"])
        samples = metadata.get("samples_count")
        if samples is None:
            samples = metadata.get("epoch_num", metadata.get("first_epoch_num"))
            samples = None if samples and _count(samples) < LEAST else samples
        whole_samples = _count(samples)
        if not self._batch or (whole_samples == 0 and samples != 0):
            return None
        steps, remainder = divmod(whole_samples, self._batch)
        return None if remainder else steps


def _count(value: Any) -> int:
    """Return a whole number of a log, or 0."""
    good = isinstance(value, float) and 0 <= value <= LARGEST_QUANTITY and value == int(value)
    return int(value) if good else 0


def _time(event: _Event) -> float | None:
    """Return its time stamp in ms, or None if it is invalid."""
    time = event.get("time_ms")
    return time if isinstance(time, float) and 0 < time <= LARGEST_QUANTITY else None

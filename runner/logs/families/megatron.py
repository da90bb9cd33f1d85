"""Megatron's iteration lines: bigscience, microsoft, NVIDIA and DeepSpeedExamples' v1.1.5.

    iteration        2/      50 | consumed samples: 32 | elapsed time per iteration (ms): 14131.6 |
    ... | global batch size: 16 | lm loss: 1.264968E+01 | ... | number of nan iterations:   0 | ...

Printed by the last rank (bigscience e52bdab megatron/training.py:787-824, microsoft b4d4a0e
:839-875, NVIDIA), by rank 0 in v1.1.5 (training.py:434-454). A value counts only when its ` |`
follows, so that half a line gives half the values and never a wrong one.

Primus (fd1eeabb, primus/backends/megatron/patches/training_log/print_rank_last_patches.py:365-393,
:464, :543) has the same line with `541.9/27030.5`: what this iteration took, and the average since
the first, whose compilation is in it. The first number is taken. Its torchtitan can print such a
line, too (primus/backends/torchtitan/patches/metrics_output_format.py:73-132, which nothing
registers yet): there the time is that of all iterations since the line before.
"""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from runner.logs.batch import Batch, Figures, Floats, Ints, Windows, measured
from runner.logs.decoding import line_end
from runner.logs.families.deepspeed import DEEPSPEED, NPU
from runner.logs.kind import Candidate, Kind, Sign
from runner.logs.known import TRAIN_ITERS
from runner.logs.layouts import Field, Layout, Marks, Table, whole_numbers
from runner.logs.megatron_fields import FIELD, ROLES, Columns, field_of, seconds_of
from runner.logs.numbers import number
from runner.logs.own_figures import last_step_time, own_figures
from runner.logs.saves import Saves, taken_out

# With microseconds core_v0.16.0 and later stamp their lines, and print the first iteration of a run
# without beginning a new window: the next line's figures hold it again (core_v0.18.2
# megatron/training/training.py:2387, :2605, :2688).
_KEPT = re.compile(rb":\d\d\.\d{6}\] {1,9}iteration {1,9}\d{1,9}$")
# What tells the systems apart that print these lines; Megatron core puts the time before it.
_CORE = Sign(
    (b"throughput per gpu (tflop/s/gpu)",),
    re.compile(rb"\d\] iteration {1,9}\d{1,9}/ {0,9}\d{1,9} \|"),
)
_PRIMUS = Sign((b"tokens per gpu (tokens/s/gpu):", b"tokens/s/gpu inst/harmonic mean:"))
_PRIMUS_TITAN = Sign((b"| memory usage/free/total: ",))
_BRIDGE = Sign((b"s gpu utilization: ", b"megatron/bridge", b"megatron.bridge"))
_CORE_PATHS = Sign((b"megatron/core/", b"megatron.core"))
_CONSUMED = Sign((b"| consumed samples: ",))
_ZEROS = Sign((b"| num zeros: ",))
_MEGATRON = Sign((b"pretrain_gpt", b"megatron"))
_ALIKE = "(NVIDIA's, bigscience's and microsoft's lines look alike: name another with --system)"
_OF = re.compile(rb"/ {0,9}(\d{1,9}) \|")
LONGEST = 4096  # bytes of a line that are compared with the one before
MOST_LAYOUTS = 8  # kinds of lines that are learned; a real log has two or three


class Megatron(Kind):
    """Iteration lines by arrays (layouts.py), and by regular expression what arrays cannot read."""

    name = "megatron"
    says = "Megatron's `iteration N/M |` lines"
    candidates = (
        Candidate(
            "ascend_gpt",
            "and names NPUs (on GPUs the same lines are megatron_deepspeed's)",
            (NPU,),
        ),
        Candidate("command", "as Primus prints torchtitan's steps", (_PRIMUS_TITAN,)),
        Candidate("megatron_core", "as Primus prints them: value/running average", (_PRIMUS,)),
        Candidate("megatron_core", "as Megatron-Bridge prints them", (_BRIDGE,)),
        Candidate("megatron_core", "with the marks of Megatron core", (_CORE,)),
        Candidate(
            "megatron_lm",
            "without `consumed samples`, as v1.1.5 prints them",
            without=(_CONSUMED,),
        ),
        Candidate(
            "megatron_deepspeed",
            "with DeepSpeed's marks (ascend_gpt prints the same on NPUs)",
            (DEEPSPEED,),
        ),
        Candidate(
            "megatron_deepspeed",
            f"with `num zeros`, as bigscience prints them {_ALIKE}",
            (_ZEROS,),
        ),
        Candidate("megatron_core", "with paths of megatron/core", (_CORE_PATHS,)),
        Candidate("megatron_lm", f"with no mark of DeepSpeed {_ALIKE}"),
    )
    named = (
        Candidate(
            "megatron_core",
            "the log has Megatron-Bridge's `Step Time` lines, which do not say their iteration: the"
            " last node's log does",
            (Sign((b"s gpu utilization: ",)),),
        ),
        Candidate("megatron_core", "the log names megatron/core", (_CORE_PATHS,)),
        Candidate("megatron_lm", "the log names megatron", (_MEGATRON,)),
    )
    step = rb"iteration(?<!, iteration) {1,9}\d{1,9}/ {0,9}\d{1,9} \|"
    gives = (
        *("step_time_ms", "samples_per_s", "global_batch", "loss", "grad_norm", "skipped"),
        *("device_tokens_per_s", "tflop_per_s", "energy_j", "tokens_per_sample", "devices"),
        *("memory_allocated_mib", "memory_reserved_mib", "memory_used_mib", "train_iters"),
    )
    loss_kind = "window"
    holds = (
        "the mean over its iterations; evaluations and checkpoints are in it, but for Megatron"
        " core's since 2023-11 and checkpoints whose time the log states"
    )
    success = rb"\[after training is done\]|exiting program (?:at iteration|after [\d.]+ minutes)"

    def __init__(self, fast: bool = True) -> None:
        super().__init__()
        self._windows = Windows()
        self._layouts: list[Layout] = []
        self._fast = fast
        self._saves = Saves()
        self._said = b""  # the last line, from its slash on
        self._step_time = b""  # Megatron-Bridge's, of the step to come
        self._kept: tuple[int, int] | None = None  # skipped, nan of a line that the next one holds

    def feed(self, text: bytes) -> Batch | None:
        """Read the steps in whole lines of a log; None where there is none."""
        if b"\r" in text:  # ends a line, too: the arrays look for one end alone
            text = text.replace(b"\r", b"\n")
        marks = Marks(text)
        slashes, pipes, iteration = self._once(marks.text, *marks.heads())
        early = not self._windows.last  # a trainer prints its arguments before its first step
        noted = self.notes.scan(text, early=early)
        self._windows.log_interval = self.notes.log_interval
        ends = self._ends(marks, slashes, pipes)
        overflows = self.overflows.find(text, noted, slashes)
        paused_ms = self._saves.find(marks.text, noted, slashes, ends)
        if not len(slashes):
            self._step_time = last_step_time(text, 0, len(text)) or self._step_time
            return None
        if match := _OF.match(text, int(slashes[-1])):
            self.notes.facts[TRAIN_ITERS] = match[1].decode()
        if not self.notes.first_step:
            self.notes.first_step = text[max(0, int(slashes[0]) - 80) : int(ends[0])]
        kept = self._first_is_kept(marks.text, slashes, iteration)
        columns = self._read(Table(marks, pipes, ends), marks.text, pipes, ends)
        batch = self._batch(marks.text, iteration, columns, overflows, kept, paused_ms)
        figures = self._figures(text, (slashes, pipes, ends), batch)
        return replace(batch, figures=figures, places=slashes)

    def _once(self, text: bytes, slashes: Ints, pipes: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the slashes, pipes and iterations without the lines that repeat the one before, as
        two of Primus' loggers write each.
        """
        if not len(slashes):
            return slashes, pipes, slashes
        iteration = whole_numbers(text, slashes, 9)
        again = iteration == np.append(self._windows.last, iteration[:-1])
        fresh = np.ones(len(slashes), np.bool_)
        for row in np.flatnonzero(again).tolist():
            before = self._line(text, int(slashes[row - 1])) if row else self._said
            fresh[row] = self._line(text, int(slashes[row])) != before
        self._said = self._line(text, int(slashes[-1]))
        if fresh.all():
            return slashes, pipes, iteration
        return slashes[fresh], pipes[fresh], iteration[fresh]

    @staticmethod
    def _line(text: bytes, slash: int) -> bytes:
        line = text[slash : slash + LONGEST]
        return line[: line_end(line, 0)].rstrip()

    def _figures(
        self, text: bytes, places: tuple[Ints, Ints, Ints], batch: Batch
    ) -> Callable[[slice], list[Figures]]:
        """Return what reads the trainer's own figures, of lines that are asked for."""
        slashes, pipes, ends = places
        after = np.append(0, ends[:-1])
        first, self._step_time = self._step_time, last_step_time(text, int(ends[-1]), len(text))

        def read(rows: slice) -> list[Figures]:
            columns = (after, slashes, pipes, ends, batch.step_time_ms)
            figures = []
            for row in zip(*(column[rows].tolist() for column in columns), strict=True):
                before, slash, begin, end, time_ms = row
                step_time = last_step_time(text, before, slash) or (b"" if before else first)
                figures.append(own_figures(text[begin:end], step_time, time_ms))
            return figures

        return read

    def _first_is_kept(self, text: bytes, slashes: Ints, iteration: Ints) -> NDArray[np.bool_]:
        """Return, for each line, whether a run begins with it and the next line's figures
        hold it again.
        """
        kept = self._windows.begins(iteration)
        for row in np.flatnonzero(kept).tolist():
            kept[row] = bool(_KEPT.search(text, max(0, slashes[row] - 64), slashes[row]))
        return kept

    def _ends(self, marks: Marks, slashes: Ints, pipes: Ints) -> Ints:
        """Return where each line ends: its newline, or the next step's where that was torn off."""
        ends = marks.line_ends(pipes)
        text = marks.text
        follow = np.append(slashes[1:], len(text))
        for row in np.flatnonzero(ends > follow).tolist():
            ends[row] = text.rindex(b"iteration", pipes[row], follow[row])
        return ends

    def _read(self, table: Table, text: bytes, pipes: Ints, ends: Ints) -> Columns:
        """Read lines of a known layout at once, the others one by one."""
        columns = Columns(len(pipes))
        rest = np.arange(len(pipes))
        if self._fast:
            for layout in self._layouts:
                rest = self._take(table, layout, rest, columns)
        while len(rest):
            row = int(rest[0])
            fields = self._slow(text[pipes[row] : ends[row]], row, int(pipes[row]), columns)
            rest = rest[1:]
            if self._fast and fields and len(self._layouts) < MOST_LAYOUTS:
                layout = table.learn(row, fields)
                self._layouts.append(layout)
                rest = self._take(table, layout, rest, columns)
        return columns

    def _take(self, table: Table, layout: Layout, rows: Ints, columns: Columns) -> Ints:
        if not len(rows):
            return rows
        values = table.read(layout, rows)
        for name, floats in values.floats.items():
            columns.floats[name][values.rows] = floats
        for name, ints in values.ints.items():
            columns.ints[name][values.rows] = ints
        for name, (start, end) in values.spans.items():
            columns.spans[name][0][values.rows] = start
            columns.spans[name][1][values.rows] = end
        if len(values.rows) == len(rows):
            return rows[:0]
        left: Ints = np.setdiff1d(rows, values.rows, assume_unique=True)
        return left

    def _slow(self, line: bytes, row: int, begin: int, columns: Columns) -> list[Field]:
        """Read one line by regular expression; return the fields, for its layout to be learned."""
        line = line[: line_end(line, 0)]
        fields, seen = [], set()
        learnable = True
        for match in FIELD.finditer(line):
            name = ROLES.get(match[1].strip())
            if name is None or name in seen:
                continue
            seen.add(name)
            columns.put(row, name, match[2], begin + match.start(2))
            index = line.count(b"|", 0, match.start())
            label = line[match.start() + 1 : match.start(2)]
            field = field_of(name, index, label, match[2], line[match.end(2) : match.end()])
            if field is None:
                learnable = learnable and name == "scale"
            else:
                fields.append(field)
        return fields if learnable and {"time_ms", "time_s"} & seen and "nan" in seen else []

    def _batch(
        self,
        buffer: bytes,
        iteration: Ints,
        columns: Columns,
        overflows: Ints,
        kept: NDArray[np.bool_],
        paused_ms: Floats,
    ) -> Batch:
        begins = self._windows.begins(iteration)
        covers = self._windows.cover(iteration)
        again = np.append(self._kept is not None, kept[:-1]) & ~begins
        covers = np.where(kept, 1, covers + again)
        counted = columns.ints["nan"]
        skipped = np.maximum(columns.ints["skipped"], 0)
        start, end = columns.spans["loss"]
        missing = (start == end) & (counted >= 0)
        # `if avg > 0.0` drops a NaN loss from the line while "number of nan iterations" stays 0
        # (bigscience training.py:802, issue 396). A window of skipped iterations only has no loss
        # either, and is no NaN.
        idle = (skipped > 0) & ((covers == 0) | (skipped >= covers))
        nan = np.maximum(counted, 0)
        before = self._kept or (0, 0)
        self._kept = (int(skipped[-1]), int(nan[-1])) if kept[-1] else None
        skipped = np.maximum(skipped - again * np.append(before[0], skipped[:-1]), 0)
        nan = np.maximum(nan - again * np.append(before[1], nan[:-1]), 0)
        nan = np.where(missing & ~idle, np.maximum(nan, 1), nan)

        def texts(name: str, rows: slice) -> list[float | None]:
            first, last = (side[rows].tolist() for side in columns.spans[name])
            return [number(buffer[a:b]) for a, b in zip(first, last, strict=True)]

        has_loss = start < end
        for row in np.flatnonzero(has_loss & ~_digit(buffer, start)).tolist():
            if number(buffer[start[row] : end[row]]) is None:  # printed as NAN or INF
                has_loss[row] = False
                nan[row] = max(nan[row], 1)
        for row in np.flatnonzero(has_loss & idle).tolist():
            if number(buffer[start[row] : end[row]]) == 0:  # the sum of no losses
                has_loss[row] = False
                end[row] = start[row]
        time_ms = columns.floats["time_ms"]
        time_ms = np.where(np.isnan(time_ms), seconds_of(columns) * 1000, time_ms)
        if columns.windows.any():
            length = np.where(covers > 0, covers, np.where(iteration == 1, 1, np.nan))
            time_ms = np.where(columns.windows, time_ms / length, time_ms)
        time_ms, odd_times = measured(time_ms)
        rate, odd_rates = measured(columns.floats["rate"])
        tokens, odd_tokens = measured(columns.floats["device_tokens"])
        if paused_ms.any():
            paused_ms = np.where(begins, 0.0, paused_ms)  # the run before it saved
            time_ms, rate, paused_ms = taken_out(time_ms, rate, covers, paused_ms)
        return Batch(
            iteration=iteration,
            iterations=covers,
            step_time_ms=time_ms,
            samples_per_s=rate,
            global_batch=np.maximum(columns.ints["batch"], 0),
            skipped=skipped,
            nan=nan,
            overflows=overflows,
            has_loss=has_loss,
            losses=lambda rows: texts("loss", rows),
            grad_norms=lambda rows: texts("norm", rows),
            unmeasured=odd_times + odd_rates + odd_tokens + columns.unread,
            device_tokens_per_s=None if np.isnan(tokens).all() else tokens,
            paused_ms=paused_ms if paused_ms.any() else None,
        )


def _digit(text: bytes, at: Ints) -> NDArray[np.bool_]:
    return np.frombuffer(text, np.uint8)[at] - ord("0") < 10

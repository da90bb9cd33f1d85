"""Logs of every family: what `parse` prints, a campaign's reader, the newest step, the diagnosis.

No figure that is not in the log, exactly:

- the iteration of a step is a number that stands in the log, or that plus one (some trainers count
  from 0); its loss and gradient norm are numbers that stand there;
- its time is above 0 and a number that stands there, in ms or s; or, by docs/parsers.md, a number
  of samples that stands there by the rate that does; but for systems in DERIVED and HUMAN;
- its rate is above 0 and a number that stands there, or such a number of samples by the time, or
  what two of DeepSpeed's running means make;
- first, last and last loss of `parse` are those of a step, and its medians lie between the least
  and the largest of the steps'; a log without steps has none of them.
"""

import inspect
import os
import random
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import Any

from runner.base.text import blocks
from runner.figures.counted_steps import samples_per_s, step_time_ms
from runner.logs.families.deepspeed import UNTIMED
from runner.logs.kinds import readers_of, readers_of_family
from runner.logs.latest import latest
from runner.logs.measure import measure
from runner.logs.numbers import number
from runner.results.diagnosis.verdict import diagnose
from runner.systems.common.registry import load_system
from runner.terms.record import Interval
from tests.conftest import ROOT
from tests.fuzz.case import FindingError, printable, said, strict
from tests.fuzz.mutation import mutated, some
from tests.runner.logs import made_lines

NEXT_NODE = b"\n---- next node ----\n"
NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
SEED_BYTES = 4_000
MEDIANS = {"step_time_ms": step_time_ms, "samples_per_s": samples_per_s}
NEAR = 1e-5
# Some of DeepSpeed's lines count micro steps, and a rate may follow from two means since the start.
ACCUMULATED = ("megatron_deepspeed", "ascend_gpt")
MEAN = re.compile(rb"(?:global_step=|/)(\d{1,9}), (?:RunningAvg)?SamplesPerSec=([\d.]+),")
# Whose times and rates are none of the log: between running averages, or of tokens/s.
DERIVED = ("libai", "torchtitan")
# What families without a system print (1.23K, epochs in place of steps) is a number in another way:
# of theirs it is held that times and rates are above 0.
HUMAN = "command"


class Logs:
    """Seeds: the logs of tests/data and of TRAINBENCH_SHARED, and lines as trainers format them."""

    name = "logs"
    share = 30

    @cached_property
    def seeds(self) -> list[bytes]:
        """Beginnings and ends of logs, of some kilobytes each."""
        paths = sorted(path for path in (ROOT / "tests" / "data").rglob("*") if path.is_file())
        if shared := os.environ.get("TRAINBENCH_SHARED"):
            paths += sorted(path for path in (Path(shared) / "logs").rglob("*") if path.is_file())
        seeds = [made()] * 4
        for path in paths:
            data = path.read_bytes()
            seeds += dict.fromkeys((data[:SEED_BYTES], data[-SEED_BYTES:]))
        return seeds

    @cached_property
    def words(self) -> list[bytes]:
        """Lines, and pieces of lines, to be put where they do not belong."""
        lines = {line for seed in self.seeds for line in seed.split(b"\n") if line.strip()}
        pieces = {piece for line in lines for piece in re.split(rb"(?<=[:=|\]])\s*", line[:400])}
        return sorted(lines) + sorted(pieces)

    def make(self, chance: random.Random) -> bytes:
        """One log, or those of two nodes."""
        data = mutated(some(chance, self.seeds), chance, self.words)
        if chance.random() < 0.2:
            data += NEXT_NODE + mutated(some(chance, self.seeds), chance, self.words)
        return data

    def judge(self, data: bytes, folder: Path) -> None:
        """As a user's files, and as a run's."""
        paths = []
        for node, log in enumerate(data.split(NEXT_NODE)):
            paths.append(folder / f"{node}.log")
            paths[-1].write_bytes(log)
        answer = said(["parse", *map(str, paths), "--format", "json"])
        if answer.code != 0:
            raise FindingError(f"parse: exit code {answer.code}")
        result = strict("parse", answer.out)
        if len(data) % 4 == 0:
            said(["parse", *map(str, paths)])
        system = result["system"]
        if system is None:
            return
        logs = dict(enumerate(paths))
        # System command has a family for each trainer without a system here; its cells name it.
        own = load_system(system).pins
        readers = readers_of(system) if own else readers_of_family(result["family"])
        parse = partial(measure, readers)
        read = parse({rank: blocks(path) for rank, path in logs.items()})
        steps = read.intervals
        placed = {path: read.places.get(rank, ()) for rank, path in logs.items()}
        stand = Figures(data)
        for step in steps:
            stand.check(step, system)
        check_result(result, steps)
        newest = latest(parse, logs)
        for step in newest.intervals[-1:] if newest else ():
            stand.check(step, system)
        printable("the diagnosis", diagnose(placed).sentence)


class Figures:
    """The numbers that stand in a log."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.whole = _sorted(NUMBER.findall(data))

    @cached_property
    def parts(self) -> list[float]:
        """Those that are the end of another word, as in `12.5.3`, `e10` or, behind a dash, `-3`."""
        words = {word[:40] for word in re.findall(rb"[\d.eE+-]{2,}", self.data)}
        matches = (NUMBER.match(word, at) for word in words for at in range(1, len(word)))
        return _sorted(match[0] for match in matches if match)

    def has(self, value: float, *factors: float) -> bool:
        """Whether a value stands there, as it is or by a factor."""
        values = [value / factor for factor in (1.0, *factors)]
        return any(_near(one, self.whole) for one in values) or any(
            _near(one, self.parts) for one in values
        )

    def is_between_means(self, rate: float) -> bool:
        """Whether two lines of means since the third step make this rate of the steps between."""
        found = [(int(steps), number(mean)) for steps, mean in MEAN.findall(self.data)]
        points = [(now, now / mean) for n, mean in found if mean for now in [max(n - UNTIMED, 1)]]
        return any(
            end > begin and abs((end - begin) - rate * (ended - began)) <= NEAR * (end - begin)
            for (begin, began), (end, ended) in combinations(points, 2)
        )

    def check(self, step: Interval, system: str) -> None:
        """Raise FindingError for a figure of a step that does not stand there."""
        time, rate = step.step_time_ms, step.samples_per_s
        for name, value in (("step time", time), ("rate", rate)):
            if value is not None and not 0 < value < float("inf"):
                raise FindingError(f"{system}: a {name} of {value!r} counts as measured")
        if system == HUMAN:
            return
        accumulated = [1 / count for count in range(2, 65)] if system in ACCUMULATED else []
        if not (self.has(step.iteration, *accumulated) or self.has(step.iteration - 1)):
            raise FindingError(f"{system}: an iteration that is not in the log")
        for name in ("loss", "grad_norm"):
            value = getattr(step, name)
            if value is not None and not self.has(value):
                raise FindingError(f"{system}: {name} {value!r} is not in the log")
        if system in DERIVED:
            return
        samples = None if time is None or rate is None else rate * time / 1000
        derived = samples is not None and self.has(samples)
        if time is not None and not self.has(time, 1000.0) and not derived:
            raise FindingError(f"{system}: step time {time!r} is not in the log")
        between = system in ACCUMULATED and rate is not None and self.is_between_means(rate)
        if rate is not None and not self.has(rate) and not derived and not between:
            raise FindingError(f"{system}: rate {rate!r} is not in the log")


def _sorted(words: Iterable[bytes]) -> list[float]:
    return sorted({abs(float(word)) for word in words})


def _near(value: float, numbers: Sequence[float]) -> bool:
    least = abs(value) * (1 - NEAR)
    at = bisect_left(numbers, least)
    return at < len(numbers) and numbers[at] <= abs(value) * (1 + NEAR)


def check_result(result: dict[str, Any], steps: Sequence[Interval]) -> None:
    """What `parse` prints against the steps."""
    iterations = [step.iteration for step in steps]
    for name in ("first_iteration", "last_iteration"):
        if result[name] is not None and result[name] not in iterations:
            raise FindingError(f"parse: {name} is no step's")
    losses = [step.loss for step in steps]
    if result["last_loss"] is not None and result["last_loss"] not in losses:
        raise FindingError("parse: last_loss is no step's")
    batches = {step.global_batch_size for step in steps if step.global_batch_size}
    alone = batches.pop() if len(batches) == 1 else None
    for name, of in MEDIANS.items():
        # By docs/parsers.md the one follows from the other and the line's batch size; of a line
        # without one from that of all others.
        values = [of(step, step.global_batch_size or alone) for step in steps]
        between(name, result[name], [value for value in values if value is not None])


def between(name: str, value: float | None, values: Iterable[float]) -> None:
    """A median lies within its values."""
    values = list(values)
    if value is None:
        return
    if (
        not values
        or not min(values) * (1 - NEAR) - 1e-6 <= value <= max(values) * (1 + NEAR) + 1e-6
    ):
        raise FindingError(f"parse: {name} is not between the steps'")


def made() -> bytes:
    """Lines of every maker in made_lines.py that takes an iteration alone, or nothing."""
    lines = []
    for name in sorted(made_lines.SOURCES):
        maker = getattr(made_lines, name)
        needed = [
            each for each in inspect.signature(maker).parameters.values()
            if each.default is each.empty
        ]  # fmt: skip
        if not needed:
            lines.append(maker())
        elif [each.name for each in needed] == ["iteration"]:
            lines += [maker(iteration) for iteration in (1, 2, 3)]
    return "\n".join(lines).encode() + b"\n"

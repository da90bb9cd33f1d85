"""All that reads a log, of any bytes: for tests that change logs, and for fuzzing."""

import re
from collections.abc import Iterator
from pathlib import Path

from runner.commands.parse import parse
from runner.logs.decoding import unprefixed, whole_lines
from runner.logs.kinds import KINDS
from runner.logs.measure import measure
from runner.logs.numbers import human
from runner.logs.recognise import signs
from runner.results.decide import last_words
from runner.results.diagnosis.verdict import diagnose
from runner.results.sample_table import read_samples
from runner.results.stall import read_stacks, waited_for
from runner.terms.record import Interval

_NUMBER = re.compile(rb"(?<![\d.])\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|(?<!\d)\.\d+(?:[eE][+-]?\d+)?")
_WHOLE = re.compile(rb"\d+")
_HUMAN = re.compile(rb"(?<![\d.])(\d+(?:\.\d*)?)([KMBGTPE])")
# Kinds whose step times follow from other figures on their lines.
WORKED_OUT = {
    *("megatron", "libai", "modded_nanogpt", "llama_factory", "mlperf", "ms_swift"),
    *("hf_trainer", "hf_trainer_after_bars"),
}
MOST_DIGITS = 60  # of a token; no figure has more


def read(data: bytes) -> dict[str, list[Interval]]:
    """What each kind of lines says in a log; all other readers of a log have their look, too."""
    found: dict[str, list[Interval]] = {}
    for name, kind in KINDS.items():
        parser = kind()
        steps = [step for text in whole_lines([data]) for step in parser.feed(text)]
        found[name] = [step.interval(step.skipped) for step in steps]
    measure(KINDS, {0: [data]})
    signs(data[: 1 << 18])
    last_words(data[-(1 << 16) :])
    waited_for(read_stacks("n1", data.decode("utf-8", "replace")))
    unprefixed(data[: 1 << 13])
    read_samples(data)
    return found


def read_file(path: Path, data: bytes) -> None:
    """The readers that go through a file: `runner parse`, and a diagnosis without steps."""
    path.write_bytes(data)
    parse([path], None)
    diagnose({path: ()})


def not_in_the_log(data: bytes, found: dict[str, list[Interval]]) -> Iterator[str]:
    """Name each figure that no number of the log says: whole, not half read, not made up.

    Times and rates that are worked out of others are left out, and those of batch sizes.
    """
    wholes = {int(one[0]) for one in _WHOLE.finditer(data) if len(one[0]) < MOST_DIGITS}
    numbers = {float(one[0]) for one in _NUMBER.finditer(data) if len(one[0]) < MOST_DIGITS}
    numbers |= {float(each) for each in wholes}
    short = (one[0] for one in _HUMAN.finditer(data) if len(one[0]) < MOST_DIGITS)
    numbers |= {value for text in short if (value := human(text)) is not None}
    for name, steps in found.items():
        for step in steps:
            if step.iteration not in wholes and step.iteration - 1 not in wholes:
                yield f"{name}: iteration {step.iteration}"
            for figure in (step.loss, step.grad_norm):
                if figure is not None and abs(figure) not in numbers:
                    yield f"{name}: {figure}"
            time = None if name in WORKED_OUT else step.step_time_ms
            if time is not None and not numbers & {time, time / 1000}:
                yield f"{name}: {time} ms"

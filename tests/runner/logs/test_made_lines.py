"""Made lines look like real ones: each of their fields stands in a line that a trainer printed."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.base.paths import PROJECT
from tests.runner.logs.made_lines import (
    SOURCES,
    deepspeed,
    libai,
    megatron,
    nanotron,
    nemo,
    overflow,
    pipe,
    v115,
)

LOGS = Path(os.environ.get("TRAINBENCH_SHARED") or "/nonexistent") / "logs"
LINES = {
    "megatron": [
        megatron(1),
        megatron(1, seconds=1.5, rate=1.1),
        megatron(1, label="lm-loss"),
        megatron(1, loss=None),
    ],
    "v115": [v115(1)],
    "libai": [libai(99, time=1.0, rate=2.0), libai(0, time=None)],
    "pipe": [pipe(1)],
    "deepspeed": [deepspeed(2), deepspeed(2, 4), deepspeed(0, accumulation=2)],
    "nanotron": [nanotron(1)],
    "nemo": [nemo(1)],
    "overflow": [overflow(package="deepscale")],
}
# No public log has the output of that query; those of the others are quoted in issues alone.
# test_torchtitan.py holds torchtitan's against what it printed, in colours.
NEVER_SEEN = {
    *("smi", "libai_2022", "torchtitan", "primus", "primus_2026", "primus_torchtitan"),
    *("megatron_bridge", "nemo_bar"),
}


def shapes(line: str) -> Iterator[str]:
    """A line's fields, between bars, with every number as 0."""
    for field in re.sub(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?", "0", line).split("|"):
        yield " ".join(field.split())


@pytest.fixture(scope="module")
def printed() -> set[str]:
    """The fields of every line that a trainer printed."""
    if not LOGS.is_dir():
        pytest.skip("TRAINBENCH_SHARED names no folder with real logs")
    files = [*LOGS.rglob("*"), *(PROJECT / "tests/data").rglob("*.log")]
    texts = (path.read_text("utf-8", "replace") for path in files if path.is_file())
    lines = {line for text in texts for line in re.split(r"[\r\n]", text)}
    bare = {re.sub(r"^(\[default\d+\]:|\S+: )", "", line) for line in lines}
    return {shape for line in lines | bare for shape in shapes(line)}


def test_every_maker_is_held_against_real_lines() -> None:
    assert set(LINES) | NEVER_SEEN == set(SOURCES)


@pytest.mark.parametrize("maker", LINES)
def test_a_made_line_has_the_fields_of_a_real_one(maker: str, printed: set[str]) -> None:
    for line in LINES[maker]:
        assert set(shapes(line)) <= printed, SOURCES[maker]

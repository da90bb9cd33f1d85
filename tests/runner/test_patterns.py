"""No regular expression over text from outside costs more than in proportion to its length.

The patterns are found by looking (module variables, classes, containers, calls of `re`), and the
worst lines are made of each pattern's own parts, so that a new pattern is measured by itself. Steps
are counted, no time.
"""

import re
from typing import Any

import pytest

from runner.archive.redact import Redaction
from runner.results.diagnosis.line_judge import _as_before
from tests.budget import some
from tests.runner.growth import modules_of, patterns_of, superlinear

PACKAGES = ("archive", "base", "figures", "folder", "launch.slurm", "logs", "results")
PATTERNS = {
    pattern: where
    for package in PACKAGES
    for module in modules_of(f"runner.{package}")
    for where, pattern in patterns_of(module)
} | {pattern: where for where, pattern in patterns_of(*modules_of("node.printable"))}
BUILT: dict[str, re.Pattern[Any]] = {
    "of a prefix": _as_before(b"2026-01-02 03:04:05 node17 [3] (worker pid=12): "),
    "of a campaign's names": Redaction(["gpu01", "n1"], ["alice", "bob-smith"])._compiled(),
}


@pytest.mark.parametrize("pattern", some(PATTERNS), ids=lambda pattern: PATTERNS[pattern])
def test_a_pattern_is_linear_on_its_worst_lines(pattern: re.Pattern[bytes]) -> None:
    """Issue 12, point 5."""
    assert superlinear(pattern) is None


@pytest.mark.parametrize("where", BUILT)
def test_so_is_one_that_is_built_while_it_runs(where: str) -> None:
    assert superlinear(BUILT[where]) is None


@pytest.mark.parametrize(
    "bad",
    [
        rb"\| *([^|:]+): *([^\s|]+) (?:samples/s )?(?=\|)",  # Megatron's fields, once
        rb"(?:[a-z_.]+(?: \[[^\]\r\n]+\])?, ?)*[a-z_.]+ \[(?:%|MiB)\]",  # nvidia-smi's header
        rb"^[A-Za-z][\w.-]*\d[\w.-]*: ",
        rb"\| (\d+) +((?:\d+ */ *\d+ *)+)\|",  # npu-smi's row: doubles with each number
        rb"^\S+ ?\d* Killed +\S",
        rb"HCCL\b.*(?:error|fail)",
        rb"GLIBC(?:XX)?_\S+' not found",
        rb"(a+)+$",
        rb"\(\S+ pid=\d+[^)]*\)",
    ],
)
def test_what_was_not_linear_is_found(bad: bytes) -> None:
    assert superlinear(re.compile(bad)) is not None

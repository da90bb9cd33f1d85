"""The tests that regressions.md names are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_tests_of_fixed_bugs_are_there() -> None:
    page = (ROOT / "tests" / "regressions.md").read_text(encoding="utf-8")
    named = re.findall(r"(?m)^\| `[0-9a-f]{8}` \|.*\| `(tests/[\w/]+\.py)::(\w+)` \|$", page)
    assert len(named) >= 20
    lost = [
        f"{file}::{test}"
        for file, test in named
        if f"\ndef {test}(" not in (ROOT / file).read_text(encoding="utf-8")
    ]
    assert lost == []

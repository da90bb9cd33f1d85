"""Inputs by the hundred thousand, and again those in which an earlier night found something."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz.fuzz import KEPT, again, fuzz
from tests.fuzz.targets import TARGETS

CASES, SECONDS = 100_000, 1500  # of all kinds, by their shares
KINDS = {target.name: target for target in TARGETS}


@pytest.mark.nightly("fuzz", by_day="test_fuzz.py has a few cases of each kind")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
def test_cases_of_a_kind_have_no_finding(
    kind: str, seed: int, record_property: Callable[[str, object], None]
) -> None:
    share = KINDS[kind].share / 100
    *_, tallies = fuzz(round(CASES * share), SECONDS * share, seed, kind, os.cpu_count() or 1)
    tally = tallies[kind]
    record_property("kind", kind)
    record_property("cases", tally.cases)
    record_property("CPU s", round(tally.cpu_s))
    record_property("slowest case, s", f"{tally.slowest_s:.2f}")
    assert {str(tally.inputs[why]): why for why in tally.findings} == {}


@pytest.mark.nightly("fuzz", by_day="what a night left in build/")
@pytest.mark.parametrize("path", sorted(KEPT.glob("*-*-*")), ids=lambda path: path.name)
def test_an_input_with_a_finding_has_none_any_more(path: Path) -> None:
    assert again(path) == ""

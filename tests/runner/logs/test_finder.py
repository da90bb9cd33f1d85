"""Marks are found wherever they stand, all of them, and little else is looked at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.logs.decoding import places
from runner.logs.finder import SHORTEST, Finder

MARKS = (b"log_interval " + b"." * 20, b"memory (MB) | allocated: ", b"a" * SHORTEST)
PARTS = (*MARKS, *(mark[:at] for mark in MARKS for at in (1, 7, 8, 14)), b"\0", b".", b"\n")


@given(st.lists(st.sampled_from(PARTS), max_size=30))
def test_as_find_finds_them(parts: list[bytes]) -> None:
    text = b"".join(parts)
    wanted = sorted((at, mark) for mark in MARKS for at in places(text, mark))
    assert Finder(MARKS).find(text) == wanted


@pytest.mark.parametrize("place", range(9))
def test_at_each_place_and_at_the_end(place: int) -> None:
    for mark in MARKS[:2]:
        assert Finder(MARKS).find(b"x" * place + mark) == [(place, mark)]

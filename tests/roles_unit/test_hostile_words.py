"""What a node's apt and its /etc/os-release say: printable, one word, read in linear time."""

import time

import pytest

from roles.node_state.filter_plugins.node_state import CAUSES, apt_fault
from roles.validate.action_plugins.validate_node import facts, numbers


@pytest.mark.parametrize(
    "line",
    [
        "file:x Release " * 40_000,
        "repository file:" + "x" * 500_000,
        "repository file:x " * 30_000,
        "https://x/" + "Release" * 70_000,
        "file:" + "x" * 500_000 + " Release",
        "cannot fetch" + " " * 500_000,
        "Version '" * 60_000,
        "Could not get lock " * 30_000,
        "unmet dependencies:" + " \t" * 200_000,
        "error processing package " * 20_000,
    ],
)
def test_apts_words_take_no_time(line: str) -> None:
    begun = time.process_time()
    said = apt_fault({"msg": line, "stderr": line})
    assert time.process_time() - begun < 2
    assert len(said) < 3_000


def test_apts_words_are_printable() -> None:
    assert apt_fault({"msg": "error processing package \x1b]0;x\x07libc6\n"}).isprintable()
    assert apt_fault({"msg": "\x1b[2J\x1b[31mno known word\n"}) == "no known word"
    assert len(CAUSES) > 5


@pytest.mark.parametrize("text", ["..", "../../etc", "a b", "x\ny", "{{ 7 }}", "$(id)", "/"])
def test_a_fact_that_may_become_a_path_is_one_word(text: str) -> None:
    names = ("id", "version", "release", "machine", "kernel", "python")
    gathered = facts(dict.fromkeys(names, text))
    assert {value for value in gathered.values() if isinstance(value, str)} == {""}


def test_a_version_of_5000_digits_is_no_traceback() -> None:
    assert numbers("9" * 5_000)

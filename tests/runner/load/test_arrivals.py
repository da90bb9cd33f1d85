"""Arrivals that were brought: what a node wrote, and what nobody did."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.load.arrivals import Arrival, arrivals_of, moved, read_arrivals

HEAD = b"began 1764427384.250 within_ms 5\n"


def test_entries_have_seconds_bytes_and_their_error() -> None:
    found = read_arrivals(HEAD + b"1000.0 10\n1000.0 20 50\n1500.5 30\n17", 30)
    assert (found.began, found.missing) == (1764427384.25, "")
    assert found.entries == (
        Arrival(1.0, 10, 0.005),
        Arrival(1.0, 20, 0.05),
        Arrival(1.5005, 30, 0.005),
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"100.0 10\n", "do not begin"),
        (HEAD.replace(b"1764427384.250", b"1e999"), "do not begin"),
        (HEAD + b"100.0 10\n90.0 20\n", "go back"),
        (HEAD + b"100.0 20\n110.0 20\n", "go back"),
        (HEAD + b"100.0 31\n", "beyond the log's end"),
        (HEAD + b"100.0 10\n-5 20\n", "no time and size"),
        (HEAD + b"100.0 10\n" + b"9" * 5000 + b".0 20\n", "no time and size"),
        (HEAD + b"\x00\xff\n", "no time and size"),
        (HEAD + b"1.0 1\n" * 2_000_000, "more than a node writes"),
    ],
)
def test_what_cannot_be_is_no_arrivals(text: bytes, why: str) -> None:
    found = read_arrivals(text, 30)
    assert found.entries == ()
    assert why in found.missing


def test_a_node_without_the_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "launcher.log").write_bytes(b"step\n")
    assert arrivals_of(tmp_path).missing == "its node noted no arrivals"
    (tmp_path / "arrivals").symlink_to("/dev/zero")
    assert arrivals_of(tmp_path).entries == ()


@given(st.lists(st.tuples(st.binary(max_size=5), st.binary(max_size=5)), max_size=8), st.data())
def test_arrivals_of_a_redacted_log_say_the_same_of_each_line(
    lines: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    """Whichever line was whole after an entry is whole after it in the redacted log."""
    before, after = (
        b"".join(pair[side].replace(b"\n", b"_") + b"\n" for pair in lines) for side in (0, 1)
    )
    sizes = data.draw(st.sets(st.integers(1, max(1, len(before)))))
    text = HEAD + b"".join(b"%d.0 %d\n" % (n, size) for n, size in enumerate(sorted(sizes)))
    new = [line.split() for line in moved(text, before, after).splitlines()[1:]]
    for size, entry in zip(sorted(sizes), new, strict=True):
        assert before[:size].count(b"\n") == after[: int(entry[1])].count(b"\n")

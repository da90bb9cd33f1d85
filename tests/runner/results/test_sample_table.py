"""Samples as columns: every form that a sampler writes, and what is left out of damaged ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.nvml import HEADER
from node.sampler import CPU_HEADER
from runner.results.sample_table import MOST_EVENTS, read_samples
from tests.runner.results.made_samples import Sample, rows_of

SHORT = "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n"
ROW = "{at}, {index}, {busy}, {used}, 81559 MiB, {power}, {clock}, 61, {energy}, {why}\n"
Fields = dict[str, int | None]


def written(row: Fields) -> str:
    """A row as the sampler writes it."""

    def unit(key: str, form: str) -> str:
        return "[N/A]" if row[key] is None else form % row[key]

    return ROW.format(
        at=f"{(row['at'] or 0) / 1000:.3f}",
        index=row["index"],
        busy=unit("busy", "%d %%"),
        used=unit("used", "%d MiB"),
        power=unit("power", "%d.25 W"),
        clock=unit("clock", "%d MHz"),
        energy=unit("energy", "%d mJ"),
        why=unit("why", "0x%016x"),
    )


def read(row: Fields) -> Sample:
    """What is to be read of it."""
    power, energy, events = row["power"], row["energy"], row["why"]
    busy, used, clock = ((None if row[key] is None else float(row[key] or 0)) for key in KEYS)
    return Sample(
        (row["at"] or 0) / 1000,
        str(row["index"]),
        busy,
        used,
        None if power is None else power + 0.25,
        None if energy is None else energy / 1000,
        61.0,
        clock,
        None if events is None else events & MOST_EVENTS,
    )


KEYS = ("busy", "used", "clock")
MOST = {
    **{"busy": 100, "used": 999_999_999, "power": 2000, "clock": 3000},
    **{"energy": 10**15 - 1, "why": 2**64 - 1},
}
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "at": st.integers(0, 9_999_999_999_999),
            "index": st.integers(0, 15),
            **{key: st.none() | st.integers(0, most) for key, most in MOST.items()},
        }
    ),
    min_size=1,
    max_size=30,
)


@settings(deadline=None)
@given(ROWS)
def test_every_row_of_the_sampler_is_read_whole(rows: list[Fields]) -> None:
    found = rows_of(read_samples((HEADER + "".join(map(written, rows))).encode()))
    assert found == [read(row) for row in rows]


def test_so_are_those_of_processors() -> None:
    rows = "1.500, 60 %, 9000 MiB, 16000 MiB, [N/A]\n2.501, [N/A], 9001 MiB, 16000 MiB, 71 mJ\n"
    assert rows_of(read_samples((CPU_HEADER + rows).encode())) == [
        Sample(1.5, "cpu", 60.0, 9000.0),
        Sample(2.501, "cpu", None, 9001.0, None, 0.071),
    ]


def test_a_sampler_that_began_again_with_other_columns_is_read_on() -> None:
    text = CPU_HEADER + "1.500, 60 %, 9000 MiB, 16000 MiB, 71 mJ\n" + SHORT
    found = rows_of(read_samples((text + "2.500, 3, 50 %, 5 MiB, 9 MiB\n").encode()))
    assert [(sample.time, sample.device) for sample in found] == [(1.5, "cpu"), (2.5, "3")]


GOOD = Sample(1.5, "0", 60.0, 5.0)


@pytest.mark.parametrize(
    ("row", "left"),
    [
        ("1.500, 0, 60 %, 5 MiB, 9 MiB", GOOD),  # the last line has no end
        ("1.500, 0, 60 %, 5 MiB\n1.5", None),
        ("1.500, 0, 60 %, 5 1.500, 0, 60 %, 5 MiB, 9 MiB\n", None),
        ("1.500, 0, 1_0 %, 5 MiB, 9 MiB\n", Sample(1.5, "0", None, 5.0)),
        ("1.500, 0, Infinity %, 5 MiB, 9 MiB\n", Sample(1.5, "0", None, 5.0)),
        ("1.500, 0, 60 %9, 5 MiB, 9 MiB\n", GOOD),
        ("1.500, 0, [Unknown Error], 5 MiB, 9 MiB\n", Sample(1.5, "0", None, 5.0)),
        ("nan, 0, 60 %, 5 MiB, 9 MiB\n", None),
        ("-1.5, 0, 60 %, 5 MiB, 9 MiB\n", None),
        ("1.500, 0, 60 %, 5 MiB, 9 MiB\n\x00\n", GOOD),
        ("2026/11/21 10:59:42.133, 0, 60 %, 5 MiB, 9 MiB\n", Sample(1795258782.133, "0", 60, 5)),
        ("1.500, 0, 60 %, \u0665 MiB, 9 MiB\n", Sample(1.5, "0", 60.0, None)),
    ],
)
def test_what_is_damaged_is_left_out(row: str, left: Sample | None) -> None:
    whole = "3.500, 1, 70 %, 6 MiB, 9 MiB\n"
    (*found, last) = rows_of(read_samples((SHORT + row + "\n" + whole).encode()))
    assert last == Sample(3.5, "1", 70.0, 6.0)
    assert found == ([] if left is None else [left])


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read(data: bytes) -> None:
    read_samples(data)
    read_samples(HEADER.encode() + data)

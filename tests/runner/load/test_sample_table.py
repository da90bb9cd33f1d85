"""Samples as columns: the same as row by row, for every form that the sampler writes."""

from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.nvml import HEADER
from node.sampler import CPU_HEADER
from runner.load.over_time import MOST_POINTS, over_time
from runner.load.sample_table import Sample, SampleTable, read_table, tabled
from runner.load.samples import read_samples

ROW = "{at:.3f}, {index}, {busy}, {used}, 81559 MiB, {power}, {clock}, 61, {energy}, {why}\n"
ABSENT = "[N/A]"


def maybe(form: str, most: int) -> st.SearchStrategy[str]:
    return st.one_of(st.just(ABSENT), st.integers(0, most).map(lambda value: form % value))


gpu_rows = st.lists(
    st.builds(
        lambda **fields: ROW.format(**fields),
        at=st.integers(0, 9_999_999_999_999).map(lambda ms: ms / 1000),
        index=st.integers(0, 15),
        busy=maybe("%d %%", 100),
        used=maybe("%d MiB", 999_999_999),
        power=maybe("%d.25 W", 2000),
        clock=maybe("%d MHz", 3000),
        energy=maybe("%d mJ", 10**15 - 1),
        why=maybe("0x%016x", 2**64 - 1),
    ),
    min_size=1,
    max_size=30,
)


def same(one: SampleTable, other: SampleTable) -> None:
    """Rows have the same figures, whatever order the devices' names have."""
    assert [one.names[code] for code in one.device] == [other.names[code] for code in other.device]
    for name in vars(one):
        if name not in ("names", "device"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-12)


def read_by_columns(text: str) -> SampleTable:
    """Read samples, and fail where they are read row by row."""
    refuses = Mock(side_effect=AssertionError("read row by row"))
    return read_table(text.encode(), refuses)


@given(gpu_rows)
def test_columns_and_rows_of_gpus_say_the_same(rows: list[str]) -> None:
    text = HEADER + "".join(rows)
    same(read_by_columns(text), tabled(read_samples(text.encode())))


def test_so_do_those_of_processors() -> None:
    rows = "1.500, 60 %, 9000 MiB, 16000 MiB, [N/A]\n2.501, [N/A], 9001 MiB, 16000 MiB, 71 mJ\n"
    found = read_by_columns(CPU_HEADER + rows)
    same(found, tabled(read_samples((CPU_HEADER + rows).encode())))
    assert found.names == ("cpu",)


@pytest.mark.parametrize(
    "rows",
    [
        "",
        "1.500, 0, 60 %, 5 MiB, 9 MiB",  # torn: it has no end
        "1.500, 0, 60 %, 5 MiB\n1.5",
        "1.500, 0, 1_0 %, 5 MiB, 9 MiB\n",
        "1.500, 0, Infinity %, 5 MiB, 9 MiB\n",
        "1.500, 0, 60 %, 5 MiB, 9 MiB\n\x00\n",
        "2026/11/21 10:59:42.133, 0, 60 %, 5 MiB, 9 MiB\n",
        "1.500, 0, 60 %, \u0665 MiB, 9 MiB\n",
    ],
)
def test_other_rows_are_read_one_by_one(rows: str) -> None:
    header = "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n"
    data = (header + rows).encode()
    same(read_table(data, read_samples), tabled(read_samples(data)))


@given(st.binary(max_size=200))
def test_any_bytes_are_read(data: bytes) -> None:
    read_table(data, read_samples)
    read_table(HEADER.encode() + data, read_samples)


def test_devices_come_by_their_first_sample_in_time() -> None:
    table = tabled([Sample(2.0, "0", 1.0, 1.0), Sample(1.0, "7", 2.0, 2.0), Sample(0.5, "0", 3, 3)])
    assert {name: each.time.tolist() for name, each in table.by_device().items()} == {
        "0": [0.5, 2.0],
        "7": [1.0],
    }


def test_a_long_run_has_a_curve_of_bounded_length() -> None:
    samples = [Sample(float(at), "0", at % 100, 5.0, 100.0) for at in range(10 * MOST_POINTS)]
    curves = over_time(samples)
    assert [len(curve) for curve in curves] == [MOST_POINTS] * 3
    assert {value for _, value in curves.power_w} == {100.0}

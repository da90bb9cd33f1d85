"""torch_gpt's parser on a recorded log, and on what logs turn into when things go wrong."""

import itertools
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.base.paths import PROJECT
from runner.results.parsed import read as read_logs
from runner.systems.torch_gpt import SYSTEM
from runner.terms.memory import MEMORY
from runner.terms.record import Interval, Measurement
from tests.budget import examples

RECORDED = (PROJECT / "tests" / "data" / "torch_gpt" / "cpu_2_processes.log").read_bytes()
LINE = (
    b"torch_gpt step=%d/60 samples_per_s=41.84 step_time_ms=382.40 loss=8.34392 grad_norm=2.323"
    b" lr=1.000e-03 skipped=0 nan=0 memory_allocated_mib=-,- memory_used_mib=386.8,397.2\n"
)


def read(*parts: bytes) -> Measurement:
    return SYSTEM.parse({0: parts})


COMPILED = PROJECT / "tests" / "data" / "torch_gpt"
START = (
    b"torch_gpt start first_step_s=12.3 compile_s=8.1 compiled=4 from_cache=4 compile_cache=warm"
    b" attention=cudnn\n"
)


def steps(found: Measurement) -> list[int]:
    return [interval.iteration for interval in found.intervals]


def blocks(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """The data, cut at these places."""
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[first:last] for first, last in itertools.pairwise(places)]


def test_a_recorded_log() -> None:
    found = read(RECORDED)
    assert steps(found) == [*range(1, 11), 60]
    assert found.intervals[1] == Interval(
        iteration=2, step_time_ms=532.28, samples_per_s=30.06, loss=8.14943, grad_norm=2.047
    )
    assert found.intervals[-1].iterations == 50  # as far as this trimmed log says
    assert found.memory_rss_mib == 437.7  # the largest rank, ever
    device = (found.memory_allocated_mib, found.memory_reserved_mib, found.memory_used_mib)
    assert device == (None, None, None)  # a CPU has none: not zero
    assert found.padded_vocab_size == 4096
    assert found.facts["torch"] == "2.13.0+cpu"
    assert found.facts["backend"] == "gloo"


@settings(deadline=None)
@given(st.lists(st.integers(0, len(RECORDED)), max_size=30))
def test_blocks_may_end_anywhere(cuts: list[int]) -> None:
    assert read(*blocks(RECORDED, cuts)) == read(RECORDED)


def test_byte_by_byte() -> None:
    assert read(*(RECORDED[i : i + 1] for i in range(len(RECORDED)))) == read(RECORDED)


@settings(deadline=None)
@given(st.integers(0, len(RECORDED)))
def test_a_log_cut_off_anywhere_gives_a_beginning_of_the_whole(end: int) -> None:
    whole, part = read(RECORDED).intervals, read(RECORDED[:end]).intervals
    assert part == whole[: len(part)]


def test_half_a_line_with_something_behind_it_is_no_step() -> None:
    half = LINE % 2
    for end in range(len(b"torch_gpt "), half.index(b"memory_used_mib=")):
        found = read(LINE % 1 + half[:end] + b"Traceback (most recent call last):\n" + LINE % 3)
        assert steps(found) == [1, 3], half[:end]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("windows line ends", lambda data: data.replace(b"\n", b"\r\n")),
        ("a prefix a rank", lambda data: re.sub(rb"(?m)^torch_gpt", b"[default0]:torch_gpt", data)),
        ("colours", lambda data: data.replace(b"torch_gpt ", b"\x1b[32m\x1b[1mtorch_gpt ")),
        ("colour before the end", lambda data: data.replace(b"\n", b" \x1b[0m\n")),
        ("a progress bar before", lambda data: data.replace(b"torch_gpt ", b"50%|##\rtorch_gpt ")),
        ("rubbish lines", lambda data: data.replace(b"\n", b"\n\x00\xff\xfe\x80\n")),
        ("rubbish before", lambda data: data.replace(b"torch_gpt ", b"\xff\x00\xc3torch_gpt ")),
        ("other lines", lambda data: data.replace(b"\n", b"\nNCCL INFO step=3/60 loss=0.0\n")),
    ],
)
def test_the_same_steps_are_read(name: str, change: Callable[[bytes], bytes]) -> None:
    assert read(change(RECORDED)).intervals == read(RECORDED).intervals, name


@pytest.mark.parametrize("word", ["nan", "inf", "-inf", "-", "", "x", "1.2.3", "NaN"])
def test_what_is_no_number_is_missing_and_never_zero(word: str) -> None:
    line = (LINE % 1).replace(b"8.34392", word.encode()).replace(b"41.84", word.encode())
    found = read(line).intervals[0]
    assert (found.loss, found.samples_per_s, found.step_time_ms) == (None, None, 382.4)


def test_skipped_and_nan_steps_are_counted() -> None:
    line = (LINE % 4).replace(b"skipped=0 nan=0", b"skipped=2 nan=1").replace(b"8.34392", b"nan")
    found = read(line).intervals[0]
    assert (found.iteration, found.iterations, found.skipped, found.nan) == (4, 4, 2, 1)


@pytest.mark.parametrize(
    "step",
    ["", "0/60", "-1/60", "1.5/60", "1e3/60", "nan/60", "x/60", "1", "/60", "\u0661/60", "9" * 30],
)
def test_what_is_no_step_is_passed_over(step: str) -> None:
    line = (LINE % 1).replace(b"step=1/60", b"step=" + step.encode())
    assert steps(read(line, LINE % 2)) == [2]


def test_the_line_of_validation_and_the_last_one_are_no_steps() -> None:
    more = b"torch_gpt eval samples=40 loss=6.5\ntorch_gpt done steps=60 wall_s=41.1\n"
    assert read(RECORDED + more).intervals == read(RECORDED).intervals


def test_an_interval_covers_the_iterations_since_the_line_before() -> None:
    found = read(LINE % 10, LINE % 20, LINE % 25)
    assert [(i.iteration, i.iterations) for i in found.intervals] == [(10, 10), (20, 10), (25, 5)]


def test_the_start_says_what_was_compiled_and_what_computed_attention() -> None:
    found = read(LINE % 1, START, LINE % 2)
    assert (steps(found), found.compile_s) == ([1, 2], 8.1)
    assert found.facts == {"attention": "cudnn", "compile_cache": "warm"}
    assert found.first_step is None  # the runner's own, which counts from the launcher's start


@pytest.mark.parametrize(("cache", "compile_s"), [("cold", 175.5), ("warm", 30.7)])
def test_a_recorded_log_of_a_llama_that_was_compiled(cache: str, compile_s: float) -> None:
    """The same run twice, its caches empty and then full."""
    found = read((COMPILED / f"cpu_llama_compiled_{cache}.log").read_bytes())
    assert (found.compile_s, found.facts["compile_cache"]) == (compile_s, cache)
    assert (found.facts["attention"], found.facts["attention_backend"]) == ("cpu_flash", "auto")
    assert (found.facts["compile"], found.facts["mixed_precision"]) == ("block", "master_weights")
    assert [step.loss for step in found.intervals] == [8.40305, 8.26914, 8.22071]


@pytest.mark.parametrize(
    ("old", "new", "facts", "compile_s"),
    [
        (b"compiled=4", b"compiled=0", {"attention": "cudnn", "compile_cache": "warm"}, None),
        (b"compile_s=8.1", b"compile_s=nan", {"attention": "cudnn", "compile_cache": "warm"}, None),
        (b"cudnn\n", b"cudnn", {}, None),  # half a line
        (b"=cudnn", b"=<b>", {"compile_cache": "warm"}, 8.1),
        (b"attention=", b"loss=", {"compile_cache": "warm"}, 8.1),
    ],
)
def test_a_start_that_lacks_something_says_nothing_of_it(
    old: bytes, new: bytes, facts: dict[str, str], compile_s: float | None
) -> None:
    found = read(LINE % 1, START.replace(old, new))
    assert (found.facts, found.compile_s) == (facts, compile_s)


def test_nodes_that_print_nothing_of_their_own_change_nothing() -> None:
    found = SYSTEM.parse({1: [b"W1121 noise\n"], 0: [RECORDED], 2: []})
    assert found == read(RECORDED)


def test_memory_is_the_fullest_devices_over_all_lines() -> None:
    line = (LINE % 1).replace(b"memory_allocated_mib=-,-", b"memory_allocated_mib=10.5,99.5,-")
    found = read(line, line.replace(b"step=1/", b"step=2/"))
    assert (found.memory_allocated_mib, found.memory_used_mib) == (99.5, 397.2)


@pytest.mark.parametrize("fullest", [0, 1])
def test_memory_is_that_of_the_fullest_node(fullest: int, tmp_path: Path) -> None:
    """Of several logs, in `collect` and in `parse`: not the emptiest node's."""
    logs = {}
    for rank, mib in ((fullest, 20.5), (1 - fullest, 10.5)):
        words = " ".join(f"{key}={mib}" for key in MEMORY).encode()
        old = b"memory_allocated_mib=-,- memory_used_mib=386.8,397.2"
        line = logs[rank] = (LINE % 1).replace(old, words)
        (tmp_path / f"{rank}.log").write_bytes(line)
    found = SYSTEM.parse({rank: [line] for rank, line in logs.items()})
    assert [getattr(found, key) for key in MEMORY] == [20.5] * 4
    reading = read_logs([tmp_path / f"{rank}.log" for rank in (0, 1)])
    assert [getattr(reading.measurement, key) for key in MEMORY] == [20.5] * 4


def test_each_figure_of_memory_has_its_own_name() -> None:
    """A line of today has all four; the process of a CPU was called a device's use until then."""
    device = b"memory_allocated_mib=10.5,- memory_reserved_mib=20.5,- memory_used_mib=30.5,-"
    old = b"memory_allocated_mib=-,- memory_used_mib=386.8,397.2"
    process = b"memory_allocated_mib=- memory_reserved_mib=- memory_used_mib=- memory_rss_mib=40.5"
    seen = []
    for words in (device + b" memory_rss_mib=-,-", device, old, process):
        found = read((LINE % 1).replace(old, words))
        seen.append([getattr(found, key) for key in MEMORY])
    assert seen[0] == seen[1] == [10.5, 20.5, 30.5, None]
    assert seen[2] == [None, None, None, 397.2]
    assert seen[3] == [None, None, None, 40.5]


def test_no_log_is_no_measurement() -> None:
    assert SYSTEM.parse({}) == SYSTEM.parse({0: []}) == read(b"") == Measurement()


words = st.sampled_from(
    [
        *(b"torch_gpt ", b"torch_gpt step=7/60 ", b"torch_gpt config ", b"\n", b"\r\n", b"\r"),
        *(b"step=3/60", b"step=", b"=", b"/", b" ", b"loss=1e999 ", b"step_time_ms=-5 "),
        *(b"memory_used_mib=1,,2 ", b"memory_used_mib= ", b"padded_vocab_size=1e5 ", b"nan=nan "),
        *(b"padded_vocab_size=0.5 ", b"skipped=1e400 ", b"\x1b[0m", b"\xff", b"\0", LINE % 5),
    ]
)


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(st.one_of(words, st.binary(max_size=6)), max_size=40), st.integers(1, 7))
def test_any_bytes_are_read_without_an_error_or_an_invented_step(
    parts: list[bytes], size: int
) -> None:
    data = b"".join(parts)
    found = read(*(data[i : i + size] for i in range(0, len(data), size)))
    assert found == read(data)
    for interval in found.intervals:
        assert f"step={interval.iteration}/".encode() in data
        for number in (interval.loss, interval.step_time_ms, interval.samples_per_s):
            assert number is None or math.isfinite(number)
    assert len(found.intervals) <= data.count(b"torch_gpt ")

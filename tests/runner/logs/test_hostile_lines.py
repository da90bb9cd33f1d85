"""A log may say anything: no line ends a command, costs more than its length, or is half read.

What is measured stands in the log, as a number from its first digit to its last.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runner.commands.parse import parse
from runner.logs.decoding import places
from runner.logs.families.megatron import Megatron
from runner.logs.kinds import KINDS, readers_of
from runner.logs.latest import latest
from runner.logs.log_metadata import Notes
from runner.logs.measure import measure
from runner.logs.numbers import grouped, human, number, quantity, whole_number
from runner.logs.recognise import signs
from runner.results.decide import last_words
from runner.results.diagnosis.verdict import diagnose
from runner.results.sample_table import read_samples
from runner.results.stall import read_stacks
from tests.budget import examples, some
from tests.runner.growth import modules_of
from tests.runner.logs import made_lines as lines
from tests.runner.logs.everything import not_in_the_log, read, read_file
from tests.runner.logs.test_properties import LOG, ROWS

DIGITS = b"9" * 5_000


@pytest.mark.parametrize(
    "text", ["", "x", "1_000", "١٢", "0x10", "9" * 10, "1.5", "-1", "+1", " 1", "1e3", "nan"]
)
def test_a_whole_number_is_digits_alone_and_few(text: str) -> None:
    """Issue 12, point 4: int() takes underscores, other scripts, and raises for 5,000 digits."""
    assert whole_number(text) is None
    assert whole_number(text.encode()) is None


@pytest.mark.parametrize(
    "text",
    *[["", ".", "1_0", "١٢", "nan", "-inf", "1e999", "1e101", "9" * 41, "1.2.3", " 1", "1 ", "1e"]],
)
def test_a_number_is_finite_and_of_few_digits(text: str) -> None:
    assert number(text) is None


def test_numbers_as_trainers_print_them() -> None:
    assert number(b"1.264968E+01") == 12.64968
    assert (number("-3.5"), number("+.5"), number("7.")) == (-3.5, 0.5, 7.0)
    assert (whole_number("000000012"), whole_number(b"123456789")) == (12, 123456789)
    assert (quantity("0"), quantity("-1"), quantity("1e16")) == (0.0, None, None)
    assert (grouped(b"1,234,567"), grouped("12,345.67"), grouped("-1,000")) == (
        1234567,
        12345.67,
        -1000,
    )
    assert (grouped("999"), grouped("1234567.5")) == (999, 1234567.5)
    assert (human(b"1.25K"), human("2.62M"), human("74"), human("3e-05")) == (
        1250,
        2.62e6,
        74,
        3e-5,
    )
    assert (human("1.5B"), human("1.5G"), human("-2T")) == (1.5e9, 1.5e9, -2e12)


@pytest.mark.parametrize("text", ["1,23", "1,2345", ",123", "1234,567", "1,234,", "1,234.5,6"])
def test_groups_of_digits_are_of_three(text: str) -> None:
    assert grouped(text) is None
    assert number(text) is None


@pytest.mark.parametrize(
    "text", ["", "K", "1 K", "1.5k", "1KK", "nanK", "infE", "9" * 41 + "K", "1e99M"]
)
def test_a_short_number_has_one_suffix(text: str) -> None:
    assert human(text) is None


@pytest.mark.parametrize(
    "line",
    [
        b"[Rank " + DIGITS + b"] Watchdog caught collective operation timeout: OpType=X",
        b"iteration 2/ " + DIGITS + b" | elapsed time per iteration (ms): 5.0 | lm loss: 1 |",
        b"iteration " + DIGITS + b"/ 5 | lm loss: 1.0 |",
        b"torch_gpt config log_interval=soon padded_vocab_size=\xc2\xb2",
        b"torch_gpt config padded_vocab_size=" + DIGITS,
        b'{"iteration": 1, "total_loss": ' + b"[" * 100_000 + b"}",
        b'{"iteration": 1, "total_loss": ' + DIGITS + b"}",
        b"iteration: 3/9 total_loss: 1 time: " + DIGITS + b".0 s/iter total_throughput: "
        + DIGITS + b" samples/s",
        b"iteration: 3/9 total_loss: 1 time: 9e99.5 s/iter total_throughput: 1 samples/s",
        b"[trainbench: rank " + DIGITS + b", pid 1, stood at:]",
    ],
    ids=lambda line: line[:40],
)  # fmt: skip
def test_a_line_that_ended_commands_is_refused(tmp_path: Path, line: bytes) -> None:
    """Issue 12, point 4: each raised in parse, diagnosis or the live view."""
    data = LOG + line + b"\n" + line
    assert list(not_in_the_log(data, read(data))) == []
    assert read(line + b"\n")["megatron"] == []
    read_file(tmp_path / "log", data)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[:40])
def test_any_number_of_any_line_may_be_endless(row: bytes) -> None:
    for match in some(re.finditer(rb"\d+", row)):
        for digits in (DIGITS, b"9" * 20, b"9" * 10):
            data = row[: match.start()] + digits + row[match.end() :]
            assert list(not_in_the_log(data, read(data))) == []


@pytest.mark.parametrize("figure", ["0.0", "-12.5", "-0.0"])
def test_a_time_or_rate_of_zero_or_less_is_not_measured_and_named(
    tmp_path: Path, figure: str
) -> None:
    """Issue 12, low: a negative step time counted as measured."""
    good = "torch_gpt step=1/3 samples_per_s=10.0 step_time_ms=100.0 memory_used_mib=1.0\n"
    bad = good.replace("step=1", "step=2").replace("100.0", figure).replace("10.0", figure)
    (step,) = measure(readers_of("torch_gpt"), {0: [bad.encode()]}).intervals
    assert (step.iteration, step.step_time_ms, step.samples_per_s) == (2, None, None)
    assert measure(readers_of("torch_gpt"), {0: [(good + bad).encode()]}).unmeasured == 2
    path = tmp_path / "log"
    path.write_text(good + bad)
    result = parse([path], None)
    assert (result["logged_lines"], result["step_time_ms"], result["samples_per_s"]) == (2, 100, 10)
    assert (
        "not measured: 2 times or rates on the lines that are not numbers above 0"
        in result["reason"]
    )


def test_a_negative_time_of_megatron_is_not_measured() -> None:
    text = "\n".join(lines.megatron(step, rate=1.5) for step in (1, 2, 3)) + "\n"
    time = re.findall(r"iteration \(ms\): ([\d.]+)", text)[0]
    steps = Megatron().feed(text.replace(time, "-5.0", 2).encode())
    assert [step.step_time_ms is None for step in steps] == [True, True, False]
    assert sum(step.unmeasured for step in steps) == 2


def test_what_stands_behind_a_carriage_return_is_another_line() -> None:
    rows = [f"{lines.megatron(step, rate=1.5)}\n" for step in (1, 2, 3)]
    rows[1] = rows[1].replace("loss scale", "loss sc\rale")
    steps = Megatron().feed("".join(rows).encode())
    assert [step.grad_norm is None for step in steps] == [False, True, False]


def test_a_sign_or_a_digit_before_a_cell_is_not_dropped() -> None:
    header = b"memory.used [MiB], utilization.gpu [%]\n"
    for cell in (b"-512 MiB", b"123456789 MiB", b"1.512 MiB"):
        notes = Notes()
        notes.scan(header + cell + b", 5 %\n")
        assert not notes.measured
    notes = Notes()
    notes.scan(header + b"[1]: 512 MiB, 5 %\n")
    assert [figure for _, _, figure in notes.measured] == [512, 5]


def test_the_rest_of_an_endless_line_is_no_line() -> None:
    """Its first piece may have ended within a number."""
    header = b"memory.used [MiB], utilization.gpu [%]\n"
    pieces = [header, b"x" * (1 << 17) + b"123", b"45 MiB, 50 %\n", b"77 MiB, 5 %\n"]
    assert measure(readers_of("libai"), {0: pieces}).memory_used_mib == 77


@pytest.mark.parametrize("package", ["runner.logs", "runner.results"])
def test_no_part_of_a_line_is_made_a_number_elsewhere(package: str) -> None:
    """`int(match[1])` is: of what a pattern matched, runner/logs/numbers.py alone makes numbers."""
    for module in modules_of(package):
        for call in ast.walk(ast.parse(inspect.getsource(module))):
            if not isinstance(call, ast.Call) or ast.unparse(call.func) not in ("int", "float"):
                continue
            part = call.args[0]
            index = part.slice if isinstance(part, ast.Subscript) else None
            place = index.value if isinstance(index, ast.Constant) else 0
            assert not isinstance(place, int) or place < 1, f"{module.__name__}:{call.lineno}"


CHANGES = (b"9" * 12, DIGITS, b"-", b".", b"e", b"_", b"\0", b" ", b"|", b"nan", b"\r", b"\x1b[1m")


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(LOG)), st.sampled_from(CHANGES)), max_size=6))
@example([(LOG.index(b"elapsed"), DIGITS)])
def test_no_figure_is_made_up_or_half_read(changes: list[tuple[int, bytes]]) -> None:
    data = LOG
    for place, change in changes:
        data = data[:place] + change + data[place + len(change) % 3 :]
    assert list(not_in_the_log(data, read(data))) == []


PUMPS = (
    *(b" ", b"1", b"|", b"%", b"[%]", b"(%)", b" MiB", b"1 MiB, ", b"\r", b"a, ", b"[Rank 1]"),
    *(b"iteration 1/ 1 |", b"steps: \r", b"SamplesPerSec=", b"torch_gpt ", b"     | ", b"1 MiB\r"),
    *(b'"iteration": ', b"Skipping step. Attempted loss scale: ", b"log_interval " + b"." * 20),
    *(b"[trainbench: rank 1, pid 1, stood at:]", b"x Traceback (most recent call last)\n", b"{"),
    *(b"OVERFLOW! Rank 1 Skipping step. Attempted loss scale: ", b"Error:\n", b"memory.used [MiB]"),
    *(b"iteration 1/ 2 | lm loss: 1 |\n", lines.SMI_HEADER.encode(), b"timestamp, 1\n"),
)
SMALL, LARGE = 15_000, 60_000  # bytes
MOST_GROWTH = 8.0  # linear is 4, quadratic 16


def _feed(kind: str, data: bytes) -> None:
    KINDS[kind]().feed(data)


READERS: dict[str, Callable[[bytes], object]] = {
    **{name: partial(_feed, name) for name in KINDS},
    "signs": signs,
    "last words": last_words,
    "stacks": lambda data: read_stacks("n1", data.decode("latin-1")),
    "samples": read_samples,
}


def _of_a_file(read: Callable[[Path], object], path: Path) -> Callable[[bytes], object]:
    def through(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return through


def _calls(read: Callable[[], object]) -> int:
    """How many functions are called, in Python and in C: work that no other load moves."""
    count = 0

    def one(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(one)
    try:
        read()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("pump", some(PUMPS), ids=lambda pump: pump[:30])
def test_no_line_costs_more_than_its_length(tmp_path: Path, pump: bytes) -> None:
    """Issue 12, point 5, of whole readers; tests/runner/test_patterns.py has regular expressions."""
    path, parsed = tmp_path / "log", partial(measure, readers_of("megatron_deepspeed"))
    readers = READERS | {
        "diagnosis": _of_a_file(lambda log: diagnose({log: ()}), path),
        "newest step": _of_a_file(lambda log: latest(parsed, {0: log}), path),
    }
    for name, reader in readers.items():
        small, large = (
            _calls(partial(reader, pump * (size // len(pump)) + b"\n")) for size in (SMALL, LARGE)
        )
        assert large < MOST_GROWTH * small + 1000, name


ROW = lines.megatron(7).encode() + b"\n"
ALIKE = b"".join(ROW[:at] + b"~" + ROW[at + 1 :] for at in range(0, len(ROW) - 1, 7))
TEXTS = {
    "no line's end": ROW[:-1] * 100,
    "tiny lines": b"1\n|\n" * 2_000,
    "near matches": b"iteration 1/ 2 |\nmemory (MB) | allocated\nlm loss value: 1 |\n" * 500,
    "binary": bytes(range(256)) * 30,
    "alike except for a byte": ALIKE,
}


@pytest.mark.parametrize("name", TEXTS)
def test_twice_a_hostile_text_is_twice_the_work(tmp_path: Path, name: str) -> None:
    path = tmp_path / "log"
    counts = []
    for times in (1, 2, 4, 8):
        path.write_bytes(TEXTS[name] * times + b"\n")
        counts.append(_calls(lambda: parse([path], None)))
    _, second, fourth, eighth = counts  # the first imports modules
    assert eighth - fourth < 2.2 * (fourth - second) + 1000
    assert eighth < 60_000 + 6 * path.stat().st_size  # tiny lines are looked at one by one


def test_a_good_line_is_read_with_as_much_work_as_any_other() -> None:
    """No line costs more than the first ones did."""
    made = [lines.megatron(step, rate=1.5).encode() + b"\n" for step in range(100_000, 102_000)]
    few, many = (_calls(partial(Megatron().feed, b"".join(made[:count]))) for count in (100, 2_000))
    assert many < 21 * few


def test_a_mark_that_overlaps_itself_is_not_read_at_each_of_its_letters() -> None:
    """600 KB of dashes, of which one mark is made, took 2.4 s (found by the suite `fuzz`)."""
    assert list(places(b"-" * 100, b"-" * 15)) == [0, 15, 30, 45, 60, 75]
    assert list(places(b"ab|ab|", b"ab")) == [0, 3]

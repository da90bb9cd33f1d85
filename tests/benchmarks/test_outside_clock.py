"""The clock outside of the trainers: from when lines arrived to samples/s."""

import json
from pathlib import Path

import pytest

from benchmarks.outside_clock import FollowedLog, main, rate


def lines(pattern: str, first: int = 1) -> list[tuple[float, str]]:
    return [(2.0 + 0.5 * step, pattern.format(first + step)) for step in range(20)]


@pytest.mark.parametrize(
    ("pattern", "first"),
    [("torch_gpt step={}/20 samples_per_s=128", 1), ("iter {}: loss 4.2, time 500.00ms", 0)],
)
def test_samples_are_those_after_warmup(pattern: str, first: int) -> None:
    """Eight of twenty iterations are left out, whether a trainer counts from 0 or 1."""
    assert rate(lines(pattern, first), 8, 64) == (128.0, 12)


def test_a_log_without_enough_steps_has_no_rate() -> None:
    assert rate(lines("iter {}:")[:8], 8, 64) is None
    assert rate([(1.0, "no step")], 8, 64) is None


def test_a_line_is_stamped_once_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "launcher.log"
    path.write_text("a\nb")
    log = FollowedLog(path)
    log.poll(1.0)
    with path.open("a") as stream:
        stream.write("c\n")
    log.poll(2.0)
    assert log.lines == [(1.0, "a"), (2.0, "bc")]


def test_stamps_are_read_as_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stamps = tmp_path / "stamps.json"
    stamps.write_text(json.dumps({"/r/cell/r1a1/launcher.log": lines("iter {}:")}))
    assert main(["--read", str(stamps)]) == 0
    assert "cell/r1a1  " in capsys.readouterr().out

"""The replay of tune on tables of measured layouts."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import tuning
from runner.tune.candidates import MachineRates
from runner.tune.step_time import PRIOR_MEAN, components, log_times
from tests.runner.tune.machine import grid

HEADER = "model,parameters_b," + ",".join(tuning.COLUMNS) + ",step_time_ms"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three models that the formulas nearly describe."""
    layouts = [one.layout for one in grid() if one.layout]
    random, lines = np.random.default_rng(0), [HEADER]
    for depth in (12, 18, 24):
        parts = components(layouts, MachineRates()) * depth / 24
        times = np.exp(log_times(parts, PRIOR_MEAN + 0.3)[0] + random.normal(0, 0.02, len(layouts)))
        for one, time in zip(layouts, times, strict=True):
            sizes = {name: getattr(one, name) for name in tuning.COLUMNS.values()}
            numbers = ",".join(str(size) for size in {**sizes, "layers": depth}.values())
            lines.append(f"gpt-{depth},0.3,{numbers},{1e3 * time}")
    path = tmp_path / "layouts.csv"
    path.write_text("\n".join(lines))
    return path


def test_the_rows_of_the_judged_model_are_unknown(table: Path) -> None:
    rows = tuning.read([table])
    for group in tuning.groups(rows):
        own = {row.layout.layers for row in group.rows}
        assert len(own) == 1
        known = {earlier.layout.layers for earlier in group.earlier.earlier}
        assert known == {12, 18, 24} - own


def test_small_groups_are_left_out(table: Path) -> None:
    rows = tuning.read([table])
    assert len(tuning.groups(rows)) == 3
    assert tuning.groups(rows, fewest=100) == []


def test_tune_is_better_than_guessing(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tuning.main([str(table), "--seeds", "2"]) == 0
    printed = capsys.readouterr().out
    lines = [line.split("|") for line in printed.splitlines() if line.startswith("| tune  ")]
    assert len(lines) == 2  # as measured, and with noise
    assert float(lines[0][2]) == 100.0
    share = float(lines[0][6].split("(")[1].split("%")[0])
    assert share < 30


def test_a_run_of_the_replay_is_always_the_same(table: Path) -> None:
    group = tuning.groups(tuning.read([table]))[0]
    again = tuning.groups(tuning.read([table]))[0]
    assert group.measure(3, 1, 0.03, 7) == again.measure(3, 1, 0.03, 7)
    assert group.measure(3, 1, 0.03, 7) != group.measure(3, 2, 0.03, 7)
    assert tuning.tuned()(group, 0.03, 7) == tuning.tuned()(again, 0.03, 7)


def test_an_empty_table_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.csv"
    path.write_text(HEADER)
    with pytest.raises(SystemExit):
        tuning.main([str(path)])
    assert "no group of 6 layouts" in capsys.readouterr().err


GOOD = "gpt-12,0.3,8,8,32,4,1024,12,1024,16,2,2,2,219.7"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "its first line lacks model, devices"),
        (HEADER.replace("heads", "head"), "its first line lacks heads"),
        (f"{HEADER}\n{GOOD.replace('219.7', 'fast')}", "line 2: step_time_ms is 'fast'; it must"),
        (f"{HEADER}\n{GOOD.replace('219.7', '-3')}", "step_time_ms is '-3'; it must be a number"),
        (f"{HEADER}\n{GOOD.replace('219.7', 'nan')}", "it must be a number above 0"),
        (f"{HEADER}\n{GOOD.replace(',16,2', ',0,2')}", "heads is '0'"),
        (f"{HEADER}\n{GOOD.replace(',16,2', ',1.5,2')}", "it must be a whole number"),
        (f"{HEADER}\n{GOOD.replace(',16,2', ',1e30,2')}", "it must be a whole number"),
        (f"{HEADER}\n{GOOD.replace('2,2,2', '2,2,4')}", "is 16, and devices 8; correct the line"),
        (f"{HEADER}\ngpt-12,0.3,8", "line 2: devices_per_node is ''"),
        (f"{HEADER}\n\xff", "is not CSV in UTF-8"),
        (f'{HEADER}\n"gpt', "is not CSV in UTF-8"),
        (None, "cannot read"),
    ],
)
def test_a_hostile_table_is_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, words: str
) -> None:
    path = tmp_path / "layouts.csv"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SystemExit) as ended:
        tuning.main([str(path)])
    assert ended.value.code == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert words in said


@pytest.mark.parametrize("option", ["--noise=-1", "--noise=nan", "--noise=300", "--seeds=0"])
def test_options_without_sense_are_refused(table: Path, option: str) -> None:
    with pytest.raises(SystemExit):
        tuning.main([str(table), option])


def test_the_order_of_rows_decides_nothing(table: Path) -> None:
    """Same answers and as many runs, whatever the order, a byte order mark and Windows' lines."""
    head, *lines = table.read_text().splitlines()
    random = np.random.default_rng(5)
    mixed = [lines[at] for at in random.permutation(len(lines))]
    other = table.with_name("mixed.csv")
    other.write_bytes(("\ufeff" + "\r\n".join([head, *mixed])).encode())
    way = tuning.tuned()

    def told(path: Path) -> list[tuple[str, tuning.Choice]]:
        judged = tuning.groups(tuning.read([path]))
        return sorted(((one.name, way(one, 0.0, 0)) for one in judged), key=lambda pair: pair[0])

    assert told(table) == told(other)

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

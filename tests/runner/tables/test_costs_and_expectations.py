"""Costs and what others reached, in a table's formats: of H200s with a price, and of CPUs."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from runner.__main__ import main
from runner.expect.references import shipped
from runner.folder.campaign import Campaign
from runner.results.records import records_of
from runner.tables.campaign_reading import read_campaign
from runner.tables.campaign_table import to_table
from runner.tables.columns import for_machines
from runner.tables.expected import add_expectations
from runner.terms.record import Record
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, torch_gpt, write
from tests.runner.documents import rows
from tests.runner.gpu_campaign import gpus


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    gpus(folder)
    return folder


@pytest.fixture(scope="module")
def on_cpus(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    folder = tmp_path_factory.mktemp("cpus")
    matrix = small_matrix({"zero_stage": [0, 1]}, {"train_iters": 30})
    campaign = write(folder, matrix, small_cluster(), lambda *_: Story({0: torch_gpt(30)}))
    return records_of(campaign, folder)


def collect(runs: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert main(["collect", "--runs", str(runs), *more]) == 0
    return capsys.readouterr().out


def test_costs_are_worked_out_from_the_row_itself(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = list(
        csv.DictReader(io.StringIO(collect(runs, capsys, "--format", "csv", "--device-hour", "3")))
    )
    priced = [row for row in table if row["cost_per_million_tokens"]]
    assert len(priced) == len([row for row in table if row["numbers_from"] == "ok runs"])
    for row in priced[:3]:
        an_hour = 3 * int(row["devices"])
        tokens_an_hour = float(row["tokens_per_s"]) * 3600
        by_hand = an_hour / tokens_an_hour * 1e6
        assert float(row["cost_per_million_tokens"]) == pytest.approx(by_hand)
        if row["seconds_to_target"]:
            way = an_hour / 3600 * float(row["seconds_to_target"])
            assert float(row["cost_to_target"]) == pytest.approx(way)
    text = collect(runs, capsys, "--format", "markdown", "--device-hour", "3")
    assert "| cost_per_million_tokens |" in " ".join(text.split())


def test_without_a_price_nothing_costs_anything(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "cost" not in collect(runs, capsys, "--format", "csv").partition("\n")[0]
    (document,) = (json.loads(collect(runs, capsys, "--format", "json")),)
    assert not [
        key for row in document["rows"] for key in row["figures"] if key.startswith("cost_")
    ]


def test_a_cell_has_what_others_reached_as_a_column_and_a_line(
    runs: Path,
) -> None:
    (campaign,) = (Campaign(path) for path in runs.iterdir())
    table = read_campaign(campaign, Path.cwd()).rows
    assert not [row for row in table if row["expected"]]  # of this kind there is ours alone
    others = [replace(reference, licence="MIT") for reference in shipped()]
    add_expectations(table, others)
    beside = [row for row in table if row["expected"]]
    assert beside
    assert all(row["expected"]["percent"] for row in beside if row["expected"])
    arithmetic = [row["figures"]["arithmetic"] or "" for row in table]
    fp8 = next(row for row, of in zip(table, arithmetic, strict=True) if of.startswith("fp8"))
    assert fp8["expected"] is None
    text = to_table(table, 2000, wide=True, all_notes=True)
    line = next(line for line in text.splitlines() if "Beside others, " in line)
    assert "uses 4 devices (here 8), " in line
    assert "docs" not in line
    assert "expected_percent" in {column.key for column in for_machines(table)}


def test_cells_on_cpus_have_neither(on_cpus: list[Record]) -> None:
    table = rows(on_cpus)
    text = to_table(table, 200, wide=True, all_notes=True)
    assert "Beside others" not in text
    assert "others" not in text.partition("---")[0]
    keys = {column.key for column in for_machines(table)}
    assert not [key for key in keys if key.startswith(("cost_", "expected_"))]


def test_a_price_holds_for_cpus_too(on_cpus: list[Record]) -> None:
    for row in rows(on_cpus, device_hour=0.36):
        assert row["figures"]["tokens_per_s"] is not None
        by_hand = 0.36 * row["figures"]["devices"] / 3600 / row["figures"]["tokens_per_s"] * 1e6
        assert row["figures"]["cost_per_million_tokens"] == pytest.approx(by_hand)
        assert row["figures"]["cost_to_target"] is None
        assert row["missing"]["cost_to_target"] == "the matrix has no target_loss"


@pytest.mark.parametrize("text", ["cheap", "0", "-1", "nan", "inf"])
def test_a_price_is_a_number_above_0(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["collect", f"--device-hour={text}"])
    assert ended.value.code == 2
    assert "is not a price; give a number above 0, such as 2.50" in capsys.readouterr().err

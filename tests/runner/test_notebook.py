"""A campaign as a DataFrame, by the lines that docs/measures.md has for a notebook."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from runner.__main__ import main
from runner.base.errors import UserError
from runner.folder.campaign import Campaign
from runner.notebook import frame
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, torch_gpt, write

PAGE = Path(__file__).resolve().parents[2] / "docs" / "measures.md"


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    """Two stages on one and two nodes; the last cell has not run."""
    matrix = small_matrix(
        {"zero_stage": [0, 1], "nodes": [1, 2]},
        {"model": "gpt2-small", "global_batch_size": 16, "train_iters": 20},
        name="zero",
        warmup_iters=2,
    )
    monkeypatch.chdir(tmp_path)
    return write(
        tmp_path / "runs",
        matrix,
        small_cluster(2, 8, name="vs"),
        lambda cell, _: (
            None
            if cell.nodes == 2 and cell.parameters["zero_stage"] == 1
            else Story({0: torch_gpt(20, rate=100.0 * cell.nodes)})
        ),
    )


def test_the_documents_lines_work(campaign: Campaign) -> None:
    _, _, section = PAGE.read_text(encoding="utf-8").partition("## In a notebook")
    names: dict[str, Any] = {}
    exec(section.partition("```python\n")[2].partition("```")[0], names)
    faster = names["faster"]
    assert list(faster.columns) == [0, 1]
    assert list(faster.index) == [1, 2]
    assert faster.loc[2, 0] == pytest.approx(200, rel=0.02)
    assert np.isnan(faster.loc[2, 1])


def test_columns_are_typed_and_what_is_missing_is_no_zero(campaign: Campaign) -> None:
    cells = frame(campaign.path)
    types = {name: str(kind) for name, kind in cells.dtypes.items()}
    assert (types["nodes"], types["counted_lines"], types["axis_zero_stage"]) == ("Int64",) * 3
    assert (types["samples_per_s"], types["memory_used_mib"]) == ("float64", "float64")
    assert (types["status"], types["activation_checkpointing"]) == ("string", "boolean")
    assert list(cells["status"]) == ["ok", "ok", "ok", "pending"]
    pending = cells.iloc[3]
    assert pending["counted_lines"] is pd.NA
    assert np.isnan(pending["samples_per_s"])
    assert list(cells["counted_lines"])[:3] == [18, 18, 18]


def test_csv_is_the_frame_in_full_precision(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["collect", "--campaign", str(campaign.path), "--format", "csv"]) == 0
    read = pd.read_csv(io.StringIO(capsys.readouterr().out))
    cells = frame(campaign.path)
    assert list(read) == list(cells)
    assert list(read["samples_per_s"][:3]) == list(cells["samples_per_s"][:3])


def test_a_campaign_that_is_not_there_is_one_sentence(campaign: Campaign) -> None:
    with pytest.raises(UserError, match="zero-vs"):
        frame("zero-vz", runs=campaign.path.parent)

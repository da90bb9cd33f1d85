"""A campaign's folder as records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner import load
from runner.errors import UserError
from runner.records import Record
from runner.rundir import Campaign, write_json
from tests.unit.builders import small_cluster, small_matrix, small_run


def pending(tmp_path: Path) -> tuple[Campaign, list[Record]]:
    matrix = small_matrix(
        {"zero_stage": [0, 1], "nodes": [1, 2]},
        {"model": "gpt2-small", "micro_batch_size": 2, "global_batch_size": 8},
        repeats=2,
        warmup_iters=3,
    )
    campaign = Campaign(tmp_path / "m-rack")
    campaign.open(matrix, small_cluster())
    return campaign, load.records(campaign, tmp_path)


def test_a_cell_that_has_not_run_says_all_that_was_asked(tmp_path: Path) -> None:
    _, records = pending(tmp_path)
    assert [record.repeat for record in records] == [1, 2] * 4
    last = records[-1]
    assert (last.status, last.axes) == ("pending", {"zero_stage": 1, "nodes": 2})
    assert (last.nodes, last.data_parallel, last.tensor_parallel) == (2, 2, 1)
    assert (last.micro_batch_size, last.global_batch_size, last.warmup_iters) == (2, 8, 3)
    assert last.parameters["model"] == "gpt2-small"
    assert last.model is not None
    assert last.model.hidden_size == 768


def test_a_run_is_read_with_the_defaults_of_parameters_younger_than_it(tmp_path: Path) -> None:
    campaign, before = pending(tmp_path)
    attempt = campaign.new_attempt(before[0].cell_id, 1)
    run = small_run({"zero_stage": 0}, small_cluster()).to_json()
    run["cell"] = {**run["cell"], "id": before[0].cell_id}
    del run["cell"]["parameters"]["vocab_size"]
    write_json(attempt.path / "run.json", run)
    found = load.records(campaign, tmp_path)[0]
    assert (found.status, found.cell_id) == ("did_not_run", before[0].cell_id)
    assert found.parameters["vocab_size"] is None
    assert found.log == "/".join(
        (*attempt.path.relative_to(tmp_path).parts, "nodes/0000-n1/launcher.log")
    )


def test_a_folder_without_a_campaign_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no campaign"):
        load.records(Campaign(tmp_path), tmp_path)


def test_campaign_json_holds_each_cell_whole(tmp_path: Path) -> None:
    campaign, _ = pending(tmp_path)
    cells = json.loads((campaign.path / "campaign.json").read_text())["cells"]
    assert {"id", "name", "pin", "dataset", "env", "device_ids", "parameters"} <= set(cells[0])

"""A file that cannot be read is its run's or node's alone; the suite `fuzz` tries any value."""

import json
from pathlib import Path
from typing import Any

import pytest

from runner.base.errors import UserError
from runner.folder import names
from runner.folder.campaign import Campaign
from runner.launch import status
from runner.results.records import records_of
from runner.tables.environment_facts import environment_section
from runner.terms.cell import Cell
from runner.terms.record import Measurement
from tests.runner import campaigns
from tests.runner.builders import small_cluster, small_matrix

ENV = {
    "schema": 1,
    "read_at": 1.8e9,
    "hostname": "n1",
    "cpu": {"model": "EPYC", "cores": 64},
    "memory": {"total_mib": 515_000},
    "gpu": {"driver": "450", "problem": None, "devices": [{"power.limit": "300"}]},
    "cuda_toolkits": {"/usr/local/cuda-11.3": "11.3.1"},
    "packages": {"libnccl2": "2.7"},
    "systems": {"torch_gpt/torch-2.13": {"torch": "2.13.0", "lock_sha256": "0" * 64}},
    "network": {"interfaces": {"eth0": {"carries": "cluster", "mtu": 1500}}},
    "time": {"offset_s": 0.1, "error_s": 0.1, "synchronised": True},
}


CLUSTER = small_cluster(2)
PUBLISHED = [{"source": "paper", "rows": [{"cell": {"zero_stage": 0}, "samples_per_s": 90}]}]
MATRIX = small_matrix(
    {"zero_stage": [0, 1, 2]},
    {"train_iters": 12, "env": {"A": "b"}, "device_ids": [0, 1], "nodes": 2},
    warmup_iters=2,
    baseline="zero_stage=0",
    table={"shape": "osdi", "split": ["nodes"], "labels": {"date": "{number}"}},
    published=PUBLISHED,
)


def written(runs: Path) -> Campaign:
    """A campaign with a run that is ok, one that failed, and one that nobody made."""

    def story(cell: Cell, repeat: int) -> campaigns.Story | None:
        if cell.axes["zero_stage"] == 0:
            log = campaigns.torch_gpt(12)
            return campaigns.Story({0: log}, samples={0: campaigns.sampled(50, 20, 2)})
        if cell.axes["zero_stage"] == 1:
            log = campaigns.torch_gpt(5, of=12, then=campaigns.OUT_OF_MEMORY)
            return campaigns.Story({0: log}, {"cause": "exit", "host": "n1", "message": "n1: exit"})
        return None

    def facts(host: str) -> dict[str, Any]:
        device = {"name": "V100", "memory_mib": "32510", "driver": "440"}
        return campaigns.inspected(host, devices=[device], files={"env": ENV})

    campaign = campaigns.write(runs, MATRIX, CLUSTER, story, facts=facts)
    for attempt in campaign.path.glob(names.ATTEMPTS):
        node = next(attempt.glob(f"{names.NODES}/0000-*"))
        polls = [{"node": 1_795_000_000.0 + n, "log_bytes": 200 * n} for n in range(3)]
        text = "".join(json.dumps(poll) + "\n" for poll in polls)
        (node / names.TIMELINE).write_text(text)
        done = {
            "ended_by": "exit",
            "rc": 0,
            "signal": None,
            "oom_kills": 0,
            "log": "",
            "others": "",
        }
        (node / names.DONE).write_text(json.dumps(done))
        product = {"arithmetic": "fp32", "at": 1.8e9, "tflop_per_s": [0.5, 0.5]}
        content = {"schema": 1, "nodes": {"n1": [product], "n2": [product]}}
        (attempt / names.PRODUCTS).write_text(json.dumps(content))
    return campaign


# --- one run's files are that run's row ----------------------------------------------------------


def statuses(campaign: Campaign) -> list[str]:
    return [record.status for record in records_of(campaign, campaign.path)]


def attempt_of(campaign: Campaign, stage: int) -> Path:
    return next(campaign.path.glob(f"zero_stage={stage}-*/repeat1/attempt1"))


@pytest.mark.parametrize("name", [names.RUN, names.OUTCOME])
@pytest.mark.parametrize("text", ["{}", "[" * 100_000, '{"status": 5}', "{broken"])
def test_a_run_that_cannot_be_read_is_a_row_with_the_reason(
    name: str, text: str, tmp_path: Path
) -> None:
    campaign = written(tmp_path)
    (attempt_of(campaign, 0) / name).write_text(text)
    row, *others = records_of(campaign, campaign.path)
    assert (row.status, row.attempt, row.measurement) == ("unreadable", 1, Measurement())
    assert row.reason.startswith(f"{name}")
    assert [other.status for other in others] == ["failed", "pending"]
    looked = status.look(campaign)
    if name == names.OUTCOME:
        assert looked.ended == {"unreadable": 1, "failed": 1}
        assert "unreadable: zero_stage=0: outcome.json" in looked.words()


def test_a_cell_of_values_that_no_matrix_gives_is_unreadable(tmp_path: Path) -> None:
    campaign = written(tmp_path)
    path = attempt_of(campaign, 0) / names.RUN
    content = json.loads(path.read_text())
    content["cell"]["parameters"]["global_batch_size"] = "many"
    path.write_text(json.dumps(content))
    row = records_of(campaign, campaign.path)[0]
    assert row.status == "unreadable"
    assert row.reason.startswith("run.json: cell zero_stage=0: global_batch_size is 'many'; it")


@pytest.mark.parametrize("host", ["x/../../..", "..", "-oProxyCommand=x"])
def test_a_host_of_run_json_names_no_other_folder(host: str, tmp_path: Path) -> None:
    campaign = written(tmp_path)
    path = attempt_of(campaign, 0) / names.RUN
    content = json.loads(path.read_text())
    content["nodes"][0]["host"] = host
    path.write_text(json.dumps(content))
    assert statuses(campaign) == ["unreadable", "failed", "pending"]
    assert "nodes[0].host is" in records_of(campaign, campaign.path)[0].reason


def test_a_cells_id_names_no_other_folder(tmp_path: Path) -> None:
    campaign = written(tmp_path)
    path = campaign.path / names.CAMPAIGN
    content = json.loads(path.read_text())
    content["cells"][0]["id"] = f"x/../{content['cells'][1]['id']}"
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"cells\[0\].id is 'x/\.\./zero_stage=1-\w+'; it must be"):
        records_of(campaign, campaign.path)


# --- a node's own facts ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "odd",
    [
        {"devices": ["x"]},
        {"devices": [{"name": "V100"}]},
        {"memory_mib": "a lot"},
        {"files": {"env": {"gpu": ["x"]}}},
        {"files": {"env": {"systems": {"x": 5}}}},
        {"files": {"env": {"network": {"interfaces": [1]}}}},
        {"files": 5},
    ],
)
def test_what_a_node_said_that_does_not_fit_is_said_beside_the_others(
    odd: dict[str, Any], tmp_path: Path
) -> None:
    campaign = written(tmp_path)
    path = campaign.inspected / "n1.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **odd}))
    records = records_of(campaign, campaign.path)
    assert [record.status for record in records] == ["ok", "failed", "pending"]
    differs = dict(environment_section(records)["node_differs"])
    assert any(" is " in value or " has " in value for value, _ in differs["unreadable"])


@pytest.mark.parametrize("line", ["[" * 100_000, '{"node": 1e999, "log_bytes": 1e999}', "5", "[1]"])
def test_a_poll_that_does_not_fit_is_passed_over(line: str, tmp_path: Path) -> None:
    campaign = written(tmp_path)
    node = next(attempt_of(campaign, 0).glob("nodes/0000-*"))
    with (node / names.TIMELINE).open("a") as stream:
        stream.write(line + "\n")
    assert statuses(campaign) == ["ok", "failed", "pending"]

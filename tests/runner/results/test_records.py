"""A campaign's folder as records."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.base.errors import UserError
from runner.figures.flops import Decoder
from runner.folder import names
from runner.folder.campaign import Campaign
from runner.folder.queued import Queued
from runner.folder.stored import write_json
from runner.matrix.table_shape import TableShape
from runner.results.records import RUNNING, layout_of, records_of
from runner.tables.environment_facts import environment_section
from runner.terms.record import Record
from tests.runner.builders import small_cluster, small_matrix, small_run
from tests.runner.campaigns import Story, inspected, sampled, torch_gpt, write


def pending(tmp_path: Path) -> tuple[Campaign, list[Record]]:
    matrix = small_matrix(
        {"zero_stage": [0, 1], "nodes": [1, 2]},
        {"model": "gpt2-small", "micro_batch_size": 2, "global_batch_size": 8},
        repeats=2,
        warmup_iters=3,
    )
    campaign = Campaign(tmp_path / "m-rack")
    campaign.open(matrix, small_cluster())
    return campaign, records_of(campaign, tmp_path)


def test_a_cell_that_has_not_run_says_all_that_was_asked(tmp_path: Path) -> None:
    _, records = pending(tmp_path)
    assert [record.repeat for record in records] == [1, 2] * 4
    last = records[-1]
    assert (last.status, last.axes) == ("pending", {"zero_stage": 1, "nodes": 2})
    assert (last.nodes, last.parallel) == (
        2,
        {
            "data_parallel": 2,
            "tensor_parallel": 1,
            "pipeline_parallel": 1,
            "context_parallel": 1,
            "expert_parallel": 1,
        },
    )
    assert (last.micro_batch_size, last.global_batch_size, last.warmup_iters) == (2, 8, 3)
    assert last.parameters["model"] == "gpt2-small"
    assert isinstance(last.model, Decoder)
    assert last.model.hidden_size == 768


def test_a_run_is_read_with_the_defaults_of_parameters_younger_than_it(tmp_path: Path) -> None:
    campaign, before = pending(tmp_path)
    attempt = campaign.new_attempt(before[0].cell_id, 1)
    run = small_run({"zero_stage": 0}, small_cluster()).to_json()
    run["cell"] = {**run["cell"], "id": before[0].cell_id}
    del run["cell"]["parameters"]["vocab_size"]
    write_json(attempt.path / "run.json", run)
    found = records_of(campaign, tmp_path)[0]
    assert (found.status, found.cell_id) == ("did_not_run", before[0].cell_id)
    assert found.parameters["vocab_size"] is None
    assert found.log == "/".join(
        (*attempt.path.relative_to(tmp_path).parts, "nodes/0000-n1/launcher.log")
    )


def _told(campaign: Campaign, runs: Path) -> tuple[str, str]:
    found = records_of(campaign, runs)[0]
    return found.status, found.reason


def test_what_bench_runs_now_did_not_end(tmp_path: Path) -> None:
    campaign, before = pending(tmp_path)
    attempt = campaign.new_attempt(before[0].cell_id, 1)
    run = small_run({"zero_stage": 0}, small_cluster()).to_json()
    run["cell"]["id"] = before[0].cell_id
    with campaign.locked():
        write_json(attempt.path / "run.json", run)
        found = records_of(campaign, tmp_path)[0]
        again = campaign.new_attempt(before[0].cell_id, 1)
        write_json(again.path / "run.json", run)
        second = records_of(campaign, tmp_path)[0]
    assert (found.status, found.reason, found.attempt) == ("running", RUNNING, 1)
    assert (second.status, second.attempt) == ("running", 2)  # whose command and log a page has
    write_json(again.path / names.SUBMITTED, {"job_id": "7"})
    assert _told(campaign, tmp_path) == ("running", RUNNING)  # nobody has asked Slurm yet
    queued = Queued(reason="Resources", position=2)
    write_json(again.path / names.QUEUE, queued.to_json())
    assert _told(campaign, tmp_path) == ("queued", "2nd, Resources")
    write_json(again.path / names.QUEUE, replace(queued, state="RUNNING").to_json())
    assert _told(campaign, tmp_path) == ("running", RUNNING)
    shutil.rmtree(again.path)
    found = records_of(campaign, tmp_path)[0]
    assert (found.status, found.reason) == ("did_not_run", "bench ended before the run did")


def test_a_folder_without_a_campaign_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no campaign"):
        records_of(Campaign(tmp_path), tmp_path)


def test_campaign_json_holds_each_cell_whole(tmp_path: Path) -> None:
    campaign, _ = pending(tmp_path)
    cells = json.loads((campaign.path / "campaign.json").read_text())["cells"]
    assert {"id", "name", "pin", "dataset", "env", "device_ids", "parameters"} <= set(cells[0])


def test_layout_and_documents_come_from_the_matrix_and_may_change_later(tmp_path: Path) -> None:
    campaign, records = pending(tmp_path)
    assert layout_of(campaign) == (TableShape(), [])
    campaign.new_attempt(records[0].cell_id, 1)
    again = small_matrix(
        {"zero_stage": [0, 1], "nodes": [1, 2]},
        {"model": "gpt2-small", "micro_batch_size": 2, "global_batch_size": 8},
        repeats=2,
        warmup_iters=3,
        table={"shape": "osdi"},
        published=[{"source": "paper", "rows": [{"samples_per_s": 3}]}],
    )
    campaign.adopt(campaign.open(again, small_cluster()))
    layout, documents = layout_of(campaign)
    assert (layout.shape, documents[0].source) == ("osdi", "paper")
    assert layout_of(campaign, "flat")[0].shape == "flat"
    with pytest.raises(UserError, match="--shape is 'osdy'"):
        layout_of(campaign, "osdy")
    assert records_of(campaign, tmp_path)[0].status == "pending"


@pytest.mark.parametrize(("kind", "device"), [("cuda", "NVIDIA H200"), ("cpu", "")])
def test_device_and_day_of_a_run(tmp_path: Path, kind: str, device: str) -> None:
    """A run on the processors of nodes with GPUs had these for its devices, and an MFU of them."""
    campaign, before = pending(tmp_path)
    for host, name in (("n1", "NVIDIA H200"), ("n2", "NVIDIA H200")):
        devices = [{"name": name, "memory_mib": 1, "driver": "1"}]
        facts = dict.fromkeys(("hostname", "system", "kernel", "cpu", "cpu_count", "memory_mib"))
        write_json(campaign.inspected / f"{host}.json", {**facts, "devices": devices})
    attempt = campaign.new_attempt(before[0].cell_id, 1)
    run = small_run({"zero_stage": 0}, small_cluster(device=kind)).to_json()
    write_json(attempt.path / "run.json", {**run, "cell": {**run["cell"], "id": attempt.cell_id}})
    ended = {"status": "did_not_run", "reason": "x", "cause": "exit", "started_at": 1.7e9}
    write_json(attempt.path / "outcome.json", ended)
    found = records_of(campaign, tmp_path)[0]
    assert found.device == device
    assert found.date.startswith("2023-11-1")


def test_the_environment_has_what_env_json_knows_of_a_node(tmp_path: Path) -> None:
    """env.json as playbooks/verify.yml writes it, brought into the campaign by the inspection."""
    gpu = {"driver": "450.80", "devices": [{"power.limit": w} for w in ("300", "300")]}
    env = {
        "gpu": gpu,
        "cuda_toolkits": {"/usr/local/cuda-11.3": "11.3.1", "/usr/local/cuda-10.2": "10.2.89"},
        "libraries": {"libnccl.so.2": "libnccl.so.2.7.3"},
        "systems": {"torch_gpt/torch-2.13": {"torch": "2.13.0", "lock_sha256": "0" * 64}},
        "network": {
            "interfaces": {"ib0": {"mtu": 2044, "speed_mbit_s": 100_000, "carries": "cluster"}}
        },
    }
    odd = {**env, "gpu": {"devices": [{"power.limit": "300"}, {"power.limit": "250"}]}}

    def facts(host: str) -> dict[str, Any]:
        return inspected(host, files={"env": odd if host == "n2" else env})

    campaign = write(
        tmp_path, small_matrix(), small_cluster(), lambda *_: Story({0: torch_gpt(50)}), facts=facts
    )
    section = environment_section(records_of(campaign, tmp_path))
    same = dict(section["node_same"])
    assert same["CUDA toolkits"] == "10.2.89, 11.3.1"
    assert same["libraries / libnccl.so.2"] == "libnccl.so.2.7.3"
    assert same["systems / torch_gpt/torch-2.13 / torch"] == "2.13.0"
    assert same["network / ib0"] == "MTU 2044, 100000 Mbit/s"
    assert section["node_differs"] == [
        ("power limit, W", [("300", "n1"), ("300, 250", "n2")]),
    ]


@pytest.mark.parametrize("name", ["launcher.log", "timeline.jsonl", "samples.csv"])
@pytest.mark.parametrize("what", ["pipe", "device"])
def test_what_has_no_end_in_place_of_evidence_holds_no_table_up(
    tmp_path: Path, name: str, what: str
) -> None:
    """A pipe, or a link to a device, where a node's log or samples were."""
    matrix = small_matrix({"zero_stage": [0, 1]}, {"train_iters": 12})
    stories = {
        cell.id: Story({0: torch_gpt(12)}, samples={0: sampled(60, 20, 2)}) for cell in matrix.cells
    }
    write(tmp_path, matrix, small_cluster(1, 2), lambda cell, _: stories[cell.id])
    campaign = Campaign(tmp_path / "m-rack")
    before = records_of(campaign, tmp_path)
    (node,) = (tmp_path / "m-rack" / before[0].cell_id).glob("repeat1/attempt1/nodes/*")
    (node / name).unlink(missing_ok=True)
    if what == "pipe":
        os.mkfifo(node / name)
    else:
        (node / name).symlink_to("/dev/zero")
    first, second = records_of(campaign, tmp_path)
    assert second == before[1]
    if name == "launcher.log":
        assert (first.status, first.measurement.intervals) == ("unreadable", ())
        assert "not a plain file" in first.reason
    else:
        assert (first.status, first.measurement.intervals) == (
            before[0].status,
            before[0].measurement.intervals,
        )


def test_a_run_has_the_devices_of_its_own_nodes(tmp_path: Path) -> None:
    """A queue gives a campaign's runs nodes of several kinds."""

    def facts(host: str) -> dict[str, Any]:
        name = {"n1": "NVIDIA A100-SXM4-80GB", "n2": "NVIDIA H200"}[host]
        return inspected(host, devices=[{"name": name, "memory_mib": "1", "driver": "1"}])

    matrix = small_matrix({"nodes": [1, 2]})
    cluster = small_cluster(2, device="cuda")
    campaign = write(tmp_path, matrix, cluster, lambda *_: Story({0: torch_gpt(9)}), facts=facts)
    found = [record.device for record in records_of(campaign, tmp_path)]
    assert found == ["NVIDIA A100-SXM4-80GB", ""]

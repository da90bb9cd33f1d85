"""A campaign's folder as records: the last attempt of each repeat. Never launches anything."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner import rundir, systems
from runner.bench import measure
from runner.errors import UserError
from runner.matrix import Cell
from runner.records import Measurement, Record
from runner.rundir import Attempt, Campaign


def records(campaign: Campaign, relative_to: Path) -> list[Record]:
    """Every cell of the campaign, in the matrix's order; logs as paths from `relative_to`.

    Raises UserError where the folder holds no campaign.
    """
    settings = campaign.settings
    if settings is None:
        raise UserError(
            f"{campaign.path} holds no campaign.json of this version; name another with --campaign"
        )
    return list(_records(campaign, settings, relative_to))


def _records(
    campaign: Campaign, settings: Mapping[str, Any], relative_to: Path
) -> Iterator[Record]:
    environment = _environment(campaign, settings)
    for asked in settings["cells"]:
        for repeat in range(1, settings["repeats"] + 1):
            for attempt in reversed(campaign.attempts(asked["id"], repeat)):
                # One without run.json was never planned: bench died in the instant before.
                if run := attempt.run:
                    yield _ran(campaign, attempt, run, environment, relative_to)
                    break
            else:
                pending = _asked(campaign, asked, settings["warmup_iters"])
                yield replace(pending, repeat=repeat)


def _asked(campaign: Campaign, asked: Mapping[str, Any], warmup_iters: int) -> Record:
    """A cell that has not run, from its words in campaign.json or run.json."""
    system = systems.load(asked["system"])
    # A parameter younger than the campaign has its default.
    parameters = {item.name: item.default for item in system.parameters} | asked["parameters"]
    words = {key: value for key, value in asked.items() if key != "id"}
    cell = Cell(**{**words, "parameters": parameters})
    sizes = system.parallel(cell)
    return Record(
        campaign=campaign.name,
        cell=cell.name,
        cell_id=asked["id"],
        system=cell.system,
        status="pending",
        reason="not run yet",
        axes=cell.axes,
        parameters={**cell.parameters, "pin": cell.pin, "dataset": cell.dataset, "env": cell.env},
        nodes=cell.nodes,
        devices_per_node=cell.devices_per_node,
        micro_batch_size=cell.parameters.get("micro_batch_size"),
        global_batch_size=cell.parameters.get("global_batch_size"),
        warmup_iters=warmup_iters,
        activation_checkpointing=bool(cell.parameters.get("activation_checkpointing")),
        model=system.model(cell.parameters),
        tensor_parallel=sizes["tensor_parallel"],
        pipeline_parallel=sizes["pipeline_parallel"],
        data_parallel=sizes["data_parallel"],
    )


def _ran(
    campaign: Campaign,
    attempt: Attempt,
    run: Mapping[str, Any],
    environment: Mapping[str, Any],
    relative_to: Path,
) -> Record:
    asked = _asked(campaign, run["cell"], run["warmup_iters"])
    ended = attempt.outcome
    logs = attempt.logs()
    trained = ended is None or ended["status"] != "did_not_run"
    measured = measure(asked.system, logs) if trained else Measurement()
    if ended is None:
        status = "interrupted" if measured.intervals else "did_not_run"
        ended = {"status": status, "reason": "bench ended before the run did"}
    return replace(
        asked,
        status=ended["status"],
        reason=ended["reason"],
        repeat=attempt.repeat,
        attempt=attempt.number,
        measurement=measured,
        log=os.path.relpath(logs[_telling_rank(attempt, run)], relative_to),
        last_words=ended.get("last_words", ""),
        environment={**environment, **_versions(measured)},
    )


def _telling_rank(attempt: Attempt, run: Mapping[str, Any]) -> int:
    """The node whose log says most: the one that ended the run first, else rank 0."""
    host = (attempt.halt or {}).get("host")
    ranks = {node["host"]: int(node["node_rank"]) for node in run["nodes"]}
    return ranks.get(str(host), 0)


def _versions(measured: Measurement) -> dict[str, str]:
    """What the trainer itself said it ran with."""
    wanted = ("torch", "backend", "device")
    return {key: measured.facts[key] for key in wanted if key in measured.facts}


def _environment(campaign: Campaign, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a reader needs to compare: machines, versions, datasets, all from the campaign."""
    hosts = {}
    for path in sorted(campaign.inspected.glob("*.json")):
        facts = rundir.read_json(path) or {}
        if "hostname" not in facts:
            continue
        devices = facts.get("devices") or []
        hosts[path.stem] = {
            "system": facts["system"],
            "kernel": facts["kernel"],
            "cpu": facts["cpu"],
            "cpu_count": facts["cpu_count"],
            "memory_mib": facts["memory_mib"],
            "devices": ", ".join(f"{item['name']} {item['memory_mib']} MiB" for item in devices)
            or "none",
            "driver": ", ".join(sorted({item["driver"] for item in devices})) or "none",
        }
    return {
        "campaign": campaign.name,
        "inventory": settings["inventory"],
        "trainbench": settings["trainbench"],
        "fingerprints": settings.get("environment") or {},
        "nodes": hosts,
    }

"""A campaign's folder as records: the last attempt of each repeat. Never launches anything."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runner import rundir, systems
from runner.bench import measure
from runner.errors import UserError
from runner.matrix import Cell
from runner.records import Measurement, ModelShape, Record
from runner.rundir import Attempt, Campaign


def records(campaign: Campaign, relative_to: Path) -> list[Record]:
    """Every cell of the campaign, in the matrix's order; logs as paths from `relative_to`.

    Raises UserError where the folder holds no campaign.
    """
    settings = campaign.settings
    if settings is None:
        raise UserError(f"{campaign.path} holds no campaign.json; name another with --campaign")
    return list(_records(campaign, settings, relative_to))


def _records(
    campaign: Campaign, settings: Mapping[str, Any], relative_to: Path
) -> Iterator[Record]:
    environment = _environment(campaign, settings)
    for cell in settings["cells"]:
        for repeat in range(1, settings["repeats"] + 1):
            attempts = campaign.attempts(cell["id"], repeat)
            if attempts:
                yield _record(campaign, attempts[-1], environment, relative_to)
            else:
                yield Record(
                    campaign=campaign.name,
                    cell=cell["name"],
                    cell_id=cell["id"],
                    system=cell["system"],
                    status="pending",
                    reason="not run yet",
                    repeat=repeat,
                    axes=cell["axes"],
                    nodes=cell["nodes"],
                    devices_per_node=cell["devices_per_node"],
                )


def _record(
    campaign: Campaign, attempt: Attempt, environment: Mapping[str, Any], relative_to: Path
) -> Record:
    run = attempt.run
    if run is None:
        raise UserError(f"{attempt.path} has no whole run.json; remove that folder")
    asked = run["cell"]
    cell = Cell(**{key: value for key, value in asked.items() if key != "id"})
    system = systems.load(cell.system)
    ended = attempt.outcome
    logs = attempt.logs()
    if ended is None:
        ended = {"status": "interrupted", "reason": "bench ended before the run did"}
    trained = ended["status"] != "did_not_run"
    measured = measure(cell.system, logs) if trained else Measurement()
    shape = system.model(cell.parameters)
    sizes = system.parallel(cell)
    rank = _telling_rank(attempt, run)
    return Record(
        campaign=campaign.name,
        cell=cell.name,
        cell_id=asked["id"],
        system=cell.system,
        status=ended["status"],
        reason=ended["reason"],
        repeat=attempt.repeat,
        attempt=attempt.number,
        axes=cell.axes,
        parameters={**cell.parameters, "pin": cell.pin, "dataset": cell.dataset, "env": cell.env},
        nodes=cell.nodes,
        devices_per_node=cell.devices_per_node,
        tensor_parallel=sizes["tensor_parallel"],
        pipeline_parallel=sizes["pipeline_parallel"],
        data_parallel=sizes["data_parallel"],
        micro_batch_size=cell.parameters.get("micro_batch_size"),
        global_batch_size=cell.parameters.get("global_batch_size"),
        warmup_iters=run["warmup_iters"],
        activation_checkpointing=bool(cell.parameters.get("activation_checkpointing")),
        model=ModelShape(**vars(shape)),
        measurement=measured,
        wall_s=ended.get("wall_s"),
        run_dir=os.path.relpath(attempt.path, relative_to),
        log=os.path.relpath(logs[rank], relative_to),
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
    wanted = ("torch", "backend", "device_name")
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
        "systems and datasets (sha256)": settings.get("environment") or {},
        "nodes": hosts,
    }

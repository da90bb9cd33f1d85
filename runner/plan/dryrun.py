"""A dry run for people: every cell's commands, so that they can be read, and pasted."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any

from node.supervisor.fault_kinds import KINDS
from runner.base.escapes import ExactLine, ExactWord, TerminalLine
from runner.base.text import counted, listing
from runner.matrix.select import in_order, select
from runner.plan import checks
from runner.plan.checkpoint_room import checkpoint_room
from runner.plan.checkpoint_room import in_words as room_in_words
from runner.plan.make import campaign_name, make_run
from runner.plan.needs import Need, in_words, too_long
from runner.plan.usage import in_words as use_in_words
from runner.plan.usage import usage_of
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell, Matrix, first_repeat
from runner.terms.cluster import Cluster
from runner.terms.inspected import Inspected
from runner.terms.run import Run

MOST_FAULTS_SHOWN = 10  # of a cell, in text
Folder = Callable[[Cell], PurePosixPath]  # of a cell's first attempt
# What a scheduler would be given for each of some runs: its `script`, and its `step` in it if any.
# The number is of the repeats of each.
Preview = Callable[[Sequence[Run], int], Iterator[Mapping[str, Any]]]


def runs_of(
    matrix: Matrix, cluster: Cluster, only: Sequence[str], folder: Folder | None = None
) -> list[Run]:
    """Plan the first run of each cell, in their order. Raises UserError for one that cannot run."""
    cells = [cell for cell, _ in in_order(select(matrix, only), (1,), matrix.shuffle_seed)]
    checks.check_cells([first_repeat(matrix, cell) for cell in cells], cluster, matrix.warmup_iters)
    campaign = campaign_name(matrix, cluster)
    return [
        make_run(matrix, cell, cluster, campaign=campaign, folder=folder and folder(cell))
        for cell in cells
    ]


def dry_run(
    matrix: Matrix,
    cluster: Cluster,
    only: Sequence[str] = (),
    *,
    folder: Folder | None = None,
    preview: Preview | None = None,
    inspected: Mapping[str, Inspected] | None = None,
) -> list[dict[str, Any]]:
    """Plan every cell, as data, in the order of the first runs. Connects to nothing.

    `inspected` has what each host was when a campaign asked it last.
    """
    runs = runs_of(matrix, cluster, only, folder)
    cells = [run.cell for run in runs]
    previews = preview(runs, matrix.repeats) if preview else ()
    scheduled = [{cluster.engine.name: dict(preview_of_run)} for preview_of_run in previews]
    plans = []
    for number, (cell, run) in enumerate(zip(cells, runs, strict=True)):
        estimate = load_system(cell.system).estimate
        expected = None if estimate is None else estimate(cell, cluster)
        plans.append(
            {
                "schema": 1,
                "cell": cell.name,
                "id": cell.id,
                "system": cell.system,
                "nodes": [
                    {
                        "host": node.host,
                        "node_rank": node.node_rank,
                        "cwd": node.cwd,
                        "env": dict(node.env),
                        "argv": list(node.argv),
                        "processes": [list(argv) for argv in node.processes],
                        **({"tasks": node.tasks} if node.tasks else {}),
                        "devices": used,
                        "devices_idle": idle,
                    }
                    for node, (used, idle) in zip(run.nodes, usage_of(cell, cluster), strict=True)
                ],
                "files": {node.host: dict(node.files) for node in run.nodes if node.files},
                **({"setup": list(run.setup)} if run.setup else {}),
                **({"teardown": list(run.teardown)} if run.teardown else {}),
                **_on_purpose(run, inspected or {}),
                "seeds": list(matrix.seeds),
                "train_iters": cell.parameters.get("train_iters"),
                "run_dir": run.nodes[0].dir,
                "estimate": expected
                and {
                    "memory_mib": round(expected.memory_mib, 1),
                    "time_s": round(expected.time_s, 1),
                    "basis": expected.basis,
                },
                **(scheduled[number] if scheduled else {}),
            }
        )
    return plans


def _on_purpose(run: Run, inspected: Mapping[str, Inspected]) -> dict[str, Any]:
    """Say what a run will have done to it, and where its checkpoints lie."""
    if run.chain is None:
        return {}
    hosts = {node.node_rank: node.host for node in run.nodes}
    room = checkpoint_room(run, inspected)
    return {
        "recovery": run.cell.recovery or "none",
        "checkpoints": run.chain.folder,
        **({"checkpoint_room": room} if room else {}),
        "faults": [
            {**asdict(fault), "host": hosts[fault.node], "does": KINDS[fault.kind]}
            for fault in run.chain.faults
        ],
    }


def _faults(plan: Mapping[str, Any]) -> Iterator[str]:
    if "checkpoints" not in plan:
        return
    yield f"  checkpoints  {plan['checkpoints']}; after a failure: {plan['recovery']}"
    if "checkpoint_room" in plan:
        yield from room_in_words(plan["checkpoint_room"])
    for fault in plan["faults"][:MOST_FAULTS_SHOWN]:
        when = f"{fault['after_s']:.1f} s of an attempt"
        when = f"iteration {fault['iteration']}" if fault["iteration"] else when
        lasts = f", for {fault['for_s']:g} s" if fault["for_s"] else ""
        yield (
            f"  fault  {fault['kind']} on {fault['host']} (node {fault['node']}, rank"
            f" {fault['rank']}) after {when}{lasts}: {fault['does']}"
        )
    if (more := len(plan["faults"]) - MOST_FAULTS_SHOWN) > 0:
        yield f"  and {counted(more, 'more fault')} (--format json has all)"


def _expected(expected: Mapping[str, Any] | None, cluster: Cluster) -> Iterator[str]:
    """Say what a cell will need, where its system estimates that."""
    if expected is None:
        return
    yield (
        f"  estimated memory per device {expected['memory_mib']:.0f} MiB, time"
        f" {expected['time_s']:.0f} s ({expected['basis']})"
    )
    limit = cluster.device_memory_mib
    if limit and expected["memory_mib"] > limit:
        yield f"  warning: a device has {limit:.0f} MiB; this cell may not fit"


def _head(plans: Sequence[Mapping[str, Any]], matrix: Matrix, cluster: Cluster) -> str:
    """Say how much runs, in which order, and on how much of the cluster."""
    count = counted(len(plans), "cell")
    runs = str(len(matrix.first_numbers))
    if matrix.until_percent is not None:
        runs += f" to {matrix.repeats}"
    if matrix.repeats > 1:
        count += f", {runs} runs of each: all cells once, then again"
    if matrix.until_percent is not None:
        count += f", until samples/s is known to {matrix.until_percent:g} %"
    if matrix.seeds:
        count += f", with seeds {', '.join(map(str, matrix.seeds))} (below is the first)"
    if matrix.shuffle_seed is not None:
        count += f", shuffled by seed {matrix.shuffle_seed}"
    usages = [[(node["devices"], node["devices_idle"]) for node in plan["nodes"]] for plan in plans]
    return f"{count}; {use_in_words(usages, len(cluster.nodes))}"


def _scheduled(submission: Mapping[str, Any]) -> Iterator[str]:
    """Say how a scheduler starts a run."""
    if "step" in submission:
        yield f"  step {' '.join(map(ExactWord, submission['step']))}"
    elif submission:
        yield from _indented("submitted.sh", submission["script"])


def _indented(name: str, text: str) -> list[str]:
    return [f"  {name}", *(f"    {line}" for line in text.splitlines())]


MOST_SHOWN = 8  # nodes of a cell, each by itself
STARTED_ELSEWHERE = "(nothing: the launcher of node_rank 0 starts this node's processes)"


def describe(plans: Sequence[Mapping[str, Any]], matrix: Matrix, cluster: Cluster) -> str:
    """Write the plans as text."""
    parts: list[str] = [TerminalLine(_head(plans, matrix, cluster))]
    engine = cluster.engine
    if engine.in_jobs:
        parts.append("in braces ({master_addr}): what only the job knows, filled in on its nodes")
    if "step" in (first_plan := plans[0].get(engine.name, {})):
        lines = ["allocation for all runs", *_indented("submitted.sh", first_plan["script"])]
        parts.append("\n".join(map(TerminalLine, lines)))
    for plan in plans:
        expected = plan["estimate"]
        lines = [f"cell {plan['cell']}  ({plan['id']})", *_expected(expected, cluster)]
        for when in ("setup", "teardown"):
            lines += [f"  {when}  {ExactLine(line)}" for line in plan.get(when, ())]
        lines += _faults(plan)
        lines += _nodes(plan)
        lines += _scheduled(plan.get(engine.name, {}))
        parts.append("\n".join(map(TerminalLine, lines)))
    needs = [_need(plan, len(matrix.first_numbers)) for plan in plans]
    total = in_words(needs, matrix.time_limit_s, side_by_side=engine.in_jobs)
    lines = [*too_long(needs, matrix.time_limit_s), total]
    parts.append("\n".join(map(TerminalLine, lines)))
    return "\n\n".join(parts)


def _nodes(plan: Mapping[str, Any]) -> Iterator[str]:
    """Say what each node starts; of many, those that differ by host and rank alone are shown once,
    by the first of them.
    """
    alike: dict[str, list[Mapping[str, Any]]] = {}
    for node in plan["nodes"]:
        text = "\n".join(_node(plan, node))
        if len(plan["nodes"]) > MOST_SHOWN:
            rank = node["node_rank"]
            text = re.sub(rf"(?<![\w.])0*{rank}(?![\w.])", "{node_rank}", text)
            text = text.replace(node["host"], "{host}")
        alike.setdefault(text, []).append(node)
    for node, *rest_of_group in alike.values():
        yield f"  {node['host']}  node_rank {node['node_rank']}"
        yield from _node(plan, node)
        if rest_of_group:
            hosts = listing([node["host"] for node in rest_of_group], 2)
            yield f"  the same on {hosts}, each with its own host and node_rank"


def _node(plan: Mapping[str, Any], node: Mapping[str, Any]) -> Iterator[str]:
    """Say what a node starts, below its name."""
    env = " ".join(f"{name}={ExactWord(text)}" for name, text in node["env"].items())
    yield f"    cwd  {ExactLine(node['cwd'])}"
    yield f"    env  {env}"
    if "tasks" in node:
        yield f"    srun starts {counted(node['tasks'], 'task')} of:"
    for argv in node["processes"] or [node["argv"]]:
        yield f"    run  {' '.join(map(ExactWord, argv)) or STARTED_ELSEWHERE}"
    for name, text in plan["files"].get(node["host"], {}).items():
        yield f"    file {name}"
        yield from (f"      {ExactLine(line)}" for line in text.splitlines())


def _need(plan: Mapping[str, Any], runs: int) -> Need:
    """Return what a cell's runs need by its system's estimate."""
    expected = plan["estimate"] or {}
    return Need(
        cell=plan["cell"],
        runs=runs,
        run_s=expected.get("time_s"),
        by="the estimate",
        memory_mib=expected.get("memory_mib"),
        train_iters=plan["train_iters"],
    )

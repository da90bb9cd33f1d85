"""A dry run for people: every cell's commands, so that they can be read, and pasted."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runner.base.escapes import ShellWord, TerminalLine
from runner.matrix.select import in_order, select
from runner.plan import checks
from runner.plan.make import campaign_name, make_run
from runner.plan.usage import in_words, usage_of
from runner.systems.common.registry import load_system
from runner.terms.cell import Matrix
from runner.terms.cluster import Cluster


def dry_run(matrix: Matrix, cluster: Cluster, only: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Plan every cell, as data, in the order of the first runs. Connects to nothing."""
    cells = [cell for cell, _ in in_order(select(matrix, only), 1, matrix.shuffle_seed)]
    checks.check_cells(cells, cluster, matrix.warmup_iters)
    campaign = campaign_name(matrix, cluster)
    plans = []
    for cell in cells:
        run = make_run(matrix, cell, cluster, campaign=campaign)
        estimate = load_system(cell.system).estimate
        expected = None if estimate is None else estimate(cell, cluster)
        plans.append(
            {
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
                        "devices": used,
                        "devices_idle": idle,
                    }
                    for node, (used, idle) in zip(run.nodes, usage_of(cell, cluster), strict=True)
                ],
                "files": {node.host: dict(node.files) for node in run.nodes if node.files},
                "seeds": list(matrix.seeds),
                "run_dir": run.nodes[0].dir,
                "estimate": expected
                and {
                    "memory_mib": round(expected.memory_mib, 1),
                    "time_s": round(expected.time_s, 1),
                    "basis": expected.basis,
                },
            }
        )
    return plans


def _expected(expected: Mapping[str, Any] | None, cluster: Cluster) -> Iterator[str]:
    """Say what a cell will need, where its system estimates that."""
    if expected is None:
        return
    yield (
        f"  estimated memory a device {expected['memory_mib']:.0f} MiB, time"
        f" {expected['time_s']:.0f} s ({expected['basis']})"
    )
    limit = cluster.device_memory_mib
    if limit and expected["memory_mib"] > limit:
        yield f"  warning: a device has {limit:.0f} MiB; this cell may not fit"


def _head(plans: Sequence[Mapping[str, Any]], matrix: Matrix, cluster: Cluster) -> str:
    """Say how much runs, in which order, and on how much of the cluster."""
    count = f"{len(plans)} cell{'s' if len(plans) > 1 else ''}"
    if matrix.repeats > 1:
        count += f", {matrix.repeats} runs of each: all cells once, then again"
    if matrix.seeds:
        count += f", with seeds {', '.join(map(str, matrix.seeds))} (below is the first)"
    if matrix.shuffle_seed is not None:
        count += f", shuffled by seed {matrix.shuffle_seed}"
    usages = [[(node["devices"], node["devices_idle"]) for node in plan["nodes"]] for plan in plans]
    return f"{count}; {in_words(usages, len(cluster.nodes))}"


STARTED_ELSEWHERE = "(nothing: the launcher of node_rank 0 starts this node's processes)"


def describe(plans: Sequence[Mapping[str, Any]], matrix: Matrix, cluster: Cluster) -> str:
    """Write the plans as text."""
    parts: list[str] = [TerminalLine(_head(plans, matrix, cluster))]
    for plan in plans:
        expected = plan["estimate"]
        lines = [f"cell {plan['cell']}  ({plan['id']})", *_expected(expected, cluster)]
        for node in plan["nodes"]:
            env = " ".join(f"{name}={ShellWord(text)}" for name, text in node["env"].items())
            lines += [
                f"  {node['host']}  node_rank {node['node_rank']}",
                f"    cwd  {node['cwd']}",
                f"    env  {env}",
                f"    run  {' '.join(map(ShellWord, node['argv'])) or STARTED_ELSEWHERE}",
            ]
            for name, text in plan["files"].get(node["host"], {}).items():
                lines += [f"    file {name}", *(f"      {line}" for line in text.splitlines())]
        parts.append("\n".join(map(TerminalLine, lines)))
    return "\n\n".join(parts)

"""A dry run for people: every cell's commands, so that they can be read, and pasted."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from runner.base.escapes import ShellWord, TerminalLine
from runner.matrix.select import select
from runner.plan import checks
from runner.plan.make import campaign_name, make_run
from runner.systems.common.registry import load_system
from runner.terms.cell import Matrix
from runner.terms.cluster import Cluster


def dry_run(matrix: Matrix, cluster: Cluster, only: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Plan every cell, as data: what each node would run. Connects to nothing."""
    cells = select(matrix, only)
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
                    }
                    for node in run.nodes
                ],
                "files": {node.host: dict(node.files) for node in run.nodes if node.files},
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


STARTED_ELSEWHERE = "(nothing: the launcher of node_rank 0 starts this node's processes)"


def describe(plans: Iterable[Mapping[str, Any]], cluster: Cluster) -> str:
    """Write the plans as text."""
    parts = []
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

"""A dry run for people: every cell's commands, so that they can be read, and pasted."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from runner.cluster import Cluster

STARTED_ELSEWHERE = "(nothing: the launcher of node_rank 0 starts this node's processes)"


def describe(plans: Iterable[Mapping[str, Any]], cluster: Cluster) -> str:
    """The plans as text: nothing was connected to."""
    parts = []
    for plan in plans:
        expected = plan["estimate"]
        lines = [
            f"cell {plan['cell']}  ({plan['id']})",
            f"  estimated memory a device {expected['memory_mib']:.0f} MiB, time"
            f" {expected['time_s']:.0f} s ({expected['basis']})",
        ]
        limit = cluster.device_memory_mib
        if limit and expected["memory_mib"] > limit:
            lines.append(f"  warning: a device has {limit:.0f} MiB; this cell may not fit")
        for node in plan["nodes"]:
            env = " ".join(f"{name}={shlex.quote(text)}" for name, text in node["env"].items())
            lines += [
                f"  {node['host']}  node_rank {node['node_rank']}",
                f"    cwd  {node['cwd']}",
                f"    env  {env}",
                f"    run  {shlex.join(node['argv']) or STARTED_ELSEWHERE}",
            ]
            for name, text in plan["files"].get(node["host"], {}).items():
                lines += [f"    file {name}", *(f"      {line}" for line in text.splitlines())]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)

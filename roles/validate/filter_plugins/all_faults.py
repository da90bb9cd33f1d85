"""`FOUND | all_faults`: what is wrong with the inventory and its nodes, by node."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from runner.base.ssh_words import out_of_reach, silence


def all_faults(results: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the sentences of each node that has any, from what validate_node returned, by node.

    Nodes that cannot be reached for one reason share a sentence. A dataset that nobody describes
    is not a fault where one of the nodes has its folder.
    """
    lost = {host: result["lost"] for host, result in results.items() if "lost" in result}
    addresses = {host: result["address"] for host, result in results.items()}
    there = {name for result in results.values() for name in result.get("there", ())}
    alike: dict[str, dict[str, str]] = {}
    for host, why in lost.items():
        alike.setdefault(silence(why), {})[host] = why
    unreachable: dict[str, list[str]] = {}
    for group in alike.values():
        unreachable |= dict.fromkeys(group, out_of_reach(group, addresses))
    found = {}
    for host, result in results.items():
        undescribed = result.get("undescribed", {})
        sentences = [
            *unreachable.get(host, ()),
            *result["faults"],
            *(why for name, why in undescribed.items() if name not in there),
        ]
        if sentences:
            found[host] = list(dict.fromkeys(sentences))
    return found


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter's name and function."""
        return {"all_faults": all_faults}

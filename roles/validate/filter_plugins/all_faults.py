"""`FOUND | all_faults`: what is wrong with the inventory and its nodes, each sentence once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from runner.base.ssh_words import out_of_reach


def all_faults(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the sentences; `results` is what validate_node returned, by node.

    A dataset that nobody describes is not a fault where one of the nodes has its folder.
    """
    lost = {host: result["lost"] for host, result in results.items() if "lost" in result}
    sentences = out_of_reach(lost, {host: result["address"] for host, result in results.items()})
    there = {name for result in results.values() for name in result.get("there", ())}
    for result in results.values():
        sentences += result["faults"]
        sentences += [
            why for name, why in result.get("undescribed", {}).items() if name not in there
        ]
    return list(dict.fromkeys(sentences))


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter's name and function."""
        return {"all_faults": all_faults}

"""`FOUND | all_faults`: what is wrong with the inventory and its nodes, each sentence once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from runner.base.ssh_words import out_of_reach


def all_faults(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the sentences; `found` is what validate_node returned, by node.

    A dataset that nobody describes is no fault where one of the nodes has its folder.
    """
    lost = {host: one["lost"] for host, one in found.items() if "lost" in one}
    sentences = out_of_reach(lost, {host: one["address"] for host, one in found.items()})
    there = {name for one in found.values() for name in one.get("there", ())}
    for one in found.values():
        sentences += one["faults"]
        sentences += [why for name, why in one.get("undescribed", {}).items() if name not in there]
    return list(dict.fromkeys(sentences))


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter's name and function."""
        return {"all_faults": all_faults}

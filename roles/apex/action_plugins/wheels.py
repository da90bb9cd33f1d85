"""Say of what all nodes have of apex which one builds the wheel, and which are given it.

wheels: {step: plan}    of what each node would build with, and the wheel that it has
wheels: {step: give}    the same, once it is built where it has to be
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from plugins.node_action import NodeAction


class ActionModule(NodeAction):
    """`wheels:` with a `step`, as the file's first lines say."""

    def act(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        looked = {host: look for host, look in self.answers("__apex_looked").items() if look}
        built = self.answers("__apex_built") if arguments["step"] == "give" else {}
        host = str(self.value("inventory_hostname"))
        everywhere = boolean(self.value("apex_build_everywhere"))
        return {"changed": False, **plan(looked, built, host, everywhere)}


def plan(
    looked: Mapping[str, Any], built: Mapping[str, Any], host: str, everywhere: bool
) -> dict[str, Any]:
    """Return who keeps the wheel of this node: the first that has it, else the first of its kind.

    Nodes with one `key` are alike, and share one, unless it is built `everywhere`.
    """
    mine = looked[host]
    like = [candidate for candidate, look in looked.items() if look["key"] == mine["key"]]
    alike = [host] if everywhere else like
    keeper = next((candidate for candidate in alike if looked[candidate]["wheel"]), alike[0])
    return {
        "alike": alike,
        "keeper": keeper,
        "build": host == keeper and not mine["wheel"],
        "lacking": host != keeper and not mine["wheel"],
        "wheel": (built.get(keeper) or looked[keeper])["wheel"],
    }

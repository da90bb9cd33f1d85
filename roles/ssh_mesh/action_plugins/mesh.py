"""Look at a node of the mesh, and have it know the others.

mesh: {step: look}              ask the node for its keys, and note its addresses in the inventory
mesh: {step: put, key: KEY}     bring the cluster's `private` key to the node, whose half is KEY
mesh: {step: trust, key: KEY}   let that key in, and know every node's host keys
mesh: {step: reach, key: KEY}   reach every node from this one; KEY is empty where one is silent

What a node says of itself are its keys alone; its name and addresses are the inventory's.
"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from node.mesh_lines import ADDRESSES
from node.validated_text import HostName
from plugins.node_action import NodeAction

LOOKED = "__ssh_mesh_looked"  # as tasks/look.yml registers what a node said


class ActionModule(NodeAction):
    """`mesh:` with a `step`, as the file's first lines say."""

    _supports_check_mode = True

    def act(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        step, spec = arguments["step"], self.value("__ssh_mesh_spec")
        if step == "look":
            return self._look(spec)
        key, check = arguments["key"], bool(self._task.check_mode)
        if step == "put":
            spec = {**spec, "key": key, "private": arguments["private"]}
            result = self.result("mesh:put", spec)
            return {**result, "changed": result["rc"] == 0}
        if step == "trust" and not key:  # it is not made in check mode
            return {"changed": True}
        names = [HostName(name, "the inventory") for name in self.value("groups")["nodes"]]
        answers = self.answers(LOOKED)
        more_spec = {
            "key": key,
            "names": names,
            "nodes": [answers[name] for name in names if answers.get(name)],
            "ports": self.value("ssh_mesh_ports"),
            "check": check,
        }
        return self.result(f"mesh:{step}", {**spec, **more_spec})

    def _look(self, spec: dict[str, Any]) -> dict[str, Any]:
        """What the node has of keys, with what the inventory says of it."""
        name = HostName(str(self.value("inventory_hostname")), "the inventory")
        addresses = ADDRESSES.check(self.value("ssh_mesh_addresses"), "ssh_mesh_addresses")
        result = self.result("mesh:look", spec)
        if result["answer"]:
            result["answer"] |= {
                "name": str(name),
                "addresses": [str(address) for address in addresses],
            }
        return result

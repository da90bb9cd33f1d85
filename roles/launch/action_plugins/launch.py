"""Short operations of the launch role: a process of Ansible's a host, each for one question."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from node.supervisor import kinds
from plugins.launching.action import LaunchAction, RefusalError

STOP_S = 600.0  # for all runs of a node to end


class ActionModule(LaunchAction):
    """`launch:` with `operation: stop|reveal`."""

    def act(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        if arguments["operation"] == "stop":
            return self._stop(str(arguments["runs"]))
        values = variables.get("cluster_env") or {}
        return self._reveal(Path(arguments["file"]), arguments["names"], values)

    def _stop(self, runs: str) -> dict[str, Any]:
        self.patience_s = STOP_S
        spec = {"runs": runs, "patience_s": 30.0}
        facts = self.ask("supervisor.stopping:stop_all", spec, kinds.STOPPED)
        return {"changed": bool(facts["ended"]), "ended": facts["ended"]}

    def _reveal(self, file: Path, names: list[str], variables: dict[str, Any]) -> dict[str, Any]:
        """Hand the runner the values of its secrets: through its own memory, and nowhere else.

        What cannot be read is told by name, without Ansible's words, which may hold a value.
        """
        revealed: dict[str, dict[str, str]] = {"values": {}, "refused": {}}
        for name in names:
            try:
                revealed["values"][name] = self.value_of(name, variables)
            except RefusalError as refusal:
                revealed["refused"][name] = str(refusal)
            except Exception as error:
                revealed["refused"][name] = f"{name} cannot be read ({type(error).__name__})"
        with file.open("w", encoding="utf-8") as stream:
            json.dump(revealed, stream)
        return {"changed": False}

"""What the actions of roles/launch share: the supervisor's programs, and values of cluster_env."""

from __future__ import annotations

import threading
from typing import Any

from node.causes import Cause
from plugins.node_action import NodeAction

_TEMPLATES = threading.Lock()  # Ansible's are made for one thread


class RefusalError(Exception):
    """The node answered, and said no; the message is a sentence."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class LaunchAction(NodeAction):
    """An action that speaks with a node's supervisor."""

    _supports_check_mode = False
    default_python = "python3"
    kept = ""  # the file on the node that has the supervisor's modules, once it was left there

    def value_of(self, name: str, variables: dict[str, Any]) -> str:
        """Return a variable's value as the inventory means it: a vault or a lookup may hold it."""
        if variables.get(name) is None:
            raise RefusalError(
                Cause.MISSING, f"cluster_env of the inventory has no {name} any more"
            )
        with _TEMPLATES:
            return str(self._templar.template(variables[name]))

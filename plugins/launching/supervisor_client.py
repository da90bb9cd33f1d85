"""Ask the supervisor that a run left on a node, again and again until it is given up for lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError

from node.bootstrap import FILE as MODULES
from plugins.awake import awake_s
from plugins.node_action import one_line

if TYPE_CHECKING:
    from node.schema import Kind
    from plugins.launching.action import LaunchAction
    from plugins.launching.patience import Patience

RETRY_S = 0.5  # between two tries to reach a silent node
# What goes wrong with an answer: no connection, no program, no JSON, no bytes; a full disk here.
BROKEN = (AnsibleError, OSError, ValueError)


class LostError(Exception):
    """The node could not be reached, or was silent for longer than bench waits."""


class SupervisorClient:
    """The way to the supervisor of a run in `folder` on the node."""

    def __init__(
        self, action: LaunchAction, folder: str, patience: Patience, node_rank: int
    ) -> None:
        self.action, self.folder = action, folder
        self.patience, self.node_rank = patience, node_rank
        self.begin()

    def begin(self) -> None:
        """Take the node's silence to begin now."""
        self.contact, self.answered = awake_s(), time.monotonic()

    def ask(
        self, entry: str, spec: dict[str, Any], kind: Kind, patience_s: float
    ) -> dict[str, Any]:
        """The supervisor's answer; LostError after a long silence."""
        spec, file = {**spec, "folder": self.folder}, f"{self.folder}/{MODULES}"
        self.action.patience_s = patience_s
        while True:
            try:
                answer: dict[str, Any] = self.action.ask(f"supervisor.{entry}", spec, kind, file)
            except AnsibleConnectionFailure as error:
                silent = awake_s() - self.contact
                if silent > self.patience.silence_s:
                    reason = f"out of contact for {silent:.0f} s ({one_line(error)})"
                    raise LostError(reason) from error
                time.sleep(RETRY_S)
                continue
            self.patience.took(self.node_rank, time.monotonic() - self.answered)
            self.begin()
            return answer

"""Ask the supervisor that a run left on a node, again and again until it is given up for lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError

from node.sent import FILE as MODULES
from plugins.node_action import one_line

if TYPE_CHECKING:
    from node.schema import Kind
    from plugins.launching.action import LaunchAction

RETRY_S = 0.5  # between two tries to reach a silent node
# What goes wrong with an answer: no connection, no program, no JSON, no bytes; a full disk here.
BROKEN = (AnsibleError, OSError, ValueError)


class LostError(Exception):
    """The node could not be reached, or stopped answering for lost_contact_s."""


class Talk:
    """The way to the supervisor of a run in `folder` on the node."""

    def __init__(self, action: LaunchAction, folder: str, lost_contact_s: float) -> None:
        self.action, self.folder, self.lost_contact_s = action, folder, lost_contact_s
        self.contact = time.monotonic()  # when the node answered last

    def ask(
        self, entry: str, spec: dict[str, Any], kind: Kind, patience_s: float
    ) -> tuple[dict[str, Any], float]:
        """The supervisor's answer, and when it was asked; LostError after lost_contact_s."""
        spec, file = {**spec, "folder": self.folder}, f"{self.folder}/{MODULES}"
        self.action.patience_s = patience_s
        while True:
            sent = time.time()
            try:
                answer = self.action.ask(f"supervisor.{entry}", spec, kind, file)
            except AnsibleConnectionFailure as error:
                silent = time.monotonic() - self.contact
                if silent > self.lost_contact_s:
                    words = f"out of contact for {silent:.0f} s ({one_line(error)})"
                    raise LostError(words) from error
                time.sleep(RETRY_S)
                continue
            self.contact = time.monotonic()
            return answer, sent

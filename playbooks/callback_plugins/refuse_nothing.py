"""An inventory without nodes ends a playbook with an error; Ansible's own answer is exit code 0.

Ansible loads what lies here for every playbook of the folder above, with any --limit and --tags. A
task on localhost would be left out by --limit, and stand in each recap.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible import context
from ansible.plugins.callback import CallbackBase

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from runner.errors import NODES, no_nodes

BAD_INPUT = 2  # as the runner's


class CallbackModule(CallbackBase):  # type: ignore[misc]  # untyped where mypy skips ansible
    """Looks at the inventory before the first play."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "refuse_nothing"

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Ansible's entry. Raises SystemExit: any other exception is but a warning of Ansible's."""
        inventory = playbook.get_plays()[0].get_variable_manager()._inventory
        named = [str(path) for path in context.CLIARGS.get("inventory") or ()]
        group = inventory.groups.get(NODES)
        hosts = [host.name for host in group.get_hosts()] if group else []
        if not hosts:
            words = no_nodes(" ".join(named))
        elif not inventory.get_hosts(NODES):
            limit = context.CLIARGS.get("subset")
            words = f"--limit {limit} leaves none of the nodes; there are {', '.join(hosts)}"
        else:
            return
        self._display.error(words, wrap_text=False)
        sys.exit(BAD_INPUT)

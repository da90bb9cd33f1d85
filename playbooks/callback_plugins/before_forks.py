"""Do once, before Ansible forks, what the process of each task and node would do again.

A process is forked for every task on every node, and most live for a few milliseconds. Jinja's
filters and tests, and the lookup that playbooks/group_vars names, are loaded where the first
template needs them, which is there: 20 ms of a processor each time. And a process that fills the
garbage collector's threshold looks through all that it inherited, and so copies all of its memory:
up to 100 ms. gc.freeze() before a fork is what Python's documentation says against that.

Ansible loads what lies here for every playbook of the folder above.
"""

import gc
from typing import Any

from ansible.plugins.callback import CallbackBase
from ansible.plugins.loader import filter_loader, lookup_loader, test_loader


class CallbackModule(CallbackBase):  # type: ignore[misc]  # untyped where mypy skips ansible
    """Prepares this process for a task's forks."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "before_forks"

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """Ansible's entry. Not once for all: with a role that is included all are forgotten."""
        filter_loader.get("length")
        test_loader.get("defined")
        lookup_loader.get("ansible.builtin.env", class_only=True)
        gc.freeze()

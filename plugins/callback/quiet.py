"""Ansible's own output, without plays in which nothing is shown and lines of what is included.

Below a change stands what it is, where the program that made it or would make it tells.
"""

import sys
from pathlib import Path
from typing import Any

from ansible.plugins.callback.default import CallbackModule as Default

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from node.printable import printable
from plugins.callback.steps import told

DOCUMENTATION = """
    name: quiet
    type: stdout
    short_description: Ansible's own output without empty plays and included files
    description:
      - A play's line comes before the first of its tasks that shows something.
    extends_documentation_fragment:
      - default_callback
      - result_format_callback
"""


class CallbackModule(Default):  # type: ignore[misc]  # untyped where mypy skips ansible
    """Ansible's entry."""

    CALLBACK_NAME = "quiet"

    def __init__(self) -> None:
        super().__init__()
        self._unsaid: Any = None

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Keep the play's line for the first task that shows something."""
        self._play = self._unsaid = play

    def _print_task_banner(self, task: Any) -> None:
        if self._unsaid is not None:
            super().v2_playbook_on_play_start(self._unsaid)
            self._unsaid = None
        super()._print_task_banner(task)

    def v2_runner_on_ok(self, result: Any) -> None:
        """Add what a change is."""
        super().v2_runner_on_ok(result)
        for line in told(result) if result.result.get("changed") else ():
            self._display.display(f"    {printable(line)}")

    def v2_playbook_on_include(self, included_file: Any) -> None:
        """Say nothing: what is included speaks for itself."""

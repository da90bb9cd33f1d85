"""Run one of our programs on the node, and return what it says.

    ask:
      argv: ["{{ python }}", -I, -c, "{{ source }}", look]
      stdin: "{{ spec | to_json }}"

As ansible.builtin.command with these two words, in check mode too, and never `changed`. A module is
a program that unpacks another one on the node; this is one shell and one program there, which
halves what a question costs (docs/performance.md). For programs that look, and for steps between
tasks that say `changed` and keep out of check mode, such as node_state's ledger.
"""

from __future__ import annotations

import shlex
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):  # type: ignore[misc]  # untyped where mypy skips ansible
    """`ask:` with `argv` and `stdin`; the result has `rc`, `stdout` and `stderr`."""

    TRANSFERS_FILES = False
    _supports_async = False
    _supports_check_mode = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Ansible's entry. A program that fails is a failed task, with its words."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        given = self._task.args
        if unknown := set(given) - {"argv", "stdin"}:
            raise AnsibleActionFail(f"ask takes argv and stdin, not {', '.join(sorted(unknown))}")
        argv = [str(word) for word in given["argv"]]
        # never empty: without input Ansible asks for a terminal, which would mix stderr into stdout
        stdin = str(given.get("stdin") or "") + "\n"
        done = self._low_level_execute_command(shlex.join(argv), in_data=stdin.encode())
        said = {key: str(done[key]).strip("\r\n") for key in ("stdout", "stderr")}
        result.update(changed=False, rc=done["rc"], **said)
        if done["rc"] != 0:
            words = said["stderr"] or said["stdout"] or f"exit code {done['rc']}, and no word"
            result.update(failed=True, msg=words)
        return result

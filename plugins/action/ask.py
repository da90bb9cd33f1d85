"""Run a program of node/ on the node, and return what it answers.

    ask:
      program: env.inspection:look
      spec: "{{ spec }}"
      python: "{{ home }}/env/bin/python3"  # where it is another than the node's own
      changes: true                         # it is not a question: not in check mode, and `changed`

The result has `answer`, `rc` and `stderr`, and is `changed` where the answer says so. A program
that refuses is a failed task, with its words. A module is a program that unpacks another one on the
node; this is one shell and one program there, which halves what a question costs
(docs/performance.md). What it downloads comes by `site_proxy`, if the site has one. Steps between
tasks that say `changed`, such as those of node_state's ledger, are questions, too.
"""

import sys
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils.parsing.convert_bool import boolean

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from plugins import steps
from plugins.node_action import NodeAction

# For an answer: the longest look compares checksums of whole datasets, the longest change is a
# download of one. A node that says nothing holds no playbook for ever.
QUESTION_S = 2 * 3_600.0
CHANGE_S = 24 * 3_600.0
ARGUMENTS = {"program", "spec", "python", "changes"}


class ActionModule(NodeAction):
    """`ask:` as the file's first lines say."""

    _supports_check_mode = True

    def act(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Run it. Raises AnsibleActionFail for a program that does not exist."""
        if unknown := set(arguments) - ARGUMENTS:
            raise AnsibleActionFail(
                f"ask takes {', '.join(sorted(ARGUMENTS))}, not {', '.join(sorted(unknown))}"
            )
        changes = boolean(arguments.get("changes", False))
        if changes and self._task.check_mode:
            return {"changed": False, "skipped": True, "msg": "not run: --check changes nothing"}
        self.patience_s = CHANGE_S if changes else QUESTION_S
        if proxy := self.value("site_proxy"):
            self.environment = dict.fromkeys(("http_proxy", "https_proxy"), str(proxy))
        try:
            spec, python = arguments.get("spec"), str(arguments.get("python") or "")
            if title := steps.subject(spec):
                steps.tell(now=steps.words(f"{variables['inventory_hostname']}: {title}"))
            result = self.result(str(arguments["program"]), spec, python=python)
        except LookupError as error:
            raise AnsibleActionFail(str(error)) from None
        return {**result, "changed": result["changed"] or (changes and result["rc"] == 0)}

"""An inventory without nodes, or a tag that there is not, ends a playbook with an error.

Ansible's own answer to both is exit code 0.

Ansible loads what lies here for every playbook of the folder above, with any --limit and --tags. A
task on localhost would be left out by --limit, and stand in each recap.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ansible import context
from ansible.playbook.block import Block
from ansible.plugins.callback import CallbackBase

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from runner.base.errors import NODES, no_nodes
from runner.base.suggest import nearest

BAD_INPUT = 2  # as the runner's
SPECIAL = {"all", "always", "tagged", "untagged", "never"}


def unknown_tags(plays: Iterable[Any]) -> str:
    """A sentence on the first tag of the command line that is in none of the plays, or nothing."""
    plays = list(plays)
    known = {str(tag) for play in plays for tag in play.tags}
    for option in ("tags", "skip_tags"):
        asked = {str(tag) for tag in context.CLIARGS.get(option) or ()} - SPECIAL
        if asked <= known:  # as for every tag of setup.yml: tasks need not be read for it
            continue
        known |= {str(tag) for play in plays for block in play.compile() for tag in _tags(block)}
        for tag in sorted(asked - known):
            there = sorted(known - SPECIAL)
            words = f"; there are {', '.join(there)}" if there else ", which has none; leave it out"
            name = option.replace("_", "-")
            return f"--{name} {tag} is not a tag of this playbook{nearest(tag, there)}{words}"
    return ""


def _tags(block: Any) -> Iterator[str]:
    """The tags of a block's tasks, those of blocks within it too."""
    for task in (*block.block, *block.rescue, *block.always):
        yield from _tags(task) if isinstance(task, Block) else task.tags


class CallbackModule(CallbackBase):  # type: ignore[misc]  # untyped where mypy skips ansible
    """Looks at inventory and tags before the first play."""

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
        elif unknown := unknown_tags(playbook.get_plays()):
            words = unknown
        else:
            return
        self._display.error(words, wrap_text=False)
        sys.exit(BAD_INPUT)

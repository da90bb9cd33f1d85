"""Ask nodes what they are and have, and write that down, a file each."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ansible.errors import AnsibleError

from node.schema import UnfitError
from node.supervisor import kinds
from plugins.node_action import one_line, save
from runner.folder import names
from runner.terms.inspected import ENV, Sought

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from plugins.launching.action import LaunchAction
    from plugins.launching.host_threads import HostThreads

PATIENCE_S = 300.0  # for a node to say what it is


def describe(pool: HostThreads, hosts: Sequence[str], sought: Sought, folder: Path) -> None:
    """Write what each host is into a folder, or why it cannot be asked."""
    spec = asdict(sought)
    kind = kinds.inspected(spec["paths"], ENV, [*spec["folders"], *spec["pythons"]])

    def ask(action: LaunchAction, host: str) -> None:
        action.patience_s = PATIENCE_S
        try:
            facts = action.ask("supervisor.inspection:inspect", spec, kind)
        except (AnsibleError, UnfitError) as error:
            return silent(host, one_line(error))
        save(folder / names.of_host(host), facts)

    def silent(host: str, reason: str) -> None:
        save(folder / names.of_host(host), {"unreachable": reason})

    pool.each(hosts, ask, silent)

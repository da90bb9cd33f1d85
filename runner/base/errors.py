"""The one exception that a user sees: one sentence that says what is wrong and names the cure."""

import re
from collections.abc import Mapping

from node.printable import printable

NODES = "nodes"  # the inventory's group of machines to train on


class UserError(Exception):
    """Bad input or a refused request; the command line prints it and exits with code 2."""


def no_nodes(inventory: object) -> str:
    """Return what the runner and the playbooks say of an inventory without machines to train on."""
    return (
        f"the inventory {inventory} has no hosts in a group called {NODES}; put the machines to"
        " train on under it, as inventory/local/hosts.yml does; for a hostfile:"
        " TRAINBENCH_HOSTFILE=FILE ... -i inventory/allocation"
    )


def unreachable(whys: Mapping[str, str], inventory: object) -> str:
    """Name all nodes that cannot be used, each with Ansible's words on why, in one sentence."""
    hosts: dict[str, list[str]] = {}
    for host, why in whys.items():
        hosts.setdefault(silence(why), []).append(host)
    sentences = "; ".join(
        f"{', '.join(named)} cannot be used: {why}" for why, named in hosts.items()
    )
    each = "it" if len(whys) == 1 else "each"
    its = "its" if len(whys) == 1 else "each one's"
    which = "it" if len(whys) == 1 else "those that do not"
    return (
        f"{sentences}; see that {each} is on, that {its} address in the inventory is right and that"
        f" {each} takes your key (`ansible {','.join(whys)} -i {inventory} -m ping` must not ask),"
        f" or take {which} out of the inventory"
    )


def silence(message: str) -> str:
    """Say why a node does not answer, without Ansible's words around it."""
    reason = re.sub(r"^.*?(?:via ssh|over ssh): ", "", printable(message))
    return reason.rstrip(". ") or "no answer"

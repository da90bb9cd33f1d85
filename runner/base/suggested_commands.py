"""Commands that fix a problem, ready to type: with the inventory they are for."""

import shlex
from collections.abc import Sequence

from runner.base.program_name import CALLED

COMMANDS = ("setup", "verify", "teardown")
UNKNOWN = "INVENTORY"  # where nobody wrote down which one it was


def played(playbook: str, inventory: object) -> str:
    """Return the command that plays one of our playbooks, or a part of setup, on an inventory."""
    command = playbook if playbook in COMMANDS else f"setup --tags {playbook}"
    return f"`{CALLED} {command} -i {_word(inventory)}`"


def doctor(inventory: object) -> str:
    """Return the command that asks the nodes of an inventory."""
    return f"`{CALLED} doctor -i {_word(inventory)}`"


def accept(inventory: object, arguments: Sequence[str]) -> str:
    """Return the command that accepts the nodes of an inventory, with further arguments."""
    further = "".join(f" {shlex.quote(argument)}" for argument in arguments)
    return f"`{CALLED} accept -i {_word(inventory)}{further}`"


def spelled_out(message: str, inventory: object) -> str:
    """Return what a node says, `run setup` in it as the command: the node knows no inventory."""
    if not inventory:
        return message
    for step, playbook in (("setup's data step", "data"), ("setup", "setup")):
        message = message.replace(f"run {step}", f"run {played(playbook, inventory)}")
    return message


def _word(inventory: object) -> str:
    return shlex.quote(str(inventory)) if inventory else UNKNOWN

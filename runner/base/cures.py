"""Commands that mend, as whoever reads them can type them: with the inventory they are for."""

import shlex

UNKNOWN = "INVENTORY"  # where nobody wrote down which one it was


def played(playbook: str, inventory: object) -> str:
    """Return the command that plays one of our playbooks on an inventory."""
    return f"`ansible-playbook playbooks/{playbook}.yml -i {_word(inventory)}`"


def doctor(inventory: object) -> str:
    """Return the command that asks the nodes of an inventory."""
    return f"`python -m runner doctor -i {_word(inventory)}`"


def _word(inventory: object) -> str:
    return shlex.quote(str(inventory)) if inventory else UNKNOWN

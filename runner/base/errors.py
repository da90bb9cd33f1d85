"""The one exception that a user sees: one sentence that says what is wrong and names the cure."""

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

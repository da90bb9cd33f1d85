"""Words of a plan in place of what only a job knows: the addresses of its nodes, and its port.

The runner writes them into argv, values of variables and texts of files; a node's supervisor puts
the values in their place, as data.
"""

MASTER_ADDR = "{master_addr}"
MASTER_PORT = "{master_port}"


def node_addr(rank: int) -> str:
    """Return the word for the address of the node of that rank."""
    return "{node_addr_%d}" % rank if rank else MASTER_ADDR

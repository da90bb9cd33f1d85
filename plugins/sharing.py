"""What nodes that share data are told (node to node, as the program `share` does it)."""

import secrets
from collections.abc import Mapping
from typing import Any

PLAN = ("identity", "gives", "gets")  # of each thing by its name; host to names, twice


def shared(plan: Mapping[str, Any], addresses: Mapping[str, str]) -> dict[str, Any]:
    """Return what the program is told on each node, besides the node's name, folder and port.

    The token lets the nodes of this one run read from each other.
    """
    return {
        "token": secrets.token_hex(20),
        "addresses": {host: addresses[host] for host in (*plan["gives"], *plan["gets"])},
        **{key: plan[key] for key in PLAN},
    }

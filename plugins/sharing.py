"""What nodes that share data are told (node to node, as the program `share` does it)."""

from collections.abc import Iterable, Mapping
from typing import Any


def shares(
    identity: Mapping[str, str],
    gives: Mapping[str, Iterable[str]],
    gets: Mapping[str, Iterable[str]],
    addresses: Mapping[str, str],
    token: str,
) -> dict[str, dict[str, Any]]:
    """Return host to what the program is told there, but for its folder and the port.

    `identity` is of each thing by name; `gives` and `gets` are host to names.
    `token` lets the nodes of this one run read from each other.
    """
    hosts = dict.fromkeys([*gives, *gets])
    return {
        host: {
            "me": host,
            "token": token,
            "addresses": {each: addresses[each] for each in hosts},
            "has": {name: identity[name] for name in gives.get(host, ())},
            "wants": {name: identity[name] for name in gets.get(host, ())},
            "holders": list(gives),
            "waiting": list(gets),
        }
        for host in hosts
    }

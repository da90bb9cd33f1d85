"""`hostvars | root_fault(HOST, HOSTS, SHARED)`: what of a root is not as the inventory says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def root_fault(
    hostvars: Mapping[str, Mapping[str, Any]], host: str, hosts: Sequence[str], shared: bool
) -> str:
    """Return what is wrong on a node, of the tokens that it saw; empty for nothing.

    `shared` is what the inventory says, and `hosts` are those whose tokens were looked for.
    """
    seen_tokens = (hostvars[host]["__validate_seen"].get("answer") or {}).get("seen", {})
    root = hostvars[host].get("cluster_root", "cluster_root")
    other_hosts = [other_host for other_host in hosts if other_host != host]
    if shared and (
        hidden := [other_host for other_host in other_hosts if other_host not in seen_tokens]
    ):
        return (
            f"{host} does not see what {hidden[0]} writes into {root}; mount one file system there"
            " on all nodes, or take cluster_root_shared: true out of the inventory"
        )
    if not shared and (
        alike := [other_host for other_host in other_hosts if other_host in seen_tokens]
    ):
        return (
            f"{host} and {alike[0]} share {root}; set cluster_root_shared: true in the inventory,"
            " so that setup installs there once, or name a folder on a disk of each node's own"
        )
    return ""


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter's name and function."""
        return {"root_fault": root_fault}

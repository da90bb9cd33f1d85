"""Rules of an inventory that setup and bench both hold: what is wrong, or an empty string. Pure."""

from collections.abc import Sequence

# What an inventory has in place of an address that its documents do not give.
TO_EDIT = "EDIT-ME"


def address_fault(addresses: Sequence[tuple[str, str]], where: str) -> str:
    """Name the hosts, of (host, address), whose address is still to be edited."""
    hosts = [host for host, address in addresses if address == TO_EDIT]
    if not hosts:
        return ""
    return (
        f"the address of {', '.join(hosts)} is still {TO_EDIT}; write it into ansible_host"
        f" in {where}"
    )


def root_fault(root: str, local: bool, host: str = "") -> str:
    """Say what is wrong with a `cluster_root`: it is there, and absolute on a remote node."""
    name = f"cluster_root of {host}" if host else "cluster_root"
    if not root:
        return (
            f"{name} is not set; name the folder that holds everything of TrainBench on a node,"
            " such as /opt/trainbench"
        )
    if not root.startswith("/") and not local:
        return f"{name} is {root[:200]!r}; on a remote node it must be absolute"
    return ""

"""Rules of an inventory that setup and bench both hold: what is wrong, or an empty string. Pure."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from node.schema import value_text

MOST_NAME = 256  # letters of a group's name
MOST_S = 86_400  # of cluster_lost_contact_s

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


def value_faults(values: Mapping[str, Any]) -> Iterator[str]:
    """Say which keys of the whole cluster have a value that no run can use; None is not set."""
    for key, (fits, rule) in _VALUES.items():
        value = values.get(key)
        if value is not None and not fits(value):
            yield f"{key} is {quoted(value)}; it must be {rule}"


def quoted(value: Any) -> str:
    """Return a value as a fault says it: nothing of a mapping, which may hold secrets."""
    parts = value if isinstance(value, list) else [value]
    nested = any(isinstance(element, dict | list) for element in parts)
    return value_text(value) if nested else repr(value)[:200]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_folder(value: Any) -> bool:
    return not value or (isinstance(value, str) and value.startswith("/"))


def _is_name(value: Any) -> bool:
    return not value or (isinstance(value, str) and len(value) <= MOST_NAME)


def _is_port(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65536


def _are_options(value: Any) -> bool:
    return not value or (
        isinstance(value, list)
        and all(isinstance(word, str) and word.startswith("-") for word in value)
    )


_VALUES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "cluster_lost_contact_s": (
        lambda value: _is_number(value) and 3 <= value <= MOST_S,
        f"3 or more seconds, and at most {MOST_S}",
    ),
    "cluster_device_memory_mib": (lambda value: _is_number(value) and value >= 0, "a number"),
    "npu_cann_home": (_is_folder, "an absolute path"),
    "cluster_group": (_is_name, "the name of a group"),
    "cluster_scratch": (_is_folder, "an absolute path"),
    "cluster_checkpoints": (_is_folder, "an absolute path"),
    "cluster_container_ssh_port": (_is_port, "a port"),
    "cluster_container_options": (
        _are_options,
        "a list of options, each one word such as --device=/dev/infiniband",
    ),
}

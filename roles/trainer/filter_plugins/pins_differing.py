"""`hostvars | pins_differing(HOSTS, SYSTEM)`: the pin sets that are to be brought to the nodes.

A filter, because it decides whether there is anything to do: a task for it would be one more
of each run that changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any


def pins_differing(
    hostvars: Mapping[str, Mapping[str, Any]], hosts: Iterable[str], system: str
) -> list[str]:
    """Return the pin sets that differ on any node, or whose image is not the same on all."""
    answers = [(hostvars[host].get("__trainer_looked") or {}).get("answer") for host in hosts]
    looks = [answer for answer in answers if answer and answer["system"] == system]
    images: dict[str, set[str]] = {}
    for look in looks:
        for pin, has in look["pins"].items():
            if "image" in has["env"]:
                images.setdefault(pin, set()).add(has["env"]["image"])
    differing = {pin for look in looks for pin in look["differing"]}
    return sorted(differing | {pin for pin, ids in images.items() if len(ids) > 1})


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter's name and function."""
        return {"pins_differing": pins_differing}

"""The machines of a campaign, then and now: what runs made before would not compare with. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from runner.base.text import listing

MOST_NAMED = 3
NODE_FACTS = ("address", "devices", "root")
NAMES = {"device": "cluster_device", "nodes": "cluster_nodes", "env": "cluster_env"}


def changes(was: Mapping[str, Any], now: Mapping[str, Any], used: int) -> str:
    """Say what differs, of the first `used` nodes and of all they share; empty where nothing does.

    Both are `Cluster.facts`. Nodes behind those that ran may come, go and change.
    """
    differences = list(_changes(was, now, used))
    return listing(differences, MOST_NAMED) if differences else ""


def _changes(was: Mapping[str, Any], now: Mapping[str, Any], used: int) -> Iterator[str]:
    before, after = was.get("nodes") or [], now.get("nodes") or []
    for at in range(min(used, len(before))):
        (host, *old), (name, *new) = (
            before[at],
            [*after[at]] if at < len(after) else ("", "", 0, ""),
        )
        if not name:
            yield f"node {host} is gone"
        elif name != host:
            yield f"node {at + 1} changed from {host} to {name}"
        for fact, was_value, second in zip(NODE_FACTS, old, new, strict=True):
            if name == host and was_value != second:
                yield f"{fact} of {host} changed from {was_value} to {second}"
    for key in dict.fromkeys((*was, *now)):
        if key != "nodes" and was.get(key) != now.get(key):
            yield from _of_all(key, was.get(key), now.get(key))


def _of_all(key: str, was: Any, now: Any) -> Iterator[str]:
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys((*was, *now)):
            if was.get(name) != now.get(name):
                yield f"{name} changed from {_text(was.get(name))} to {_text(now.get(name))}"
        return
    yield f"{NAMES.get(key, key)} changed from {_text(was)} to {_text(now)}"


def _text(value: Any) -> str:
    return "not set" if value is None else str(value)[:60]

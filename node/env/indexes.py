"""Where pip looks for packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from node.mirrors import mirrored

if TYPE_CHECKING:
    from .pins import Spec

INDEX = "https://pypi.org/simple"


def sources(spec: Spec, indexes: list[str]) -> list[str]:
    """Where pip looks, as lines of its requirements file: an address may hold a password.

    A folder of wheels serves as an index where the mirror is a path. Without our choice
    pip's own configuration decides.
    """
    mirrors = spec["mirrors"].get("pip")
    index = spec["index"] or mirrored(INDEX, mirrors)
    lines = []
    if index.startswith("/"):
        lines += ["--no-index", f"--find-links {index}"]
    elif index != INDEX:
        lines += [f"--index-url {index}"]
    for extra in [*indexes, *([spec["extra_index"]] if spec["extra_index"] else [])]:
        address = mirrored(extra, mirrors)
        option = "--find-links" if address.startswith("/") else "--extra-index-url"
        lines += [f"{option} {address}"]
    return [*lines, *([f"--find-links {spec['find_links']}"] if spec["find_links"] else [])]

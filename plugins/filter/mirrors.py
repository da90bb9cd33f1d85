"""``address | mirrored('apt', site_mirrors)``: where a site has what the address names.

`site_mirrors` is a mapping of kind (apt, pip, conda, git, data, images) to a mapping of the
beginning of a public address to its replacement. The longest beginning that fits wins; an
address that none fits stays as it is.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from node.mirrors import mirrored as mirrors_of_a_kind

KINDS = ("apt", "pip", "conda", "git", "data", "images")


def mirrored(address: str, kind: str, mirrors: Mapping[str, Mapping[str, str]] | None) -> str:
    """The address to use instead of `address`. Raises ValueError for an unknown kind."""
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is not a kind of mirror; there are {', '.join(KINDS)}")
    return mirrors_of_a_kind(address, (mirrors or {}).get(kind))


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """Filter names and their functions."""
        return {"mirrored": mirrored}

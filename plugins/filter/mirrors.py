"""``address | mirrored('apt', site_mirrors)``: where a site has what the address names.

`site_mirrors` is a mapping of kind (apt, pip, conda, git, data, images) to a mapping of the
beginning of a public address to what stands in its place. The longest beginning that fits wins; an
address that none fits stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

KINDS = ("apt", "pip", "conda", "git", "data", "images")


def mirrored(address: str, kind: str, mirrors: Mapping[str, Mapping[str, str]] | None) -> str:
    """The address to use instead of `address`. Raises ValueError for an unknown kind."""
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is no kind of mirror; there are {', '.join(KINDS)}")
    fits = [
        (beginning, instead)
        for beginning, instead in ((mirrors or {}).get(kind) or {}).items()
        if address.startswith(beginning)
    ]
    if not fits:
        return address
    beginning, instead = max(fits, key=lambda fit: len(fit[0]))
    return instead + address[len(beginning) :]


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """Filter names and their functions."""
        return {"mirrored": mirrored}

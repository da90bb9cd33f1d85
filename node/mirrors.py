"""Where a site has what a public address names."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def mirrored(address: str, mirrors: Mapping[str, str] | None) -> str:
    """Return the address to use: the longest beginning that a mirror stands for is replaced."""
    fitting = [beginning for beginning in mirrors or {} if address.startswith(beginning)]
    if not mirrors or not fitting:
        return address
    beginning = max(fitting, key=len)
    return mirrors[beginning] + address[len(beginning) :]

"""What an allocation runs while a campaign's steps come and go: it waits, and ends with its lease.

supervisor.allocation:hold    until nobody has renewed the lease for lease_s
"""

from __future__ import annotations

import time

from .state import lease_over

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any

LOOK_S = 5.0


def hold(spec: dict[str, Any]) -> dict[str, Any]:
    """Wait. `spec`: lease (a file that bench renews), lease_s (how long it holds)."""
    seen: dict[str, Any] = {}
    while not lease_over(seen, time.monotonic(), spec["lease_s"], spec["lease"]):
        time.sleep(LOOK_S)
    return {"ended": "nobody renewed the lease"}

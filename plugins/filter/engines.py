"""Whether the machine that a play is on has the devices of a node.

``cluster_engine | devices_here``: a login node need not have what its compute nodes have; within a
job it is one of them.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from runner.inventory.engine_keys import engine_named


def devices_here(name: str) -> bool:
    """Whether the engine's nodes are the inventory's hosts, or this is in a job."""
    engine = engine_named({"cluster_engine": name}, "the inventory")
    return not engine.in_jobs or bool(os.environ.get(engine.job_variable))


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., bool]]:
        """Filter names and their functions."""
        return {"devices_here": devices_here}

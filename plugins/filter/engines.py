"""What plays ask of an inventory's engines.

``cluster_engine | devices_here``: a login node need not have what its compute nodes have; within a
job it is one of them.
``cluster_container_engine | image_builder``: the program that has built images for it.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from runner.inventory.engine_keys import engine_named
from runner.terms.container_engines import ENGINES, Containers


def devices_here(name: str) -> bool:
    """Whether the engine's nodes are the inventory's hosts, or this is in a job."""
    engine = engine_named({"cluster_engine": name}, "the inventory")
    return not engine.in_jobs or bool(os.environ.get(engine.job_variable))


def image_builder(name: str) -> str:
    """The program's path; without a name the default's, which builds for all that setup finds."""
    return ENGINES[name or Containers.engine].builder


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., bool | str]]:
        """Filter names and their functions."""
        return {"devices_here": devices_here, "image_builder": image_builder}

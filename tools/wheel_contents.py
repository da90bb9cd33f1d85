"""What the wheel has below its package, trainbench_cluster: the checkout's folders.

They lie in `shipped/` as in a checkout, so that each finds the others, and no other program finds
a package named runner, node or plugins. An editable install names the checkout, and copies nothing.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "trainbench_cluster"
SHIPPED = (
    "ansible.cfg", "docs", "inventory", "matrices", "matrix.yaml", "node", "playbooks", "plugins",
    "roles", "runner", "templates",
)  # fmt: skip


class WheelContents(BuildHookInterface[Any]):
    """Hatchling's entry."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files before a wheel is built."""
        if version != "editable":
            shipped = {name: f"{PACKAGE}/shipped/{name}" for name in SHIPPED}
            build_data["force_include"].update(shipped)

"""What the wheel has: the checkout's folders as they lie here, below trainbench/.

So each finds the others as in a checkout. trainbench.pth lets Python find runner, node and plugins
there; one of `pip install -e` names the checkout itself, and copies nothing.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHIPPED = (
    "ansible.cfg", "docs", "inventory", "matrices", "matrix.yaml", "node", "playbooks", "plugins",
    "roles", "runner", "templates",
)  # fmt: skip


class WheelContents(BuildHookInterface[Any]):
    """Hatchling's entry."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files before a wheel is built."""
        if version != "editable":
            build_data["force_include"].update({name: f"trainbench/{name}" for name in SHIPPED})
            build_data["force_include"]["tools/trainbench.pth"] = "trainbench.pth"

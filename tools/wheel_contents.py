"""What the wheel has below its package, trainbench_cluster: the checkout's folders.

They lie in `shipped/` as in a checkout, so that each finds the others, and no other program finds
a package named runner, node or plugins. Documents have their tables, and the pages and schemas that
are written from the code. An editable install names the checkout, and copies nothing.
"""

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
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
            self.folder = TemporaryDirectory()
            shipped[self._documents(Path(self.folder.name, "docs"))] = shipped.pop("docs")
            build_data["force_include"].update(shipped)

    def _documents(self, folder: Path) -> str:
        """Write the documents to a folder, and return it."""
        sys.path.insert(0, self.root)
        from tools.site.pages import documents

        shutil.copytree(Path(self.root, "docs"), folder)
        for name, text in documents().items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return str(folder)

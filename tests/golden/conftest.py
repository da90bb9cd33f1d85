"""ansible-inventory takes half a second of CPU, and most of these tests have the same inventory."""

from pathlib import Path
from typing import Any

import pytest

from runner.inventory import inventory
from runner.inventory.listing import ansible_inventory as ask

Content = frozenset[tuple[Path, bytes]]
answers: dict[Content, Any] = {}


@pytest.fixture(autouse=True)
def _inventories_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the real program answered to the same files is its answer; errors are asked anew."""

    def remembered(path: Path) -> Any:
        files = [file for file in path.rglob("*") if file.is_file()]
        if not files or any(file.suffix != ".yml" for file in files):
            return ask(path)  # a file alone, or programs
        content = frozenset((file.relative_to(path), file.read_bytes()) for file in files)
        if content not in answers:
            answers[content] = ask(path)
        return answers[content]

    monkeypatch.setattr(inventory, "ansible_inventory", remembered)

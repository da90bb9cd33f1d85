"""What to say of an inventory that is not there: which one was meant, as it can be typed."""

from pathlib import Path

from runner.base.paths import DEFAULT_INVENTORY
from runner.base.suggest import match

HOSTS = ("hosts.yml", "hosts.py")  # one of them makes a folder an inventory


def absent(path: Path) -> str:
    """Return one sentence: there is no such inventory, and what to name."""
    there: dict[str, Path] = {}
    for folder in (path.parent, path.parent / "inventory", DEFAULT_INVENTORY.parent):
        for file in (file for name in HOSTS for file in sorted(folder.glob(f"*/{name}"))):
            there.setdefault(file.parent.name, file.parent)
    meant = path.name if path.name in there else match(path.name, there)
    if meant is not None:
        return f"there is no inventory {path} (did you mean {_typed(there[meant])}?)"
    return (
        f"there is no inventory {path}; name a folder such as {_typed(DEFAULT_INVENTORY)}, which is"
        " this machine"
    )


def _typed(path: Path) -> Path:
    """Return the shortest path that names it from here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path

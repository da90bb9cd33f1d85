"""What to say of an inventory that is not there: which one was meant, as it can be typed."""

from pathlib import Path

from runner.base.paths import FOLDER, PROJECT, existing_path
from runner.base.suggest import match

DOCUMENTS = "documents"  # of inventory/: those of the benchmarks that are reproduced
HOSTS = ("hosts.yml", "hosts.py")  # one of them makes a folder an inventory


def absent(path: Path) -> str:
    """Return one sentence: there is no such inventory, and what to name."""
    there: dict[str, Path] = {}
    folders = (base / "inventory" for base in (Path(), FOLDER, PROJECT))
    for folder in (path.parent, *(f for base in folders for f in (base, base / DOCUMENTS))):
        for file in (file for name in HOSTS for file in sorted(folder.glob(f"*/{name}"))):
            there.setdefault(file.parent.name, file.parent)
    suggestion = path.name if path.name in there else match(path.name, there)
    if suggestion is not None:
        return f"there is no inventory {path} (did you mean {_typed(there[suggestion])}?)"
    return (
        f"there is no inventory {path}; name a folder such as inventory/local, which is this"
        " machine, or have `python -m runner init` write one of your machines"
    )


def _typed(path: Path) -> Path:
    """Return what names it on the command line: `inventory/NAME` from wherever that is found."""
    names = (Path("inventory") / path.name, Path("inventory") / DOCUMENTS / path.name)
    found_by = (short for short in names if existing_path(str(short)).resolve() == path.resolve())
    return next(found_by, path)

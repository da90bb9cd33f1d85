"""Folders and files that a person names, to campaigns and exports."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from node.printable import printable
from runner.base.errors import UserError
from runner.folder import names
from runner.folder.campaign import Campaign

EXPORTS = (".tar.gz", ".tgz")


def sources(paths: Sequence[Path]) -> list[Path]:
    """List the campaigns and exports that are named, or are in a named folder; each once.

    A campaign in such a folder in which nothing ran is left out. Raises UserError where a name
    leads nowhere, or a folder has neither.
    """
    every_source = [source for path in paths for source in _in(path)]
    return list({path.resolve(): path for path in every_source}.values())


def _in(path: Path) -> Iterable[Path]:
    name = printable(str(path))
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(f"there is no file or folder {name}; name a folder of campaigns")
    if (path / names.CAMPAIGN).exists():
        return [path]
    there = sorted(path.iterdir())
    campaigns = [
        candidate
        for candidate in there
        if (candidate / names.CAMPAIGN).exists() and Campaign(candidate).begun
    ]
    exports = [
        candidate for candidate in there if candidate.name.endswith(EXPORTS) and candidate.is_file()
    ]
    if not campaigns and not exports:
        raise UserError(
            f"{name} holds no campaign in which anything ran, and no export; name a folder of"
            " campaigns (runs), one campaign, or a .tar.gz that `python -m runner export` wrote"
        )
    return [*campaigns, *exports]

"""Folders and files that a person names, to campaigns and exports."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from node.printable import printable
from runner.base.errors import UserError
from runner.folder import names
from runner.folder.campaign import Campaign

EXPORTS = (".tar.gz", ".tgz")


def sources(given: Sequence[Path]) -> list[Path]:
    """List the campaigns and exports that are named, or lie in a folder that is; each once.

    A campaign in such a folder in which nothing ran is none. Raises UserError where a name leads
    nowhere, or a folder has neither.
    """
    found = [source for path in given for source in _in(path)]
    return list({path.resolve(): path for path in found}.values())


def _in(path: Path) -> Iterable[Path]:
    shown = printable(str(path))
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(f"there is no file or folder {shown}; name a folder of campaigns")
    if (path / names.CAMPAIGN).exists():
        return [path]
    there = sorted(path.iterdir())
    campaigns = [one for one in there if (one / names.CAMPAIGN).exists() and Campaign(one).begun]
    exports = [one for one in there if one.name.endswith(EXPORTS) and one.is_file()]
    if not campaigns and not exports:
        raise UserError(
            f"{shown} holds no campaign in which anything ran, and no export; name a folder of"
            " campaigns (runs), one campaign, or a .tar.gz that `python -m runner export` wrote"
        )
    return [*campaigns, *exports]

"""A board's folder: its template, its bundles, and what a pull request changes in it."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from node.printable import printable
from runner import __version__
from runner.base.errors import UserError
from runner.base.files import write_text
from runner.base.paths import PROJECT
from runner.board.refusal import NOT_DETECTED, REASONS, Refusal
from runner.history.sources import EXPORTS

TEMPLATE = PROJECT / "templates" / "board"
BUNDLES = "bundles"
KEEP = ".gitkeep"
# Of the template, to its place in a repository: a wheel takes no hidden folders.
PLACES = {
    "board.yml": ".github/workflows/board.yml",
    "README.md": "README.md",
    "gitignore": ".gitignore",
    "requirements.txt": "requirements.txt",
}


@dataclass(frozen=True)
class Changes:
    """What a pull request changes: new bundles, and reasons against the rest."""

    new: tuple[Path, ...]
    refusals: tuple[Refusal, ...]


def init(folder: Path) -> list[Path]:
    """Write a board's template; the files. Raises UserError where the folder has files."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is not an empty folder; name a new one")
    written = []
    for source, target in PLACES.items():
        text = (TEMPLATE / source).read_text("utf-8")
        text = text.replace("@VERSION@", __version__)
        text = text.replace(
            "@REASONS@", listed([f"`{code}`: {why}" for code, why in REASONS.items()])
        )
        text = text.replace("@NOT_DETECTED@", listed(NOT_DETECTED))
        path = folder / target
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
        written.append(path)
    bundles = folder / BUNDLES
    bundles.mkdir()
    (bundles / KEEP).touch()
    return [*written, bundles / KEEP]


def listed(lines: Sequence[str]) -> str:
    """Write lines as a list in Markdown."""
    return "\n".join(f"- {line}" for line in lines)


def bundles_of(folder: Path) -> list[Path]:
    """List a board's bundles. Raises UserError where there is no such folder."""
    bundles = folder / BUNDLES
    if not bundles.is_dir():
        raise UserError(
            f"{folder} has no folder {BUNDLES}; `python -m runner board init` makes one"
        )
    return sorted(
        path
        for path in bundles.iterdir()
        if path.name.endswith(EXPORTS) and path.is_file() and not path.is_symlink()
    )


def changes(folder: Path, base: str) -> Changes:
    """Compare the board's commit with `base`, a name of git's. Raises UserError."""
    if base.startswith("-"):
        raise UserError(f"--base {base}: name a branch or a commit")
    listing = _git(folder, "diff", "--name-status", "--no-renames", "-z", f"{base}...HEAD", "--")
    fields = listing.split("\0")[:-1]
    new, refusals = [], []
    for status, name in zip(fields[::2], fields[1::2], strict=True):
        path = folder / name
        name_shown = printable(name)
        inside = Path(name).parent == Path(BUNDLES) and name.endswith(EXPORTS)
        if status == "A" and inside and path.is_file() and not path.is_symlink():
            new.append(path)
        elif inside and status != "A":
            verb = "removes" if status == "D" else "changes"
            refusals.append(Refusal("other_change", f"it {verb} {name_shown}, which the board has"))
        else:
            refusals.append(
                Refusal("other_change", f"it changes {name_shown}; a bundle's pull request adds"
                        f" {BUNDLES}/NAME.tar.gz alone, so a person has to read this one")
            )  # fmt: skip
    return Changes(tuple(new), tuple(refusals))


def _git(folder: Path, *arguments: str) -> str:
    argv = ["git", "-C", str(folder), *arguments]
    try:
        process = subprocess.run(
            argv, capture_output=True, text=True, errors="surrogateescape", check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"git cannot be asked: {error}") from None
    if process.returncode:
        why = printable(process.stderr.strip().splitlines()[-1] if process.stderr.strip() else "")
        raise UserError(f"git cannot compare with that commit ({why}); fetch it first")
    return process.stdout

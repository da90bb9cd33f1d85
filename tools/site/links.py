"""Where a file of the checkout stands on the site, and links that follow it there."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# A link or picture with a relative target (an address has a colon, a place on the same page begins
# with #), or a block of code, in which nothing is a link.
LINK = re.compile(
    r"^(?P<fence>`{3,}).*?^(?P=fence)$|(?P<opens>\]\()(?P<target>[^)\s#:]+)(?P<place>#[^)\s]*)?(?=\))",
    re.DOTALL | re.MULTILINE,
)
MOVED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
GALLERY = "matrices.md"  # what each file of matrices/ answers
SOURCE = "source/"  # what docs/ does not have, a page a file or folder


class Sheet(NamedTuple):
    """A page as the checkout has it: its links are relative to `origin`, a path of the checkout."""

    origin: str
    text: str


def address(path: str) -> str:
    """Return where a path of the checkout stands on the site: a page, or a file beside."""
    if path == "matrices":
        return GALLERY
    if path in MOVED:
        return MOVED[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if re.fullmatch(r"roles/\w+/meta/argument_specs\.yml", path):
        return path.removesuffix("/meta/argument_specs.yml") + ".md"
    return f"{SOURCE}{path}.md"


def targets(sheet: Sheet) -> Iterator[str]:
    """Yield the paths of the checkout that a page links to."""
    for found in LINK.finditer(sheet.text):
        if found["target"]:
            yield _resolved(sheet.origin, found["target"])


def rewritten(sheet: Sheet, uri: str) -> str:
    """Return the page's text with links as they are from `uri`, its place on the site."""

    def moved(found: re.Match[str]) -> str:
        if not found["target"]:
            return found[0]
        target = address(_resolved(sheet.origin, found["target"]))
        here = posixpath.relpath(target, posixpath.dirname(uri))
        return f"{found['opens']}{here}{found['place'] or ''}"

    return LINK.sub(moved, sheet.text)


def _resolved(origin: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))

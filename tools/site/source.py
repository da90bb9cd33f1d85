"""Files of the checkout that documents link to, as pages: a page a file, a list a folder."""

import re
from collections.abc import Iterable

from tools.site.links import ROOT, SOURCE, Sheet, address, targets

HIDDEN = "---\nsearch: {exclude: true}\n---\n"  # what pages say is searched, not what they link to
LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".sh": "bash"}


def sources(sheets: Iterable[Sheet]) -> dict[str, Sheet]:
    """Make a page of each file and folder that pages link to and the site lacks, by its address."""
    made: dict[str, Sheet] = {}
    left = list(sheets)
    while left:
        for target in targets(left.pop()):
            uri = address(target)
            if uri.startswith(SOURCE) and uri not in made and (ROOT / target).exists():
                made[uri] = _page(target)
                left.append(made[uri])
    return made


def _page(path: str) -> Sheet:
    """Show one file, or what a folder has."""
    here = ROOT / path
    title = f"{HIDDEN}# `{path}`\n\n"
    if here.is_dir():
        names = sorted(one.name for one in here.iterdir() if not one.name.startswith((".", "_")))
        return Sheet(f"{path}/", title + "".join(f"- [{name}]({name})\n" for name in names))
    text = here.read_text(encoding="utf-8")
    fence = "`" * (1 + max(map(len, re.findall("`{3,}", text)), default=2))
    return Sheet(path, f"{title}{fence}{LANGUAGES.get(here.suffix, 'text')}\n{text}\n{fence}\n")

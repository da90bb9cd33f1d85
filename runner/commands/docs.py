"""`python -m runner docs`: the documents of this version, which need no network."""

import argparse
from collections.abc import Mapping

from runner.base.errors import UserError
from runner.base.options import Commands, new_command
from runner.base.paths import IS_CHECKOUT, PROJECT
from runner.base.program_name import CALLED
from runner.base.streams import say, say_json
from runner.base.suggest import nearest
from runner.terms.printed_answers import DocsAnswer, DocsPage

DESCRIPTION = """\
List the documents of this version, or print one as Markdown.

  python -m runner docs                 the pages, and the folder that they are in
  python -m runner docs slurm | less    one of them
  python -m runner docs table.json      the JSON schema of what a command prints

exit codes: 0 printed, 2 there is no such page
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = new_command(
        commands, "docs", "the documents of this version", DESCRIPTION, answers=("docs",)
    )
    command.add_argument("page", nargs="?", metavar="PAGE", help="the page to print")


def run(chosen: argparse.Namespace) -> int:
    """List the pages, or print one; the exit code."""
    folder = PROJECT / "docs"
    texts = _texts()
    text = None if chosen.page is None else _page(chosen.page, texts)
    pages = sorted((name for name in texts if "." not in name), key=lambda n: (n.count("/"), n))
    if chosen.format == "json":
        listed = tuple(DocsPage(page=name, title=_title(texts[name])) for name in pages)
        say_json(DocsAnswer(folder=str(folder), pages=listed, text=text))
        return 0
    if text is not None:
        say(text, end="")
        return 0
    width = max(map(len, pages))
    for name in pages:
        say(f"{name:<{width}}  {_title(texts[name])}")
    say(f"\nthey are in {folder}; `{CALLED} docs PAGE` prints one")
    return 0


def _texts() -> Mapping[str, str]:
    """Return each page by its name, and each JSON schema; a checkout's are written from its code,
    as those of a wheel were when it was built.
    """
    if IS_CHECKOUT:
        from tools.site.pages import documents

        texts = documents()
    else:
        folder = PROJECT / "docs"
        paths = [*folder.rglob("*.md"), *folder.rglob("*.json")]
        texts = {str(p.relative_to(folder)): p.read_text(encoding="utf-8") for p in paths}
    return {name.removesuffix(".md"): text for name, text in texts.items()}


def _page(name: str, texts: Mapping[str, str]) -> str:
    """Return a page's text; its last name is enough. Raises UserError."""
    title = name.removeprefix("docs/").removesuffix(".md")
    ends = [page for page in texts if page == title or page.endswith(f"/{title}")]
    if not ends:
        raise UserError(
            f"there is no page {name!r}{nearest(title, texts)}; `{CALLED} docs` lists them"
        )
    return texts[min(ends, key=lambda page: page.startswith("roles/"))]  # a system's own page


def _title(text: str) -> str:
    """Return a page's heading."""
    return next(line[2:] for line in text.splitlines() if line.startswith("# "))

"""`python -m runner docs`: the documents of this version, which need no network."""

import argparse
from pathlib import Path

from runner.base.errors import UserError
from runner.base.options import Commands, new_command
from runner.base.paths import PROJECT
from runner.base.program_name import CALLED
from runner.base.streams import say, say_json
from runner.base.suggest import nearest
from runner.terms.printed_answers import DocsAnswer, DocsPage

DESCRIPTION = """\
List the documents of this version, or print one as Markdown.

  python -m runner docs                 the pages, and the folder that they are in
  python -m runner docs slurm | less    one of them

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
    paths = sorted(folder.rglob("*.md"), key=lambda path: (len(path.parts), path))
    pages = {str(path.relative_to(folder).with_suffix("")): path for path in paths}
    if chosen.format == "json":
        listed = tuple(DocsPage(page=name, title=_title(path)) for name, path in pages.items())
        text = None if chosen.page is None else _page(chosen.page, pages)
        say_json(DocsAnswer(folder=str(folder), pages=listed, text=text))
        return 0
    if chosen.page is not None:
        say(_page(chosen.page, pages), end="")
        return 0
    width = max(map(len, pages))
    for name, path in pages.items():
        say(f"{name:<{width}}  {_title(path)}")
    say(f"\nthey are in {folder}; `{CALLED} docs PAGE` prints one")
    return 0


def _page(name: str, pages: dict[str, Path]) -> str:
    """Return a page's text; its last name is enough. Raises UserError."""
    title = name.removeprefix("docs/").removesuffix(".md")
    ends = [page for page in pages if page == title or page.endswith(f"/{title}")]
    if not ends:
        raise UserError(
            f"there is no page {name!r}{nearest(title, pages)}; `{CALLED} docs` lists them"
        )
    return pages[ends[0]].read_text()


def _title(path: Path) -> str:
    """Return a page's heading."""
    heads = (line[2:] for line in path.read_text().splitlines() if line.startswith("# "))
    return next(heads, path.stem)

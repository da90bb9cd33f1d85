"""Pages written from the code: every command, and every column of a table."""

import argparse
import re
from collections.abc import Iterable

from runner.__main__ import parser
from runner.tables.columns import for_people, machine_names
from tools.site.links import ROOT, Sheet
from tools.site.schemas import FILES

WIDTH = 100  # letters a line of --help


class _Wide(argparse.RawDescriptionHelpFormatter):
    """Help as wide as a page, whatever the terminal."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=WIDTH)


def commands() -> Sheet:
    """Write the page of commands: what `--help` of each says."""
    top = parser()
    shown = {"all of them": top, **subcommands(top)}
    text = "# Commands\n\nWhat `--help` of each says, in the order of a campaign's way.\n"
    for name, one in shown.items():
        one.formatter_class = _Wide
        text += f"\n## {name}\n\n```text\n{one.format_help()}```\n"
    return Sheet("docs/commands.md", text)


def subcommands(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return every command's parser, by its name."""
    chosen = next(a for a in top._actions if isinstance(a, argparse._SubParsersAction))
    return dict(chosen.choices)


def machine_commands() -> str:
    """Write the table of commands: the schemas of what each prints, its own exit codes."""
    rows = ""
    for name, command in subcommands(parser()).items():
        codes = (command.description or "").partition("exit codes: ")[2].partition("\n\n")[0]
        codes = " ".join(codes.split())
        own = re.sub(r"[,;] (?:2 bad input|130 Ctrl-C)(?=[,;] \d|$)", "", codes)
        rows += f"| `{name}` | {_links(command.get_default('answers') or ()) or '–'} | {own} |\n"
    rows += f"| files of a campaign | {_links(FILES)} | – |\n"
    return f"| command | JSON | exit codes |\n| --- | --- | --- |\n{rows}"


def _links(names: Iterable[str]) -> str:
    named = (name.removesuffix(".json") for name in names)
    return ", ".join(f"[{name}](../schemas/{name}.json)" for name in named)


def table_columns() -> Sheet:
    """Write the page of columns: names, headers for people, where each is explained."""
    headers = {column.key: column.one_line_title for column in for_people([])}
    places = _explained()
    rows = ""
    for name in [*dict.fromkeys([*machine_names([]), *headers])]:
        place = places.get(name)
        link = f"[{place}](measures.md#{_slug(place)})" if place else ""
        rows += f"| `{name}` | {headers.get(name, '')} | {link} |\n"
    return Sheet(
        "docs/columns.md",
        "# Columns of a table\n\n"
        "`--format csv` and `json` have every column under its name on the left; tables for\n"
        "people those with a header, where they say something. `axis_<name>` is each axis of the\n"
        "matrix, `<name>_parallel` each parallel size of a system. [How figures are\n"
        "computed](measures.md) says what each means, [table.json](schemas/table.json) what JSON\n"
        "has.\n\n"
        f"| column | header for people | explained under |\n| --- | --- | --- |\n{rows}",
    )


def _explained() -> dict[str, str]:
    """Return the heading of docs/measures.md under which each name stands first."""
    found: dict[str, str] = {}
    for section in (ROOT / "docs" / "measures.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        title = section.partition("\n")[0]
        for name in re.findall(r"`(\w+)`", section):
            found.setdefault(name, title)
    return found


def _slug(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")

"""What is published: a campaign's rows, machines and environments, and who says so; its README.md.

The README has the facts that pytorch/torchtitan, benchmarks/README.md, "Submission Guidelines" asks
for: entity, model or theme, hardware, report with training configurations, versions and dates,
notes that help to reproduce. Pure, except reading the template.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from node.printable import printable
from runner.base.escapes import MarkdownText
from runner.base.masking import Masks
from runner.base.paths import TEMPLATES
from runner.base.text import counted
from runner.figures.measured_cell import MeasuredCell
from runner.figures.publishable import CODES
from runner.plan.script import quoted
from runner.tables.campaign_table import to_markdown
from runner.tables.environment_facts import environment_section, facts_as_text
from runner.tables.row import PUBLISHABLE, Row
from runner.tables.text import markdown
from runner.terms.inspected import Inspected
from runner.terms.run import Run
from runner.terms.settings import Settings

UNTOLD = "not said"
PACKAGES = ("torch", "torchao", "torchtitan", "deepspeed", "numpy")  # that the README names


@dataclass(frozen=True)
class Refused:
    """A cell that is not publishable: its codes to why, worst first."""

    cell: str
    why: Mapping[str, str]

    @property
    def words(self) -> str:
        """Say it in a line: each code, why, and the cure of the worst."""
        whys = "; ".join(f"{code}: {printable(why)}" for code, why in self.why.items())
        return f"{printable(self.cell)}: {whys}. {CODES[next(iter(self.why))].cure}."


def refused(table: Sequence[Row]) -> list[Refused]:
    """Return the cells that are not publishable, in the table's order."""
    return [
        Refused(row["cell"], row["verdict_reasons"])
        for row in table
        if row["verdict"] != PUBLISHABLE
    ]


@dataclass(frozen=True)
class Lock:
    """The packages of an environment, name to version, or why they are not known."""

    packages: Mapping[str, str]
    missing: str = ""


@dataclass(frozen=True)
class InstalledPin:
    """A pin set that cells ran with: its literals, what the nodes said that it is, its packages.

    `literals` is None of one that this version of TrainBench does not have. `patches` are files of
    this version, by the names that the pin set gives them; `other` says why some are not of those
    that were applied.
    """

    system: str
    name: str
    literals: Mapping[str, Any] | None
    identity: Mapping[str, Any]
    lock: Lock
    patches: Mapping[str, Path]
    other: str = ""

    @property
    def folder(self) -> str:
        """Its folder in the bundle."""
        return f"environment/{self.system}/{self.name}"


@dataclass(frozen=True)
class Publication:
    """A campaign, as it is published; `entity` may be empty, and then says so.

    `runs` has the run that describes each cell, by the cell's id. `day` is the last run's,
    YYYY-MM-DD, empty where none is known.
    """

    name: str
    settings: Settings
    table: Sequence[Row]
    cells: Sequence[MeasuredCell]
    runs: Mapping[str, Run]
    nodes: Mapping[str, Inspected]
    pins: Sequence[InstalledPin]
    refused: Sequence[Refused]
    entity: str
    day: str
    redacted: bool

    @property
    def theme(self) -> str:
        """Name the models, or what else was compared."""
        models = {str(row["parameters"].get("model") or "") for row in self.table}
        return ", ".join(sorted(filter(None, models))) or self.name

    @property
    def devices(self) -> list[str]:
        """Name the devices, each kind once."""
        names = (cell.record.device or cell.record.device_kind for cell in self.cells)
        return list(dict.fromkeys(filter(None, names)))


def file_name(publication: Publication) -> str:
    """Return the name that torchtitan wants: `[model/theme]_[hardware]_[date/time]_[entity].md`."""
    hardware = "+".join(publication.devices) or "unknown"
    day = publication.day.replace("-", "") or "undated"
    parts = (publication.theme, hardware, day, publication.entity or "unnamed")
    return "_".join(re.sub(r"[^A-Za-z0-9.+-]+", "-", field).strip("-") for field in parts) + ".md"


def readme(publication: Publication) -> str:
    """Write it."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=False,  # noqa: S701  # Markdown: `finalize` escapes all but what is Markup
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: value if isinstance(value, Markup) else MarkdownText(str(value)),
    )
    environment.filters |= {"counted": counted, "command": command, "fenced": fenced}
    return environment.get_template("publication.md.j2").render(
        published=publication,
        hardware=_hardware(publication),
        commands=[
            (row["cell"], publication.runs[row["cell_id"]], row["verdict"] == PUBLISHABLE)
            for row in publication.table
            if row["cell_id"] in publication.runs
        ],
        table=Markup(to_markdown(publication.table)),  # noqa: S704  # its cells are escaped
        versions=_versions(publication),
    )


def _hardware(publication: Publication) -> list[str]:
    records = [record for cell in publication.cells for record in cell.records]
    nodes = {host for record in records for host in record.hosts}
    facts = facts_as_text(environment_section(records))
    return [
        f"{counted(len(nodes), 'node')}: {', '.join(publication.devices) or UNTOLD}",
        *(f"{name}: {value}" for name, value in facts.items()),
    ]


def command(run: Run) -> str:
    """Write what node rank 0 executes, its variables before it, as a shell would take it; without
    secrets.
    """
    node, masks = run.nodes[0], Masks()
    env = [f"{name}={quoted(value)}" for name, value in masks.content(node.env).items()]
    commands = node.processes or ((node.argv,) if node.argv else ())
    lines = [" ".join(map(quoted, masks.argv(argv))) for argv in commands] or [
        "# nothing: imported from a log"
    ]
    return "\n".join([f"cd {quoted(node.cwd)}", *(f"{word} \\" for word in env), *lines])


def fenced(text: str, language: str = "") -> Markup:
    """Put a text into a block of code, which nothing in it can end."""
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markup(f"{fence}{language}\n{text}\n{fence}")  # noqa: S704  # a block escapes nothing


def _versions(publication: Publication) -> Markup:
    rows: list[Sequence[str]] = []
    for pin in publication.pins:
        where = f"{pin.system}/{pin.name}"
        rows += [(name, version, where) for name, version in _sources(pin.literals)]
        packages = pin.lock.packages
        lock = f"{pin.folder}/lock.txt"
        rows += [(name, packages[name], lock) for name in PACKAGES if name in packages]
    rows.append(("TrainBench", publication.settings.trainbench, ""))
    return Markup(markdown(("repo", "commit or version", "of"), rows))  # noqa: S704


def _sources(literals: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Yield each repository that a pin set names, with its commit."""
    for value in (literals or {}).values():
        if isinstance(value, Mapping):
            if "repository" in value and "commit" in value:
                yield str(value["repository"]), str(value["commit"])
            else:
                yield from _sources(value)

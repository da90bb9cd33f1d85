"""The publication's README.md: the facts that torchtitan's benchmarks folder asks for. Pure, except
reading the template.

pytorch/torchtitan, benchmarks/README.md, "Submission Guidelines": entity, model or theme, hardware,
report with training configurations, versions and dates, notes that help to reproduce.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jinja2
from markupsafe import Markup

from runner.archive.publication import UNTOLD, Publication
from runner.base.escapes import MarkdownText
from runner.base.masking import Masks
from runner.base.paths import TEMPLATES
from runner.base.text import counted
from runner.plan.script import quoted
from runner.tables.campaign_table import to_markdown
from runner.tables.environment_facts import environment_section, facts_as_text
from runner.tables.row import PUBLISHABLE
from runner.tables.text import markdown
from runner.terms.run import Run

PACKAGES = ("torch", "torchao", "torchtitan", "deepspeed", "numpy")  # that the README names


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

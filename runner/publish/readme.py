"""The publication's README.md: the facts that torchtitan's benchmarks folder asks for. Pure.

pytorch/torchtitan, benchmarks/README.md, "Submission Guidelines": entity, model or theme, hardware,
report with training configurations, versions and dates, notes that help to reproduce.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runner.base.escapes import MarkdownText
from runner.base.masking import Masks
from runner.base.text import counted
from runner.plan.script import quoted
from runner.publish.publication import UNTOLD, Publication
from runner.tables.environment_facts import environment_section, facts_as_text
from runner.tables.markdown import bulleted, piped, to_markdown
from runner.terms.run import Run

MOST_COMMANDS = 40  # of cells whose command is written out; launch.sh of each run has all


def file_name(publication: Publication) -> str:
    """Return the name that torchtitan wants: `[model/theme]_[hardware]_[date/time]_[entity].md`."""
    hardware = "+".join(publication.devices) or "unknown"
    day = publication.day.replace("-", "") or "undated"
    parts = (publication.theme, hardware, day, publication.entity or "unnamed")
    return "_".join(re.sub(r"[^A-Za-z0-9.+-]+", "-", field).strip("-") for field in parts) + ".md"


def readme(publication: Publication) -> str:
    """Write it."""
    return "\n".join(_lines(publication)) + "\n"


def _lines(publication: Publication) -> Iterator[str]:
    entity = MarkdownText(publication.entity) if publication.entity else f"{UNTOLD} (`--entity`)"
    yield f"# {MarkdownText(publication.name)}"
    yield ""
    yield f"Entity: {entity}. Measured: {publication.day or 'on an unknown day'}."
    yield ""
    if publication.refused:
        yield from _refused(publication)
    if publication.settings.imported:
        yield "**Unofficial**: the runs were imported from logs, and nobody checked their machines."
        yield ""
    yield "### Models"
    yield ""
    yield MarkdownText(publication.theme)
    yield ""
    yield "### Hardware"
    yield ""
    yield from _hardware(publication)
    yield "### Configuration"
    yield ""
    yield from _configuration(publication)
    yield "### Results"
    yield ""
    yield to_markdown(publication.table)
    yield "### Versions and Dates"
    yield ""
    yield from _versions(publication)
    yield "### Notes"
    yield ""
    yield from _notes(publication)


def _refused(publication: Publication) -> Iterator[str]:
    count = f"{len(publication.refused)} of {len(publication.table)} cells"
    yield f"**Not publishable**: {count}, by the campaign's own measure. They are published anyway:"
    yield ""
    yield bulleted(MarkdownText(refusal.words) for refusal in publication.refused)
    yield ""


def _hardware(publication: Publication) -> Iterator[str]:
    records = [record for row in publication.table for record in row.records]
    nodes = {host for record in records for host in record.hosts}
    facts = facts_as_text(environment_section(records))
    lines = [
        f"{counted(len(nodes), 'node')}: {', '.join(publication.devices) or UNTOLD}",
        *(f"{name}: {value}" for name, value in facts.items()),
    ]
    yield bulleted(map(MarkdownText, lines))
    yield ""


def _configuration(publication: Publication) -> Iterator[str]:
    yield "Each run's folder has what every node executed: `run.json` (argv and variables, exact)"
    yield "and `launch.sh` (the same for a shell). Node rank 0 of each cell:"
    yield ""
    rows = [row for row in publication.table if row.record.cell_id in publication.runs]
    for row in rows[:MOST_COMMANDS]:
        run = publication.runs[row.record.cell_id]
        mark = "" if row.publishable else " (not publishable)"
        yield f"{MarkdownText(row.cell)}, {_nodes(run)}{mark}:"
        yield ""
        yield fenced(command(run), "bash")
        yield ""
    if len(rows) > MOST_COMMANDS:
        yield f"{len(rows) - MOST_COMMANDS} more cells: see their `launch.sh`."
        yield ""
    if not rows:
        yield "No run has a recorded command."
        yield ""


def _nodes(run: Run) -> str:
    count = len(run.nodes)
    devices = run.cell.devices_per_node
    return f"{counted(count, 'node')} with {counted(devices, 'device')}"


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


def fenced(text: str, language: str = "") -> str:
    """Put a text into a block of code, which nothing in it can end."""
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _versions(publication: Publication) -> Iterator[str]:
    rows: list[Sequence[MarkdownText]] = []
    for pin in publication.pins:
        rows += [
            (MarkdownText(name), MarkdownText(version), MarkdownText(f"{pin.system}/{pin.name}"))
            for name, version in _sources(pin.literals)
        ]
        packages = pin.lock.packages
        rows += [
            (
                MarkdownText(name),
                MarkdownText(packages[name]),
                MarkdownText(f"{pin.folder}/lock.txt"),
            )
            for name in ("torch", "torchao", "torchtitan", "deepspeed", "numpy")
            if name in packages
        ]
    rows.append(
        (
            MarkdownText("TrainBench"),
            MarkdownText(publication.settings.trainbench),
            MarkdownText(""),
        )
    )
    yield piped([MarkdownText(word) for word in ("repo", "commit or version", "of")], rows)
    yield ""
    for pin in publication.pins:
        where = MarkdownText(f"{pin.system}/{pin.name}")
        if pin.lock.missing:
            yield f"- packages of {where}: not known; {MarkdownText(pin.lock.missing)}"
        if pin.other:
            yield f"- {where}: {MarkdownText(pin.other)}"
    yield ""


def _sources(literals: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Yield each repository that a pin set names, with its commit."""
    for value in (literals or {}).values():
        if isinstance(value, Mapping):
            if "repository" in value and "commit" in value:
                yield str(value["repository"]), str(value["commit"])
            else:
                yield from _sources(value)


def _notes(publication: Publication) -> Iterator[str]:
    yield "- `trainbench collect --campaign FILE` reads the bundle as it reads a campaign."
    yield "- `trainbench bench tables/matrix.yaml -i INVENTORY --only CELL` runs a cell on your own"
    yield "  nodes; `--dry-run` shows what it would execute."
    yield "- `manifest.json` has each file's SHA-256, `publication.json` each cell's verdict,"
    yield "  `environment/` pins, packages, patches."
    if publication.redacted:
        yield "- Names of hosts and users, and addresses, were replaced (`--redact`)."

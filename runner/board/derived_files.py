"""What a bundle contains that is made of its logs: made again here, and compared."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from node.parsing import parse
from node.printable import printable
from node.schema import MOST_DEPTH, MOST_ITEMS, Plain, UnfitError
from runner.archive.export import Gathered, gathered
from runner.board.bundle_file import OpenBundle
from runner.board.refusal import Refusal
from runner.publish.bundle import FACTS, bundle_of
from runner.report.formats import render
from runner.tables.formatting import value_text

RELATIVE = 1e-6  # another machine's numpy may add in another order
MOST_SHOWN = 5
TABLE = "tables/table.json"
REPORT = "tables/report.html"
_PLOT = re.compile(r"<svg\b.*?</svg>", re.DOTALL)
_ANY = Plain(MOST_DEPTH, MOST_ITEMS, lines=True)


def entity_of(bundle: OpenBundle) -> str:
    """Return who publishes it, as publication.json says; "" where it does not."""
    facts = _facts(bundle)
    entity = facts.get("entity")
    return printable(entity).strip()[:200] if isinstance(entity, str) else ""


def _facts(bundle: OpenBundle) -> Mapping[str, Any]:
    try:
        facts = parse((bundle.campaign.path / FACTS).read_bytes(), _ANY, FACTS)
    except (UnfitError, OSError):
        return {}
    return facts if isinstance(facts, dict) else {}


def wrong_figures(bundle: OpenBundle) -> Iterator[Refusal]:
    """Yield the figures of the bundle's table that its logs do not give."""
    try:
        table = parse((bundle.campaign.path / TABLE).read_bytes(), _ANY, TABLE)
        rows = {str(row["cell_id"]): row for row in table["rows"]}
    except (UnfitError, OSError, KeyError, TypeError):
        yield Refusal("figures", f"{TABLE} cannot be read as `publish` writes it")
        return
    again = json.loads(render(bundle.document, "json"))
    differences = []
    for row in again["rows"]:
        theirs = rows.pop(row["cell_id"], None)
        if theirs is None:
            differences.append(f"{row['cell']} is not in {TABLE}")
            continue
        differences += [
            f"{row['cell']}: {key} is {value_text(theirs[key])} in {TABLE},"
            f" {value_text(row[key])} by its logs"
            for key in row
            if key in theirs and not isinstance(row[key], list | dict)
            if not _alike(row[key], theirs[key])
        ]
    differences += [f"{TABLE} has a cell that did not run: {name}" for name in rows]
    more = f" (and {len(differences) - MOST_SHOWN} more)" if len(differences) > MOST_SHOWN else ""
    if differences:
        yield Refusal("figures", printable("; ".join(differences[:MOST_SHOWN]) + more))


def edited_files(bundle: OpenBundle) -> Iterator[Refusal]:
    """Yield the files that differ from what `publish` makes of the same campaign here."""
    folder = bundle.campaign.path
    # What publish adds is no part of the campaign, and is made of it once more.
    with gathered(bundle.campaign, redact=False) as gathered_files:
        redacted = bundle.campaign.settings.redacted
        texts = dict(
            bundle_of(gathered_files, entity_of(bundle), redacted=redacted, anyway=True).texts
        )
        texts |= {name: path.read_text("utf-8") for name, path in _tables(gathered_files).items()}
        changed = [name for name, text in texts.items() if not _same(folder / name, name, text)]
    if changed:
        names = ", ".join(sorted(changed)[:MOST_SHOWN])
        yield Refusal(
            "edited",
            f"{names}: not what this version of TrainBench makes of the logs; publish again",
        )


def _tables(gathered_files: Gathered) -> dict[str, Path]:
    """Return the tables that were made, by their names in a bundle."""
    return {
        name: path
        for name, path in gathered_files.files.items()
        if gathered_files.folder in path.parents
    }


def _same(path: Path, name: str, text: str) -> bool:
    try:
        theirs = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    if name == REPORT:  # plots are drawn by matplotlib, whose versions differ in details
        return _PLOT.sub("", theirs) == _PLOT.sub("", text)
    if name.endswith(".json"):
        try:
            return _alike(json.loads(theirs), json.loads(text))
        except ValueError:
            return False
    return theirs == text


def _alike(value: Any, expected: Any) -> bool:
    """Return whether two values of JSON are the same, numbers within RELATIVE."""
    if isinstance(value, dict) and isinstance(expected, dict):
        return value.keys() == expected.keys() and all(
            _alike(value[key], expected[key]) for key in value
        )
    if isinstance(value, list) and isinstance(expected, list):
        return len(value) == len(expected) and all(map(_alike, value, expected))
    numbers = (int, float)
    if isinstance(value, numbers) and isinstance(expected, numbers) and not isinstance(value, bool):
        return math.isclose(value, expected, rel_tol=RELATIVE, abs_tol=1e-12)
    return type(value) is type(expected) and bool(value == expected)

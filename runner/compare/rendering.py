"""A comparison as text: for a terminal, for Markdown (a pull request's comment), as JSON, as JUnit
XML (a CI system's list of tests).
"""

from dataclasses import asdict
from xml.etree import ElementTree

from node.printable import printable
from runner.base.escapes import MarkdownText, json_text
from runner.base.grid import filled, fits, grid
from runner.base.text import counted
from runner.compare.quantity import CANNOT_TELL, Measure
from runner.compare.verdicts import VERDICTS, CampaignComparison, ComparedCell
from runner.tables import text
from runner.tables.columns import JUDGED, title
from runner.tables.formatting import MISSING, number_text, short_digests


def to_table(comparison: CampaignComparison, width: int) -> str:
    """Write it for a terminal of that many columns: where a row per cell is too wide, a line per
    quantity below the cell's name.
    """
    headers, rows = _headers(comparison), _rows(comparison)
    table = grid(headers, rows, width) if fits(headers, rows, width) else _long(comparison)
    below = [*_below(comparison), _summary(comparison)]
    parts = ["\n".join(filled(line, width) for line in _above(comparison)), table]
    parts.append("\n".join(filled(line, width) for line in below))
    return "\n\n".join(section for section in parts if section) + "\n"


def to_markdown(comparison: CampaignComparison) -> str:
    """Write a heading, what differs, a table and notes."""
    title, *above = _above(comparison)
    parts = [
        f"### {MarkdownText(title)}",
        f"**{MarkdownText(_summary(comparison))}**",
        text.bulleted(above),
        text.markdown(_headers(comparison), _rows(comparison)),
        text.bulleted(_below(comparison)),
    ]
    return "\n\n".join(section for section in parts if section) + "\n"


def to_json(comparison: CampaignComparison) -> str:
    """Write one JSON object, indented; docs/runs.md has its keys."""
    document = {
        "schema": 1,
        "a": comparison.a,
        "b": comparison.b,
        "rule": comparison.rule,
        "thresholds_percent": dict(comparison.thresholds),
        "regressions": comparison.regressions,
        "cannot_tell": comparison.untold,
        "environment": [{"key": key, "a": a, "b": b} for key, a, b in comparison.environment],
        "notes": list(comparison.notes),
        "cells": [{**asdict(cell), "regressed": cell.regressed} for cell in comparison.cells],
    }
    return json_text(document) + "\n"


# Verdicts that are no result, and why; each cell's notes say more.
_NO_RESULT = {
    CANNOT_TELL: "the runs vary too much, or are too few, to tell",
    "not_ok": "it did not end ok on either side",
    "running": "it runs now",
    "left_out": "the second campaign left it out",
    "appeared": "the first campaign has no result of it",
}


def to_junit(comparison: CampaignComparison) -> str:
    """Write JUnit XML: a test case for each cell, which fails where the second is worse and is
    skipped where there is no result.
    """
    cells = comparison.cells
    counts = {
        "tests": len(cells),
        "failures": comparison.regressions,
        "errors": 0,
        "skipped": sum(cell.verdict in _NO_RESULT for cell in cells),
    }
    name = printable(f"{comparison.b} against {comparison.a}")
    attributes = {"name": name, **{key: str(count) for key, count in counts.items()}}
    top = ElementTree.Element("testsuites", attributes)
    suite = ElementTree.SubElement(top, "testsuite", attributes)
    for cell in cells:
        _test_case(suite, cell, classname=printable(comparison.b))
    notes = ElementTree.SubElement(suite, "system-out")
    notes.text = "\n".join([*_above(comparison), *_below(comparison), _summary(comparison)])
    ElementTree.indent(top)
    content: bytes = ElementTree.tostring(top, "utf-8", xml_declaration=True)
    return content.decode() + "\n"


def _test_case(suite: ElementTree.Element, cell: ComparedCell, classname: str) -> None:
    names = {"classname": classname, "name": printable(cell.name)}
    case = ElementTree.SubElement(suite, "testcase", names)
    notes = [*map(printable, cell.notes)]
    figures = []
    for name, measure in cell.measures.items():
        values, change = _pair(name, measure)
        figures.append(f"{title(name)} {values.replace(', ', ' → ')}: {change}")
    if cell.regressed:
        changed = [
            text
            for text, measure in zip(figures, cell.measures.values(), strict=True)
            if measure.verdict != "same"
        ]
        why = "; ".join([_verdict(cell), *(changed or notes)])
        failure = ElementTree.SubElement(case, "failure", type=cell.verdict, message=why)
        failure.text = "\n".join([*figures, *notes])
    elif cell.verdict in _NO_RESULT:
        why = "; ".join([f"{cell.verdict}: {_NO_RESULT[cell.verdict]}", *notes])
        ElementTree.SubElement(case, "skipped", message=why)
    ElementTree.SubElement(case, "system-out").text = "\n".join([_verdict(cell), *figures, *notes])


def _above(comparison: CampaignComparison) -> list[str]:
    lines = [f"{comparison.b} against {comparison.a}"]
    lines += [short_digests(f"{key}: {a}, then {b}") for key, a, b in comparison.environment]
    return [*map(printable, (*lines, *comparison.notes))]


def _headers(comparison: CampaignComparison) -> list[str]:
    names = [f"{title(name)} was, is" for name in _names(comparison)]
    return ["verdict", "cell", *(header for name in names for header in (name, "change"))]


def _names(comparison: CampaignComparison) -> list[str]:
    """Return the quantities that any cell has on both sides."""
    return [name for name in JUDGED if any(name in cell.measures for cell in comparison.cells)]


def _rows(comparison: CampaignComparison) -> list[list[str]]:
    names = _names(comparison)
    return [
        [
            _verdict(cell),
            printable(cell.name),
            *(text for name in names for text in _pair(name, cell.measures.get(name))),
        ]
        for cell in comparison.cells
    ]


def _long(comparison: CampaignComparison) -> str:
    lines = []
    for cell in comparison.cells:
        lines.append(f"{_verdict(cell)}: {printable(cell.name)}")
        lines += ["  ".join(("", title(n), *_pair(n, each))) for n, each in cell.measures.items()]
    return "\n".join(lines)


def _verdict(cell: ComparedCell) -> str:
    word = cell.verdict.upper() if cell.regressed else cell.verdict
    if cell.status_a == cell.status_b or None in (cell.status_a, cell.status_b):
        return word if cell.status_a in ("ok", None) else f"{word} ({cell.status_a})"
    return f"{word} ({cell.status_a}, then {cell.status_b})"


def _pair(name: str, measure: Measure | None) -> tuple[str, str]:
    if measure is None:
        return MISSING, MISSING
    values = ", ".join(
        number_text(value, JUDGED[name].decimals) for value in (measure.a, measure.b)
    )
    change = f"{measure.difference_percent:+.1f}%"
    if measure.noise_percent:
        change += f" ±{measure.noise_percent:.1f}"
    mark = "" if measure.verdict == "same" else f" {measure.verdict}"
    return values, change + mark


def _below(comparison: CampaignComparison) -> list[str]:
    limits = ", ".join(
        f"{title(name)} {limit:g} %" for name, limit in comparison.thresholds.items()
    )
    lines = [f"{comparison.rule}; thresholds: {limits}; ±: the larger half of that interval"]
    steps = sorted({n for cell in comparison.cells for n in (cell.steps_a, cell.steps_b) if n})
    if steps:
        steps_text = f"{steps[0]}" if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
        lines.append(f"over {steps_text} steps per cell")
    lines += [
        f"{printable(cell.name)}: {printable('; '.join(cell.notes))}"
        for cell in comparison.cells
        if cell.notes
    ]
    return lines


def _summary(comparison: CampaignComparison) -> str:
    verdicts = [cell.verdict for cell in comparison.cells]
    counts = ", ".join(f"{verdicts.count(word)} {word}" for word in VERDICTS if word in verdicts)
    count = comparison.regressions
    total = "no regression" if not count else counted(count, "regression")
    return f"{total}: {counts}"

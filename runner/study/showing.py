"""Any answer as text: for a terminal, as Markdown, for a machine, for a CI system. Pure."""

import json
from collections.abc import Iterator
from xml.etree import ElementTree

from node.printable import printable
from runner.base.escapes import MarkdownText, TerminalLine, json_text
from runner.base.grid import aligned
from runner.study.study import Answer, AnswerTable
from runner.tables import text

LONGEST = 100  # letters of a cell


def to_text(answer: Answer, form: str, width: int = 0) -> str:
    """Write the answer as table, markdown or json."""
    if form == "json":
        return json_text(json.loads(json.dumps(answer.to_json()))) + "\n"
    shown = answer.shown(form, width) if answer.shown else ""
    if form == "markdown":
        parts = [
            f"**{MarkdownText(answer.sentence)}**",
            text.bulleted(map(printable, answer.notes)),
        ]
        parts += [shown, *(_markdown(table) for table in answer.tables)]
        return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"
    lines = [answer.sentence, *(f"  {note}" for note in answer.notes)]
    for table in answer.tables:
        lines += ["", *_terminal(table)] if table.rows else []
    above = f"{shown}\n" if shown else ""
    return above + "".join(f"{TerminalLine(line)}\n" for line in lines)


def _terminal(table: AnswerTable) -> Iterator[str]:
    yield from [f"{table.title}:", ""] if table.title else []
    rows = _texts(table)
    yield from aligned(rows[: table.most], "simple", tuple(table.columns.values())).splitlines()
    if len(rows) > table.most:
        yield f"and {len(rows) - table.most} more, in --format markdown"


def _markdown(table: AnswerTable) -> str:
    if not table.rows:
        return ""
    head = f"{MarkdownText(table.title)}:\n\n" if table.title else ""
    return head + text.markdown(tuple(table.columns.values()), _texts(table))


def _texts(table: AnswerTable) -> list[list[str]]:
    return [[_word(row.get(key)) for key in table.columns] for row in table.rows]


def _word(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    word = "" if value is None else printable(str(value))
    return word if len(word) <= LONGEST else f"{word[: LONGEST - 1]}…"


def to_junit(answer: Answer) -> str:
    """Write JUnit XML: one test case, with an error where there is no answer."""
    if answer.shown:
        return answer.shown("junit", 0)
    failed = bool(answer.exit_code)
    counts = {"name": printable(answer.sentence), "tests": "1", "failures": "0"}
    counts["errors"] = str(int(failed))
    top = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(top, "testsuite", counts)
    case = ElementTree.SubElement(suite, "testcase", classname=answer.kind, name=counts["name"])
    if failed:
        words = "; ".join(map(printable, answer.notes)) or counts["name"]
        ElementTree.SubElement(case, "error", message=words).text = words
    ElementTree.indent(top)
    content: bytes = ElementTree.tostring(top, "utf-8", xml_declaration=True)
    return content.decode() + "\n"

"""The answer of `ci` as text: for a terminal, a pull request's comment, a machine, a CI system."""

import json
from xml.etree import ElementTree

from node.printable import printable
from runner.base.escapes import MarkdownText, json_text
from runner.compare import rendering
from runner.tables.text import bulleted
from runner.versions.ci_session import CiResult

CODES = {"same": 0, "better": 0, "worse": 1, "cannot_tell": 3, "failed": 4}
WORDS = {
    "same": "no difference that counts",
    "better": "better",
    "worse": "worse",
    "cannot_tell": "cannot tell: the runs vary too much, or are too few",
    "failed": "failed: there is nothing to compare",
}


def to_text(result: CiResult, title: str, form: str, width: int) -> str:
    """Write the answer as table, markdown or json."""
    comparison, verdict = result.comparison, result.verdict
    if form == "json":
        document = {
            "schema": 1,
            "verdict": verdict,
            "exit_code": CODES[verdict],
            "failed": [*result.failed],
            "comparison": json.loads(rendering.to_json(comparison)) if comparison else None,
        }
        return json_text(document) + "\n"
    if form == "markdown":
        head = f"**{MarkdownText(f'{title}: {WORDS[verdict]}')}**\n\n"
        if comparison is None:
            return head + bulleted(map(printable, result.failed)) + "\n"
        return head + rendering.to_markdown(comparison)
    head = f"{printable(title)}: {WORDS[verdict]}\n"
    if comparison is None:
        return head + "".join(f"  {printable(line)}\n" for line in result.failed)
    return f"{rendering.to_table(comparison, width)}\n{head}"


def to_junit(result: CiResult, title: str) -> str:
    """Write JUnit XML: a test case per cell; an error where nothing can be compared."""
    if result.comparison is not None:
        return rendering.to_junit(result.comparison)
    counts = {"name": printable(title), "tests": "1", "failures": "0", "errors": "1"}
    top = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(top, "testsuite", counts)
    case = ElementTree.SubElement(suite, "testcase", classname="ci", name=printable(title))
    error = ElementTree.SubElement(case, "error", message="; ".join(map(printable, result.failed)))
    error.text = "\n".join(map(printable, result.failed))
    ElementTree.indent(top)
    content: bytes = ElementTree.tostring(top, "utf-8", xml_declaration=True)
    return content.decode() + "\n"

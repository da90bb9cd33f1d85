"""The templates of pages, with what every one may use: all that they are given is escaped.

Their own script, and the content security policy that lets it run, and nothing else.
"""

import base64
import hashlib
import re
from collections.abc import Sequence

import jinja2
from markupsafe import Markup

from runner.base.escapes import TerminalLine, TerminalText
from runner.base.paths import TEMPLATES
from runner.report.details import bytes_text


def templates() -> jinja2.Environment:
    """Return the templates of pages, which escape everything except our own SVG and scripts."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_printable,
    )
    environment.filters |= {"breakable": breakable, "grouped": grouped, "size": bytes_text}
    return environment


def _printable(value: object) -> object:
    """Leave out of what the templates write what no page should hold; they escape it then."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return TerminalText(value)
    return value


def breakable(text: str) -> Markup:
    """Escape `text`, with a possible line break after each sign that joins words."""
    return Markup("<wbr>").join(re.findall(r"[^-_,./=]*[-_,./=]?", TerminalLine(text)))


def grouped(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Group facts by what they belong to: [("a / b", "1")] -> [("a", [("b", "1")])], loose ones
    first.
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    for key, value in pairs:
        group, _, name = key.rpartition(" / ")
        groups.setdefault(group, []).append((name, value))
    return sorted(groups.items(), key=lambda item: item[0] != "")


def page_script() -> Markup:
    """Return templates/page/page.js, as text for between <script> and </script>."""
    return Markup((TEMPLATES / "page" / "page.js").read_text(encoding="utf-8"))  # noqa: S704 (our own)


def content_policy(scripts: Sequence[str]) -> Markup:
    """Return a page's policy: no request; styles inline; these scripts alone, by their checksums.

    `img-src data:` is the empty icon, without which a browser asks for one.
    """
    sums = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    rules = ["default-src 'none'", "style-src 'unsafe-inline'", "img-src data:"]
    rules += ["base-uri 'none'", "form-action 'none'"]
    if sums:
        rules.append(" ".join(["script-src", *(f"'sha256-{digest}'" for digest in sums)]))
    return Markup("; ".join(rules))  # noqa: S704 (of words of ours)

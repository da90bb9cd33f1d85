"""The pages' own scripts, and the content security policy that lets them run, and nothing else."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from markupsafe import Markup

from runner.base.escapes import json_text
from runner.base.paths import TEMPLATES


def page_script() -> Markup:
    """Return templates/page/page.js, as it stands between <script> and </script>."""
    return _script("page.js")


def live_script() -> Markup:
    """Return templates/page/live.js: what a report has besides while it is served."""
    return _script("live.js")


def site_script() -> Markup:
    """Return templates/site/compare.js: two campaigns of a site that a person picks."""
    return _script("compare.js", "site")


@cache
def _script(name: str, folder: str = "page") -> Markup:
    return Markup((TEMPLATES / folder / name).read_text(encoding="utf-8"))  # noqa: S704 (our own)


def script_data(data: Any) -> Markup:
    """Write JSON that may stand in a script element, which only `</script` and `<!--` could end."""
    return Markup(json_text(data, indent=0).replace("<", "\\u003c"))  # noqa: S704 (no sign of HTML)


def content_policy(scripts: Sequence[str], *, live: bool = False) -> Markup:
    """Return a page's policy: no request, unless it is `live`, to its server; styles inline; these
    scripts alone, by their checksums.

    `img-src data:` is the empty icon, without which a browser asks for one.
    """
    sums = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    rules = ["default-src 'none'", "style-src 'unsafe-inline'", "img-src data:"]
    rules += ["base-uri 'none'", "form-action 'none'"]
    if sums:
        rules.append(" ".join(["script-src", *(f"'sha256-{digest}'" for digest in sums)]))
    if live:
        rules.append("connect-src 'self'")
    return Markup("; ".join(rules))  # noqa: S704 (of words of ours)

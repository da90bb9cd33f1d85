"""What a report has besides while it is served: its script, and what the script may do."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache

from markupsafe import Markup

from runner.base.paths import TEMPLATES


@cache
def live_script() -> Markup:
    """Return the script, which is ours."""
    return Markup((TEMPLATES / "page" / "live.js").read_text(encoding="utf-8"))  # noqa: S704


def policy(scripts: Sequence[str], *, live: bool = False) -> Markup:
    """Return a page's content security policy: no request, unless it is served, to its server; of
    scripts these alone.
    """
    sums = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    rules = ["default-src 'none'", "style-src 'unsafe-inline'", "img-src data:"]
    if sums:
        rules.append(" ".join(["script-src", *(f"'sha256-{digest}'" for digest in sums)]))
    if live:
        rules.append("connect-src 'self'")
    return Markup("; ".join(rules))  # noqa: S704  # of words of ours

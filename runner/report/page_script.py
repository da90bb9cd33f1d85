"""The pages' own scripts, and the content security policy that lets them run, and nothing else."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache

from markupsafe import Markup

from runner.base.paths import TEMPLATES


def page_script() -> Markup:
    """Return templates/page/page.js, as text for between <script> and </script>."""
    return _script("page.js")


@cache
def _script(name: str) -> Markup:
    return Markup((TEMPLATES / "page" / name).read_text(encoding="utf-8"))  # noqa: S704 (our own)


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

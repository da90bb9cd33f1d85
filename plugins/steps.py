"""What a playbook is doing, a line of JSON each, for who started it (runner/launch/steps.py)."""

import json
import os
from dataclasses import asdict
from typing import Any

from node.printable import printable_lines
from runner.terms.progress import MOST_WORDS, VARIABLE, Told


def tell(event: str, **more: Any) -> None:
    """Add a line; each is one write, so that those of several processes do not mix."""
    if path := os.environ.get(VARIABLE):
        more["words"] = printable_lines(more.get("words", ""))[:MOST_WORDS]
        line = json.dumps(asdict(Told(event, **more))) + "\n"
        with open(path, "ab", buffering=0) as file:
            file.write(line.encode())


def subject(spec: Any) -> str:
    """What a program is about to do on a node, by its spec: a step's words, or a file's name."""
    if not isinstance(spec, dict):
        return ""
    do = spec.get("do")
    title = do.get("words") if isinstance(do, dict) else None
    return str(title or str(spec.get("url") or "").rpartition("/")[2])

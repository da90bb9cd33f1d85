"""What a playbook is doing, a line of JSON each, for who runs it (runner/launch/playbook.py).

{"now": words}         what goes on, from now on
{"text": words}        for a person, as it is
{"step": ...}          what a step came to on a node, a `StepOnHost`
{"end": true}          all of the playbook was run
"""

import json
import os
from typing import Any

from node.printable import printable_lines
from runner.terms.printed_answers import STEPS

MOST_WORDS = 100_000


def tell(**said: Any) -> None:
    """Add a line; each is one write, so that those of several processes do not mix."""
    if path := os.environ.get(STEPS):
        with open(path, "ab", buffering=0) as file:
            file.write(json.dumps(said).encode() + b"\n")


def words(text: Any) -> str:
    """Return text that may be a node's, printable and of bounded length."""
    return printable_lines(str(text))[:MOST_WORDS]


def subject(spec: Any) -> str:
    """What a program is about to do on a node, by its spec: a step's words, or a file's name."""
    if not isinstance(spec, dict):
        return ""
    do = spec.get("do")
    title = do.get("words") if isinstance(do, dict) else None
    return str(title or str(spec.get("url") or "").rpartition("/")[2])

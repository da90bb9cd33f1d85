"""The command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from .look import look, verify
from .spec import Spec, StateError


def step(word: str) -> Callable[[Spec], dict[str, Any]]:
    """What a word of the command line does."""
    if word in ("look", "verify"):
        return look if word == "look" else verify
    # what is not imported is not compiled, and a look is asked far more often than a step
    from . import steps

    return {
        "begin": steps.begin,
        "key": steps.key,
        "wanted": steps.wanted,
        "finish": lambda spec: steps.finish(spec, whole=True),
        "account": lambda spec: steps.finish(spec, whole=False),
        "undo": steps.plan_removal,
        "forget": steps.forget,
    }[word]


def main() -> int:
    """Run the command line."""
    try:
        print(json.dumps(step(sys.argv[1])(json.load(sys.stdin)), sort_keys=True))
    except (StateError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0

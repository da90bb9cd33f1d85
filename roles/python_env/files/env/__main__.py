"""The command line: one command, its SPEC on standard input, its answer as JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from .environment import EnvError, Environment
from .look import look, verify

if TYPE_CHECKING:
    from collections.abc import Callable

    from .pins import Spec


def command(name: str) -> Callable[[Environment], Spec]:
    """What the command does; what changes an environment is compiled for that alone."""
    if name in ("look", "verify"):
        return {"look": look, "verify": verify}[name]
    from .change import create, step

    return {"create": create, "step": step}[name]


def main() -> int:
    """Run the command line; the exit code."""
    try:
        said = command(sys.argv[1])(Environment(json.load(sys.stdin)))
    except (EnvError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(said, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())

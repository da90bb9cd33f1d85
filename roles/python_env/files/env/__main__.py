"""The command line: one command, its SPEC on standard input, its answer as JSON."""

from __future__ import annotations

import json
import sys

from .change import create, step
from .environment import EnvError, Environment
from .look import look, verify

COMMANDS = {"look": look, "create": create, "step": step, "verify": verify}


def main() -> int:
    """Run the command line; the exit code."""
    try:
        said = COMMANDS[sys.argv[1]](Environment(json.load(sys.stdin)))
    except (EnvError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(said, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())

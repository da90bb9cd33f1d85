"""The command line: SPEC is its one word, the facts one line of JSON."""

from __future__ import annotations

import json
import sys

from .machine import Machine
from .record import leave, read


def main() -> int:
    """Read and print; the exit code."""
    spec = json.loads(sys.argv[1])
    facts = read(Machine(), spec)
    if spec.get("write"):
        leave(facts, spec["root"])
    print("TRAINBENCH " + json.dumps(facts, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Whether an environment imports modules.

    <env>/bin/python3 -c <this> < SPEC

SPEC is JSON: modules. Runs by the environment's own Python, 3.6 or newer. Exits 0, or 1 with a line
a module on stderr.
"""

import importlib
import json
import sys


def main() -> int:
    """Run the command line; the exit code."""
    bad = []
    for name in json.load(sys.stdin)["modules"]:
        try:
            importlib.import_module(name)
        except Exception as error:  # whatever a module raises is why it cannot be used
            first = (str(error).splitlines() or [""])[0]
            bad.append(f"import {name} fails: {type(error).__name__}: {first}")
    if bad:
        print("\n".join(bad), file=sys.stderr)
        return 1
    print(json.dumps({}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Whether an environment's apex imports, with the extensions that were asked for.

    <env>/bin/python3 -c <this> < SPEC

SPEC is JSON: extensions (cpp_ext, cuda_ext and others as in apex's setup.py). Runs by the
environment's own Python, 3.7 or newer. Exits 0, or 1 with one line on stderr.
"""

from __future__ import annotations

import importlib
import json
import sys

# What an extension's option builds: one compiled module of it stands for all.
MODULES = {"cpp_ext": "apex_C", "cuda_ext": "amp_C"}


def main() -> int:
    """Run the command line; the exit code."""
    extensions = json.load(sys.stdin)["extensions"]
    try:
        importlib.import_module("torch")  # the extensions link with its libraries
        for name in ["apex", *(MODULES[each] for each in extensions if each in MODULES)]:
            importlib.import_module(name)
    except Exception as error:  # whatever it raises is why it cannot be used
        first = (str(error).splitlines() or [""])[0]
        print(f"import fails: {type(error).__name__}: {first}", file=sys.stderr)
        return 1
    print(json.dumps({}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

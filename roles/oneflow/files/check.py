"""Whether an environment's OneFlow imports.

    <env>/bin/python3 -c <this> < SPEC

SPEC is JSON and may be {}. Prints its version, and whether it was built for CUDA where it can say
so. Runs by the environment's own Python, 3.7 or newer. Exits 0, or 1 with one line on stderr.
"""

from __future__ import annotations

import importlib
import json
import sys


def main() -> int:
    """Run the command line; the exit code."""
    json.load(sys.stdin)
    try:
        oneflow = importlib.import_module("oneflow")
    except Exception as error:  # whatever it raises is why it cannot be used
        first = (str(error).splitlines() or [""])[0]
        print(f"import fails: {type(error).__name__}: {first}", file=sys.stderr)
        return 1
    with_cuda = getattr(getattr(oneflow, "sysconfig", None), "with_cuda", None)
    cuda = with_cuda() if with_cuda else None
    print(json.dumps({"oneflow": str(oneflow.__version__), "with_cuda": cuda}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

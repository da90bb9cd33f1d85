"""Whether an environment's torch is the one wanted, asked by importing it.

    <env>/bin/python3 -c <this> < SPEC

SPEC is JSON: version (such as 1.10.1+cu113), family (further modules), device. Prints what torch
says of itself. Runs by the environment's own Python, 3.7 or newer. Exits 0, or 1 with one line on
stderr.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def faults(spec: dict[str, Any], have: str, cuda: str | None, available: bool) -> list[str]:
    """What is wrong, in words, with torch's version, its build's CUDA, and its devices."""
    found = []
    wanted = spec["version"]
    if have != wanted and ("+" in wanted or have.partition("+")[0] != wanted):
        found.append(f"torch is {have}, not {wanted}")
    local = wanted.partition("+")[2]
    if local.startswith("cu") and cuda != f"{local[2:-1]}.{local[-1]}":
        found.append(f"torch is built for CUDA {cuda}, not {local[2:-1]}.{local[-1]}")
    if spec["device"] == "cuda" and cuda is None:
        found.append("torch is a build without CUDA, and the nodes train on CUDA")
    elif spec["device"] == "cuda" and not available:
        found.append("torch sees no CUDA device; see nvidia-smi")
    return found


def main() -> int:
    """Run the command line; the exit code."""
    spec = json.load(sys.stdin)
    try:
        torch = importlib.import_module("torch")
        for name in spec["family"]:
            importlib.import_module(name)
    except Exception as error:  # whatever it raises is why it cannot be used
        first = (str(error).splitlines() or [""])[0]
        print(f"import fails: {type(error).__name__}: {first}", file=sys.stderr)
        return 1
    have, cuda = str(torch.__version__), torch.version.cuda
    found = faults(spec, have, cuda, torch.cuda.is_available())
    if found:
        print("; ".join(found), file=sys.stderr)
        return 1
    print(json.dumps({"torch": have, "cuda": cuda}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

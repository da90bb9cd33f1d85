"""Run a program that came on standard input, so that none has to lie on a node.

    python3 -I -c "$(cat loader.py)" < JOB

JOB is JSON: modules (pairs of name and source, in the order of their imports), main (the module to
run) and spec, which its ``main`` gets. It exits with what that returns.
"""

import json
import sys
import types

job = json.load(sys.stdin)
for name, source in job["modules"]:
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(source, name + ".py", "exec"), module.__dict__)  # noqa: S102  # as import does
sys.exit(sys.modules[job["main"]].main(job["spec"]))

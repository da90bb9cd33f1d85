"""Print which version of each pin an environment holds: {"versions": {name: text}, "missing": []}.

Runs on the node by that environment's own Python (3.8 or newer), with the pins as arguments. A
local part such as +cpu does not matter to a pin: torch==2.13.0 is met by 2.13.0+cpu.
"""

import importlib.metadata
import json
import sys

versions = {}
missing = []
for pin in sys.argv[1:]:
    name, _, wanted = pin.partition("==")
    try:
        versions[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        versions[name] = ""
    if versions[name].partition("+")[0] != wanted.partition("+")[0]:
        missing.append(pin)
print(json.dumps({"versions": versions, "missing": missing}))

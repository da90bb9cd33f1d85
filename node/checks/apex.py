"""Whether an environment's apex imports, with the extensions that were asked for.

Its spec: extensions (cpp_ext, cuda_ext and others as in apex's setup.py). Runs by the environment's
own Python, which has torch and apex.
"""

from node.checks.imports import imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

# What an extension's option builds: one compiled module of it stands for all.
MODULES = {"cpp_ext": "apex_C", "cuda_ext": "amp_C"}


def check(spec: "Dict[str, Any]") -> "Dict[str, Any]":
    """Import it. Raises ProgramError with what is wrong."""
    imported("torch")  # the extensions link with its libraries
    for name in [
        "apex",
        *(MODULES[extension] for extension in spec["extensions"] if extension in MODULES),
    ]:
        imported(name)
    return {}

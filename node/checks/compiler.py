"""Whether an environment's Python and its torch.compile find what they need on a GPU's node.

Triton builds the module by which it loads kernels with $CC, gcc or clang, and with Python.h (triton
3.6 of torch 2.11 to 3.7 of 2.13: runtime/build.py). Its spec: variables, those of every run that
say where a compiler is.
"""

import os
import shutil
import sysconfig

from node.answer import ProgramError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Mapping


def lacking(variables: "Mapping[str, str]") -> str:
    """Say in a sentence what it would not find; empty where all is there."""
    sought = [variables["CC"]] if "CC" in variables else ["gcc", "clang"]
    path = variables.get("PATH", os.environ.get("PATH", os.defpath))
    if not any(shutil.which(program, path=path) for program in sought):
        return (
            "torch.compile finds no C compiler (%s); install one, or name it by CC in cluster_env"
            % " or ".join(sought)
        )
    # Debian's own scheme has a folder where no headers are.
    folder = sysconfig.get_paths(scheme="posix_prefix")["include"]
    if not os.path.exists(os.path.join(folder, "Python.h")):
        return (
            "torch.compile finds no Python.h in %s; install the headers of this Python"
            " (python%s-dev, or -devel), or have another one that has them"
            % (folder, sysconfig.get_python_version())
        )
    return ""


def check(spec: "Dict[str, Any]") -> "Dict[str, Any]":
    """Look for both. Raises ProgramError with what is not there."""
    fault = lacking(spec["variables"])
    if fault:
        raise ProgramError(fault)
    return {}

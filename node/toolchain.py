"""What torch.compile needs beside torch: a compiler, and the headers of the Python that runs it.

For a GPU, Triton builds the module by which it loads kernels with $CC, gcc or clang (triton 3.6 of
torch 2.11 to 3.7 of 2.13: runtime/build.py). For a CPU, Inductor builds everything with $CXX or g++
(torch 2.11 to 2.13: _inductor/cpp_builder.py). Both include Python.h.

Standard library alone, and Python 3.6, too: an environment's own Python runs it.
"""

import os
import shutil
import sysconfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping

COMPILERS = {"cuda": ("C", "CC", ("gcc", "clang")), "cpu": ("C++", "CXX", ("g++",))}


def lacking(device: str, variables: "Mapping[str, str]") -> str:
    """Say in a sentence what this Python's torch.compile would not find; empty where all is there.

    `variables` are the run's: what they do not name is looked for as in this process.
    """
    language, name, programs = COMPILERS[device]
    named = variables.get(name)
    sought = programs if named is None else (named,)
    path = variables.get("PATH", os.environ.get("PATH", os.defpath))
    if not any(shutil.which(each, path=path) for each in sought):
        return (
            "torch.compile finds no %s compiler (%s); install one, or name it by the variable %s"
            % (language, " or ".join(sought), name)
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

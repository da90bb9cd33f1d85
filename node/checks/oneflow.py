"""Whether an environment's OneFlow imports.

Answers its version, and whether it was built for CUDA where it can say so. Runs by the
environment's own Python, which has oneflow.
"""

from node.checks.imports import imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


def check(spec: "Dict[str, Any]") -> "Dict[str, Any]":
    """Import it. Raises ProgramError with what is wrong."""
    oneflow = imported("oneflow")
    with_cuda = getattr(getattr(oneflow, "sysconfig", None), "with_cuda", None)
    return {"oneflow": str(oneflow.__version__), "with_cuda": with_cuda() if with_cuda else None}

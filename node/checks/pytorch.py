"""Whether an environment's torch is the one wanted, asked by importing it.

Its spec: version (such as 1.10.1+cu113), family (further modules), device. Answers what torch says
of itself. Runs by the environment's own Python, which has torch.
"""

from node.answer import ProgramError
from node.checks.imports import imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional


def faults(
    spec: "Dict[str, Any]", have: str, cuda: "Optional[str]", available: bool
) -> "List[str]":
    """What is wrong, in words, with torch's version, its build's CUDA, and its devices."""
    faults_found = []
    pin = spec["version"]
    if have != pin and ("+" in pin or have.partition("+")[0] != pin):
        faults_found.append(f"torch is {have}, not {pin}")
    local = pin.partition("+")[2]
    if local.startswith("cu") and cuda and cuda != f"{local[2:-1]}.{local[-1]}":
        faults_found.append(f"torch is built for CUDA {cuda}, not {local[2:-1]}.{local[-1]}")
    if spec["device"] == "cuda" and cuda is None:
        faults_found.append(
            "torch is a build without CUDA, and the nodes train on CUDA; run setup again"
        )
    elif spec["device"] == "cuda" and not available:
        faults_found.append("torch sees no CUDA device; see nvidia-smi")
    return faults_found


def check(spec: "Dict[str, Any]") -> "Dict[str, Any]":
    """Import torch and its family. Raises ProgramError with what is wrong."""
    torch = imported("torch")
    for name in spec["family"]:
        imported(name)
    have, cuda = str(torch.__version__), torch.version.cuda
    fault_list = faults(spec, have, cuda, torch.cuda.is_available())
    if fault_list:
        raise ProgramError("; ".join(fault_list))
    return {"torch": have, "cuda": cuda}

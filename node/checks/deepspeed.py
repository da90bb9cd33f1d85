"""Whether an environment's DeepSpeed fits what it runs with: its ds_report, read.

Its spec: version (or ""), ops (those that must be built already), device (what the nodes train on).
Answers what the report says. Runs by the environment's own Python, which has torch and deepspeed.
"""

import os
import re
import shutil
import subprocess
import sys

from node.answer import ProgramError
from node.checks.imports import imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
OP = re.compile(r"([a-z][a-z0-9_]*) ?\.+ (\[(?:YES|NO)\]) \.+ (\[(?:OKAY|NO)\])")
LINE = re.compile(r"(.*?) \.{2,}(?: (.*))?")
# deepspeed wheel compiled w. ...... torch 1.10, cuda 11.3
BUILT = re.compile(r"torch ([0-9.]+)(?:[, ]+(?:cuda|hip) ([0-9.]+))?")

RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception)\b")


def parse(text: str) -> "Dict[str, Any]":
    """A report's lines as a mapping, its operators under `ops`: name to installed, compatible."""
    fields = {"ops": {}}  # type: Dict[str, Any]
    for line in COLOURS.sub("", text).splitlines():
        op, entry = OP.fullmatch(line.strip()), LINE.fullmatch(line.strip())
        if op:
            fields["ops"][op.group(1)] = [op.group(2) == "[YES]", op.group(3) == "[OKAY]"]
        elif entry and entry.group(2):
            fields[entry.group(1)] = entry.group(2).strip()
    return fields


def short(version: str) -> str:
    """The first two numbers of a version."""
    return ".".join(version.partition("+")[0].split(".")[:2])


def faults(
    spec: "Dict[str, Any]", report: "Dict[str, Any]", torch: str, cuda: "Optional[str]"
) -> "List[str]":
    """What does not fit, in words; `torch` and `cuda` are what the environment's torch says."""
    info = report.get("deepspeed info", "").partition(",")[0]
    if not info:
        return ["ds_report has no line `deepspeed info`"]
    faults_found = []
    if spec["version"] and info.partition("+")[0] != spec["version"].partition("+")[0]:
        faults_found.append(f"deepspeed is {info}, not {spec['version']}")
    report_torch = report.get("torch version", torch)
    if report_torch != torch:
        faults_found.append(
            f"ds_report runs with torch {report_torch}, and the environment has {torch}"
        )
    match = BUILT.search(report.get("deepspeed wheel compiled w.", ""))
    built, toolkit = (match.group(1), match.group(2)) if match else ("", "")
    # 0.0 is what a wheel says that was built without torch, with nothing compiled in it.
    if built not in ("", "0.0", short(torch)):
        faults_found.append(f"deepspeed was built with torch {built}, and runs with {torch}")
    if cuda and toolkit not in (None, "", "0.0", short(cuda)):
        faults_found.append(
            f"deepspeed was built with CUDA {toolkit}, and torch is built for {cuda}"
        )
    nvcc = report.get("nvcc version", "") if spec["device"] == "cuda" else ""
    if cuda and nvcc[:1].isdigit() and nvcc.split(".")[0] != cuda.split(".")[0]:
        faults_found.append(f"nvcc is of CUDA {nvcc}, and torch is built for {cuda}")
    absent = [op for op in spec["ops"] if not report["ops"].get(op, [False])[0]]
    return faults_found + [f"the operator {op} is not built" for op in absent]


def reason(stderr: str) -> str:
    """The line of a traceback that says what was raised, or the last line."""
    lines = stderr.strip().splitlines() or ["no output"]
    raised = [line for line in lines if RAISED.match(line)]
    return (raised or lines)[-1]


def check(spec: "Dict[str, Any]") -> "Dict[str, Any]":
    """Read its ds_report. Raises ProgramError with what is wrong."""
    program = os.path.join(os.path.dirname(sys.executable), "ds_report")
    if not os.path.exists(program):  # an image's Python may put programs elsewhere
        program = shutil.which("ds_report") or program
    torch = imported("torch", "import of torch fails")
    argv = [sys.executable, program]
    pipe = subprocess.PIPE
    completed = subprocess.run(argv, stdout=pipe, stderr=pipe, encoding="utf-8")
    if completed.returncode != 0:
        raise ProgramError("ds_report fails: " + reason(completed.stderr))
    report = parse(completed.stdout)
    fault_list = faults(spec, report, str(torch.__version__), torch.version.cuda)
    if fault_list:
        raise ProgramError("; ".join(fault_list))
    return report

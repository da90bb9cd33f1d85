"""Apex as a wheel: which node's fits which other, and building it.

    apex:look     say what this node would build with, and the wheel it has
    apex:build    build the wheel from the tree

Their spec: folder (of the wheel), identity (of tree and extensions), tree (its folder),
extensions (cpp_ext, cuda_ext, ...), python (the environment's), log, environment (CUDA_HOME, ...).
A wheel is alone in its folder; wheel.json beside it says with what it was built, its `key`. Nodes
with one key may share a wheel.
"""

from __future__ import annotations

import glob
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any

from node import parsing
from node.answer import ProgramError
from node.checksum import sha256
from node.files import read_text
from node.program_output import found_a_full_disk, full_disk, last_lines, pairs
from node.schema import Fields, Mapped, Plain, Text
from node.validated_text import Sha256, WheelName

if TYPE_CHECKING:  # Python 3.8 cannot say this when it runs
    Spec = dict[str, Any]

LOG_LINES = 25
RECORD = Fields({"name": WheelName, "sha256": Sha256, "key": Mapped(Text(), Plain())})
PROBE = (
    "import json, platform, sys, torch; print(json.dumps([platform.python_version(), "
    "torch.__version__, torch.version.cuda, sys.implementation.cache_tag]))"
)


class ApexError(ProgramError):
    """Why there is no wheel, with the cure."""


def output_of(argv: list[str], env: dict[str, str]) -> str:
    """What a program prints, away from a user's torch.py; empty where it does not run."""
    try:
        completed = subprocess.run(
            argv, capture_output=True, text=True, env={**os.environ, **env}, cwd="/"
        )
    except OSError:
        return ""
    return completed.stdout.strip() if completed.returncode == 0 else ""


def system() -> str:
    """The node's distribution and release."""
    fields = pairs(read_text("/etc/os-release"), "=")
    return f"{fields.get('ID', '')} {fields.get('VERSION_ID', '')}".strip()


def key(spec: Spec) -> Spec:
    """All that a compiled wheel hangs on."""
    env = spec["environment"]
    python = output_of([spec["python"], "-c", PROBE], env)
    nvcc = os.path.join(env.get("CUDA_HOME", "/usr/local/cuda"), "bin", "nvcc")
    release = re.search(r"release ([0-9.]+)", output_of([nvcc, "--version"], env))
    return {
        "identity": spec["identity"],
        "system": system(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "python": json.loads(python) if python else None,
        "nvcc": release.group(1) if release else "",
        "compiler": output_of([env.get("CXX", "c++"), "-dumpfullversion"], env),
        "architectures": env.get("TORCH_CUDA_ARCH_LIST", ""),
    }


def wheel(spec: Spec, expected_key: Spec) -> Spec:
    """The wheel that is there and is what this node would build; empty without one."""
    try:  # another node may have written it
        record: Spec = parsing.recall(os.path.join(spec["folder"], "wheel.json"), RECORD)
        path = os.path.join(spec["folder"], record["name"]) if record else ""
        valid = bool(record) and record["key"] == expected_key and sha256(path) == record["sha256"]
    except OSError:
        return {}
    return record if valid else {}


def look(spec: Spec) -> Spec:
    """The node's key, and its wheel."""
    node_key = key(spec)
    return {"key": node_key, "wheel": wheel(spec, node_key)}


def options(extensions: list[str], pip: str) -> list[str]:
    """How pip hands apex's own options to its setup.py, which changed with pip's releases.

    A current apex reads them from the environment instead (see `variables`); one that does not
    know those variables reads its command line.
    """
    flags = [f"--{name}" for name in extensions]
    if tuple(int(digits) for digits in pip.split(".")[:2]) < (23, 1):
        return [f"--global-option={flag}" for flag in flags]
    return ["--use-pep517"] + [f"--config-settings=--global-option={flag}" for flag in flags]


def variables(extensions: list[str]) -> dict[str, str]:
    """The same options as a current apex reads them."""
    return {f"APEX_{name.upper()}": "1" for name in extensions}


def build(spec: Spec) -> Spec:
    """Build the wheel in a copy of the tree, and write down with what."""
    node_key = key(spec)
    if node_key["python"] is None:
        raise ApexError(f"{spec['python']} does not import torch, with which apex is built")
    if "cuda_ext" in spec["extensions"] and not node_key["nvcc"]:
        home = spec["environment"].get("CUDA_HOME", "/usr/local/cuda")
        raise ApexError(f"{home} has no nvcc, with which apex is built; see the role cuda")
    pip = output_of([spec["python"], "-m", "pip", "--version"], {}).split()
    if not pip:
        raise ApexError(f"{spec['python']} has no pip")
    copy = spec["folder"] + ".build"
    for folder in (copy, spec["folder"]):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(spec["tree"], copy, symlinks=True)
    os.makedirs(spec["folder"])
    os.makedirs(os.path.dirname(spec["log"]), exist_ok=True)
    argv = [spec["python"], "-m", "pip", "wheel", "--verbose", "--no-deps", "--no-build-isolation"]
    argv += ["--no-cache-dir", "--disable-pip-version-check", "--wheel-dir", spec["folder"]]
    argv += options(spec["extensions"], pip[1])
    path = [os.path.dirname(spec["python"]), os.environ.get("PATH", os.defpath)]
    if "CUDA_HOME" in spec["environment"]:
        path.insert(1, os.path.join(spec["environment"]["CUDA_HOME"], "bin"))
    env = {**os.environ, **variables(spec["extensions"]), **spec["environment"]}
    env["PATH"] = os.pathsep.join(path)
    try:
        with open(spec["log"], "w", encoding="utf-8") as log:
            completed = subprocess.run(
                [*argv, copy], env=env, stdout=log, stderr=subprocess.STDOUT, cwd=spec["folder"]
            )
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    built = glob.glob(os.path.join(glob.escape(spec["folder"]), "*.whl"))
    if completed.returncode != 0 or len(built) != 1:
        shutil.rmtree(spec["folder"], ignore_errors=True)
        raise ApexError(failure(spec["log"]))
    record = {"name": os.path.basename(built[0]), "sha256": sha256(built[0]), "key": node_key}
    with open(os.path.join(spec["folder"], "wheel.json"), "w", encoding="utf-8") as file:
        json.dump(record, file, indent=2, sort_keys=True)
    return {"key": node_key, "wheel": record}


def failure(log: str) -> str:
    """Why the build failed: the end of its log."""
    text = read_text(log)
    if found_a_full_disk(text):
        disk = full_disk(os.path.dirname(log), tempfile.gettempdir(), output=text)
        return f"{disk} while building apex; free some space and run setup again"
    return f"apex cannot be built; {log} ends with:\n{last_lines(text, LOG_LINES)}"

"""A node's pin sets of one system: everything of them, asked for at once.

    pin:look      say what is there and what differs, and change nothing
    pin:verify    the same, and use it; refuse what is not as it should be

Their spec: system, and pins, each with pin, home, trees (specs of node/tree.py), env (spec of
node/env) or image (spec of node/image.py) with within (the command line that runs a program in it)
and gpus (whether that gives it the node's), files (place to SHA-256 of what this checkout puts
there), said (what else installed.json has), checks (program of node/checks, and what it is asked),
environment (variables for the checks), script (of src, that must answer --help, or "").

One question to a node, however many parts a pin set has: a task costs more than what it asks.
"""

from __future__ import annotations

import concurrent.futures
import os
import stat
import subprocess
from typing import TYPE_CHECKING, Any

from node import answer, bootstrap, image, tree
from node.answer import ProgramError
from node.checksum import sha256
from node.env import inspection as environment
from node.env.lock import parsed
from node.files import read_json

if TYPE_CHECKING:  # Python 3.8 cannot say this when it runs
    from collections.abc import Callable

    Spec = dict[str, Any]

SENDS = (
    "node.checks.apex",
    "node.checks.compiler",
    "node.checks.deepspeed",
    "node.checks.imports",
    "node.checks.oneflow",
    "node.checks.pytorch",
)
AT_ONCE = 4
CHECK_S = 600  # the first import of a framework from a slow disk takes minutes
VARIABLES = ("PYTHONNOUSERSITE", "PYTHONPATH", "PYTHONWARNINGS")  # as `checked` sets them
DRIVER = "/proc/driver/nvidia/version"  # where the node has a GPU that can be used


class PinError(ProgramError):
    """What is wrong with a pin set."""


def checksum(path: str) -> str:
    """A file's checksum; empty without one."""
    try:
        return sha256(path)
    except OSError:
        return ""


def installed(pin: Spec, trees: Spec, env: Spec) -> Spec:
    """What installed.json says: an identity that differs whenever what runs differs."""
    identities = {name: tree["identity"] for name, tree in trees.items()}
    keys = ("versions", "python", "lock", "image", "base")
    identity: Spec = {key: env[key] for key in keys if key in env}
    if "source" in identities:
        identity["source"] = identities.pop("source")
    if identities:
        identity["sources"] = identities
    if pin["files"]:
        names = {os.path.basename(path): digest for path, digest in pin["files"].items()}
        identity["files"] = names
    packages = parsed(env.get("lines", []))
    return {
        "schema": 1,
        "pin": pin["pin"],
        **pin["said"],
        "identity": identity,
        "packages": {name: version for name, (version, _) in packages.items()},
    }


def same_record(record: Any, expected: Spec) -> bool:
    """Whether installed.json is as it should be; one of an older version has no `packages`."""
    if isinstance(record, dict) and "packages" not in record:
        expected = {key: value for key, value in expected.items() if key != "packages"}
    return bool(record == expected)


def looked(pin: Spec) -> Spec:
    """What is there of one pin set. Raises PinError for what setup would refuse too."""
    trees = {spec["name"]: tree.make({**spec, "check": True}) for spec in pin["trees"]}
    have = image.look(pin["image"]) if "image" in pin else environment.look(pin["env"])
    files = [path for path, expected in pin["files"].items() if checksum(path) != expected]
    expected = installed(pin, trees, have)
    moving = [name for name, checkout in trees.items() if checkout["changed"]]
    differs = [
        *moving,
        *have["faults"],
        *(["lock"] if have["todo"] and not have["faults"] else []),
        *files,
    ]
    record = os.path.join(pin["home"], "installed.json")
    if not differs and not same_record(read_json(record), expected):
        differs.append(record)
    return {"trees": moving, "env": have, "files": files, "installed": expected, "differs": differs}


def checked(pin: Spec) -> list[str]:
    """What the environment's Python says when it is used: the faults."""
    source = os.path.join(pin["home"], "src")
    env = {"PYTHONNOUSERSITE": "1", "PYTHONPATH": source, "PYTHONWARNINGS": "ignore"}
    env.update(pin["environment"])
    if "image" in pin:
        if not image.starts_here(pin["image"]):
            return []
        python = [*pin["within"], "python3"]
    else:
        python = [os.path.join(pin["env"]["path"], "bin", "python3")]
        path = [os.path.dirname(python[0]), os.environ.get("PATH", os.defpath)]
        env["PATH"] = os.pathsep.join(path)
    faults = []
    for check in pin["checks"]:
        fault = refusal(python, check, env)
        faults += [f"{check['program']}: {fault}"] if fault else []
    if pin["script"]:
        argv = [*python, os.path.join(source, pin["script"]), "--help"]
        completed = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, **env})
        if completed.returncode != 0:
            faults.append(f"{argv[-2]} --help: {completed.stderr.strip()[-2000:]}")
    return faults + container_faults(pin)


def refusal(python: list[str], check: Spec, env: dict[str, str]) -> str:
    """What a check, run by the environment's own Python, has against it; empty for nothing."""
    entry = f"checks.{check['program']}:check"
    try:
        completed = subprocess.run(
            [*python, *bootstrap.command(entry)],
            input=bootstrap.message(entry, check),
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, **env},
            cwd="/",
            timeout=CHECK_S,
        )
    except subprocess.TimeoutExpired:
        return f"{python[0]} gave no answer within {CHECK_S} s"
    if answer.read(completed.stdout) is not None:
        return ""
    return (
        "\n".join(completed.stderr.strip().splitlines()[-20:])
        or f"exit code {completed.returncode}"
    )


def container_faults(pin: Spec) -> list[str]:
    """Whether a container sees the node's GPUs, by nvidia-smi in it: the fault, if any."""
    if not pin.get("gpus") or not os.path.exists(DRIVER):
        return []
    argv = [*pin["within"], "nvidia-smi", "-L"]
    try:
        completed = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CHECK_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"nvidia-smi in a container: {error}"]
    if completed.returncode == 0 and "GPU 0: " in completed.stdout:
        return []
    # Docker's last line says that there is help
    lines = [
        x for x in (completed.stdout + completed.stderr).splitlines() if x and "--help'" not in x
    ]
    last_line = lines[-1] if lines else "it names no GPU"
    return [f"nvidia-smi in a container: {last_line}; see NVIDIA's container toolkit on this node"]


def opened(pin: Spec) -> list[str]:
    """Whether somebody else may put code where runs load what they compiled: the fault, if any."""
    path = os.path.join(pin["home"], "cache")
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return []  # no run compiled anything
    if stat.S_ISDIR(mode) and not mode & (stat.S_IWGRP | stat.S_IWOTH):
        return []
    return [
        f"{path}, from which runs load what they compiled, is not a folder that its owner alone can"
        " write to; remove it; the next run makes a new one"
    ]


def _files(contents: Spec) -> list[str]:
    """Every file that is missing or of another content, by its path and checksum, in words."""
    if len(contents) > 1 and not any(map(os.path.exists, contents)):
        return [f"none of the {len(contents)} files of {os.path.commonpath(contents)} is there"]
    return [
        f"{path} {'is not as in this checkout' if os.path.exists(path) else 'is not there'}"
        for path, content in contents.items()
        if checksum(path) != content
    ]


def verified(pin: Spec) -> list[str]:
    """Every fault of one pin set, in words."""
    faults = []
    identities: Spec = {}
    for spec in pin["trees"]:
        try:
            identities[spec["name"]] = tree.verify(spec)
        except (ProgramError, OSError) as error:
            faults.append(str(error))
    have: Spec = {}
    try:
        have = image.verify(pin["image"]) if "image" in pin else environment.verify(pin["env"])
    except (ProgramError, OSError) as error:
        faults.append(str(error))
    faults += _files(pin["files"])
    if not have:
        return faults  # what fails to import in a broken environment is no news
    if not faults:
        path = os.path.join(pin["home"], "installed.json")
        if read_json(path) != installed(pin, identities, have):
            faults.append(f"{path} does not say what is there")
    return faults + opened(pin) + checked(pin)


def each_pin(step: Callable[[Spec], Any], spec: Spec) -> tuple[Spec, list[str]]:
    """Do a step for all pin sets, some at once; what was found of each, and the errors."""
    results: Spec = {}
    errors = []
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        pending = [(pin["pin"], pool.submit(step, pin)) for pin in spec["pins"]]
        for name, answered in pending:
            try:
                results[name] = answered.result()
            except (ProgramError, OSError) as error:
                errors.append(f"{spec['system']} {name}: {error}")
    return results, errors


def look(spec: Spec) -> Spec:
    """What is there of each pin set, and which differ."""
    pins, errors = each_pin(looked, spec)
    if errors:
        raise PinError("\n".join(errors))
    differing = [name for name in pins if pins[name]["differs"]]
    return {"system": spec["system"], "pins": pins, "differing": differing}


def verify(spec: Spec) -> Spec:
    """Refuse pin sets that are not what they should be, each fault a line."""
    pins, errors = each_pin(verified, spec)
    errors += [f"{spec['system']} {name}: {fault}" for name in pins for fault in pins[name]]
    if errors:
        raise PinError("\n".join(errors))
    return {"system": spec["system"]}

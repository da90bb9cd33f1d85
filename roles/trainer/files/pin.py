"""A node's pin sets of one system: everything that lies there, asked for at once.

    python3 pin.py look < SPEC      say what is there and what differs, and change nothing
    python3 pin.py verify < SPEC    the same, and use it; refuse what is not as it should be

SPEC is JSON: system, programs (name to text: tree, env, image, and those that verify runs), and
pins, each with pin, home, trees (specs of the program tree), env (spec of env) or image (spec of
image) with within (the command line that runs a program in it) and gpus (whether that gives it the
node's), files (place to SHA-256 of what this checkout puts there), said (what else installed.json
has), checks (program, and what it is asked), environment (variables for the checks), script (of
src, that must answer --help, or "").

One question to a node, however many parts a pin set has: a task costs more than what it asks. Runs
on the node by its own Python (3.8 or newer), standard library only. Exits 0, or 1 with lines on
stderr, each of which names the pin set, what is wrong, and the cure.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Python 3.8 cannot say this when it runs
    Spec = dict[str, Any]

AT_ONCE = 4
CHECK_S = 600  # the first import of a framework from a slow disk takes minutes
DRIVER = "/proc/driver/nvidia/version"  # where the node has a GPU that can be used


class PinError(Exception):
    """What is wrong with a pin set."""


def ask(argv: list[str], stdin: Any, env: dict[str, str] | None = None, cwd: str = "/") -> Any:
    """Run a program; its JSON, or PinError with its own words."""
    try:
        done = subprocess.run(
            argv,
            input=json.dumps(stdin),
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, **(env or {})},
            cwd=cwd,
            timeout=CHECK_S,
        )
    except subprocess.TimeoutExpired:
        raise PinError(f"{argv[0]} gave no answer within {CHECK_S} s") from None
    if done.returncode != 0:
        tail = done.stderr.strip().splitlines()[-20:]
        raise PinError("\n".join(tail) or f"{argv[0]} ended with {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {}


def sha256(path: str) -> str:
    """A file's checksum; empty without one."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


def installed(pin: Spec, trees: Spec, env: Spec) -> Spec:
    """What installed.json says: an identity that differs whenever what runs differs."""
    known = {name: tree["identity"] for name, tree in trees.items()}
    keys = ("versions", "python", "lock", "image")
    identity: Spec = {key: env[key] for key in keys if key in env}
    if "source" in known:
        identity["source"] = known.pop("source")
    if known:
        identity["sources"] = known
    if pin["files"]:
        names = {os.path.basename(path): digest for path, digest in pin["files"].items()}
        identity["files"] = names
    return {"schema": 1, "pin": pin["pin"], **pin["said"], "identity": identity}


def recorded(path: str) -> Any:
    """What a JSON file says; None without one."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def look(pin: Spec, programs: Spec) -> Spec:
    """What is there of one pin set. Raises PinError for what setup would refuse too."""
    trees = {
        spec["name"]: ask(run(programs["tree"], "make"), {**spec, "check": True})
        for spec in pin["trees"]
    }
    env = environment(pin, programs, "look")
    files = [path for path, wanted in pin["files"].items() if sha256(path) != wanted]
    wanted = installed(pin, trees, env)
    moving = [name for name, tree in trees.items() if tree["changed"]]
    differs = [
        *moving,
        *env["faults"],
        *(["lock"] if env["todo"] and not env["faults"] else []),
        *files,
    ]
    record = os.path.join(pin["home"], "installed.json")
    if not differs and recorded(record) != wanted:
        differs.append(record)
    return {"trees": moving, "env": env, "files": files, "installed": wanted, "differs": differs}


def environment(pin: Spec, programs: Spec, step: str) -> Spec:
    """What the program env says of the environment, or image.py of the image."""
    name = "image" if "image" in pin else "env"
    found: Spec = ask(run(programs[name], step), pin[name])
    return found


def run(program: str, *words: str) -> list[str]:
    """A program of ours on this Python."""
    return [sys.executable, "-I", "-c", program, *words]


def checked(pin: Spec, programs: Spec) -> list[str]:
    """What the environment's Python says when it is used: the faults."""
    source = os.path.join(pin["home"], "src")
    env = {"PYTHONNOUSERSITE": "1", "PYTHONPATH": source, "PYTHONWARNINGS": "ignore"}
    env.update(pin["environment"])
    if "image" in pin:
        names = [word for name in env for word in ("--env", name)]
        python = [*pin["within"], *names, pin["image"]["image"], "python3"]
    else:
        python = [os.path.join(pin["env"]["path"], "bin", "python3")]
        path = [os.path.dirname(python[0]), os.environ.get("PATH", os.defpath)]
        env["PATH"] = os.pathsep.join(path)
    faults = []
    for check in pin["checks"]:
        try:
            ask([*python, "-c", programs[check["program"]]], check, env)
        except PinError as error:
            faults.append(f"{check['program']}: {error}")
    if pin["script"]:
        argv = [*python, os.path.join(source, pin["script"]), "--help"]
        done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, **env})
        if done.returncode != 0:
            faults.append(f"{argv[-2]} --help: {done.stderr.strip()[-2000:]}")
    return faults + seen(pin)


def seen(pin: Spec) -> list[str]:
    """Whether a container sees the node's GPUs, by nvidia-smi in it: the fault, if any."""
    if not pin.get("gpus") or not os.path.exists(DRIVER):
        return []
    argv = [*pin["within"], pin["image"]["image"], "nvidia-smi", "-L"]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CHECK_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"nvidia-smi in a container: {error}"]
    if done.returncode == 0 and "GPU 0: " in done.stdout:
        return []
    # Docker's last line says that there is help
    lines = [x for x in (done.stdout + done.stderr).splitlines() if x and "--help'" not in x]
    words = lines[-1] if lines else "it names no GPU"
    return [f"nvidia-smi in a container: {words}; see NVIDIA's container toolkit on this node"]


def verified(pin: Spec, programs: Spec) -> list[str]:
    """Every fault of one pin set, in words."""
    faults = []
    identities: Spec = {}
    for spec in pin["trees"]:
        try:
            identities[spec["name"]] = ask(run(programs["tree"], "verify"), spec)
        except PinError as error:
            faults.append(str(error))
    env: Spec = {}
    try:
        env = environment(pin, programs, "verify")
    except PinError as error:
        faults.append(str(error))
    faults += [
        f"{path} {'is not as in this checkout' if os.path.exists(path) else 'is not there'}"
        for path, wanted in pin["files"].items()
        if sha256(path) != wanted
    ]
    if not env:
        return faults  # what fails to import in a broken environment is no news
    if not faults:
        path = os.path.join(pin["home"], "installed.json")
        if recorded(path) != installed(pin, identities, env):
            faults.append(f"{path} does not say what is there")
    return faults + checked(pin, programs)


def main() -> int:
    """Run the command line; the exit code."""
    spec = json.load(sys.stdin)
    step = {"look": look, "verify": verified}[sys.argv[1]]
    said: Spec = {}
    errors = []
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [(pin["pin"], pool.submit(step, pin, spec["programs"])) for pin in spec["pins"]]
        for name, answer in asked:
            try:
                said[name] = answer.result()
            except (PinError, OSError) as error:
                errors.append(f"{spec['system']} {name}: {error}")
    if sys.argv[1] == "verify":
        errors += [f"{spec['system']} {name}: {fault}" for name in said for fault in said[name]]
    if errors:
        print("\n".join(errors), file=sys.stderr)
        return 1
    differing = [name for name in said if said[name] and said[name]["differs"]]
    print(json.dumps({"system": spec["system"], "pins": said, "differing": differing}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

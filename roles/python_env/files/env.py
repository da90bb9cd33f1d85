"""One Python environment: exact pins in steps, and a lock of everything that is in it.

    python3 env.py look < SPEC      say what is there and what is to do, and change nothing
    python3 env.py create < SPEC    make the empty environment; for conda only its place
    python3 env.py step < SPEC      do one thing of look's list, the SPEC's `do`
    python3 env.py verify < SPEC    say whether it is what it should be, and change nothing

SPEC is JSON: path (of the environment), python (wanted version, such as 3.8, or ""), interpreter
(the node's usual one), interpreters (patterns of further ones), existing (somebody else's Python),
steps, later (names of those that are not to be done yet), constraints (name==version lines), index,
extra_index, find_links, mirrors (kind to beginning to what stands in its place), environment
(variables for what a build runs).

A step is a mapping with a name and one of: requirements (exact pins), wheel ({project, version,
sha256, file}), tree ({path, identity, editable}) or built ({folder, identity}: a wheel that
somebody else puts there); also index, no_deps, no_build_isolation, environment (for its build),
project (what a tree or build is called when it is installed), sha256 (of its one requirement).

Beside the environment lie lock.txt, which has every package with its version, env.json, which says
how it was made, and logs/. Runs on the node by its own Python (3.8 or newer), standard library
only; the environment's Python may be older. Exits 0, or 1 with lines on stderr that say what is
wrong and the cure.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Python 3.8 cannot say this when it runs
    Spec = dict[str, Any]
    Packages = dict[str, dict[str, str]]  # canonical name to name, version, origin

INDEX = "https://pypi.org/simple"
LOG_LINES = 15
# An older pip is replaced by the last one that every Python from 3.7 on can have.
PIP_SINCE = (20, 3)
PIP = "23.0.1"
# Tools that every environment is born with: which release they are makes no node another.
INSTALLERS = {"pip", "setuptools", "wheel"}
PLACES = ["/usr/local/bin", "/usr/bin", "/opt/*/bin", "~/.local/bin"]
PROBE = (
    "import json, platform, sys; print(json.dumps({'version': platform.python_version(), "
    "'prefix': sys.prefix, 'base': sys.base_prefix, 'path': sys.path}))"
)
WITHOUT = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
FLAGS = {
    "no_deps": "--no-deps",
    "no_build_isolation": "--no-build-isolation",
    "force": "--force-reinstall",
    "no_cache": "--no-cache-dir",
}


class EnvError(Exception):
    """What is wrong with the environment, with the cure."""


# --- what is there --------------------------------------------------------------------------------


def canonical(name: str) -> str:
    """A package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def clean(variables: dict[str, str]) -> dict[str, str]:
    """This process's variables without those that bend a Python, and the given ones."""
    kept = {name: text for name, text in os.environ.items() if name not in WITHOUT}
    kept.update(PYTHONNOUSERSITE="1", LC_ALL="C.UTF-8", PIP_ROOT_USER_ACTION="ignore")
    return {**kept, **variables}


def probe(python: str) -> Spec:
    """What an interpreter says of itself; empty when it does not run."""
    words = [python, "-I", "-c", PROBE]
    try:
        done = subprocess.run(words, capture_output=True, text=True, env=clean({}), timeout=60)
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {}
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}


def config_program(said: Spec) -> str:
    """Text of a venv's python3-config: venv makes none, and what builds helpers calls it by name.

    Without it the next one on PATH answers, which is of another Python. A link would not do: the
    program takes the folder above its own for the prefix. Empty where there is nothing to write: a
    conda environment has its own, and a Python without headers has none.
    """
    version = ".".join(said["version"].split(".")[:2])
    program = os.path.join(said["base"], "bin", f"python{version}-config")
    if said["base"] == said["prefix"] or not os.path.exists(program):
        return ""
    return f'#!/bin/sh\nexec {shlex.quote(program)} "$@"\n'


def installed(said: Spec) -> Packages:
    """Every package on the path of the interpreter that said so; the first one counts."""
    found: Packages = {}
    for folder in said.get("path", []):
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            # what begins with ~ is what an interrupted pip left
            if not name.endswith((".dist-info", ".egg-info")) or name.startswith("~"):
                continue
            entry = metadata(os.path.join(folder, name))
            if not entry:
                continue
            if name.endswith(".egg-info") and not within(folder, (said["prefix"], "/usr")):
                entry["origin"] = f"file://{folder}"  # an editable install of older tools
            found.setdefault(canonical(entry["name"]), entry)
    return found


def within(folder: str, places: tuple[str, ...]) -> bool:
    """Whether the folder lies in one of the places."""
    real = os.path.realpath(folder)
    return any(real.startswith(os.path.realpath(place) + os.sep) for place in places)


def metadata(folder: str) -> dict[str, str]:
    """Name, version and origin of one package, from the top lines of its metadata."""
    files = [os.path.join(folder, name) for name in ("METADATA", "PKG-INFO")]
    fields: dict[str, str] = {}
    for path in [*files, folder]:
        if not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, colon, value = line.partition(": ")
                if not line.strip():
                    break  # the description follows
                if colon and key in ("Name", "Version"):
                    fields.setdefault(key.lower(), value.strip())
        break
    return {**fields, "origin": origin(folder)} if len(fields) == 2 else {}


def origin(folder: str) -> str:
    """The address that a package was installed from; empty for one of an index."""
    try:
        with open(os.path.join(folder, "direct_url.json"), encoding="utf-8") as file:
            said = json.load(file)
    except (OSError, ValueError):
        return ""
    archive, vcs = said.get("archive_info") or {}, said.get("vcs_info") or {}
    sha256 = (archive.get("hashes") or {}).get("sha256") or archive.get("hash", "")[
        len("sha256=") :
    ]
    tail = f"#sha256={sha256}" if sha256 else f"@{vcs['commit_id']}" if vcs else ""
    return str(said.get("url", "")) + tail


def frozen(packages: Packages) -> list[str]:
    """The lock's lines: every package once, sorted."""
    return sorted(
        f"{name}=={entry['version']}" + (f" @ {entry['origin']}" if entry["origin"] else "")
        for name, entry in packages.items()
    )


def parsed(lines: list[str]) -> dict[str, tuple[str, str]]:
    """Lock lines back: name to version and origin."""
    halves = [line.partition(" @ ") for line in lines if line and not line.startswith("#")]
    pins = [(pin.partition("=="), address) for pin, _, address in halves]
    return {name: (version, address) for (name, _, version), address in pins}


def digest_of_lock(lines: list[str]) -> str:
    """A checksum that is the same where the packages are, whatever the folders are called."""
    kept = [
        f"{name}=={version} {os.path.basename(address)}".strip()
        for name, (version, address) in sorted(parsed(lines).items())
        if name not in INSTALLERS
    ]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()


# --- what should be there -------------------------------------------------------------------------


def split(pin: str) -> tuple[str, str]:
    """Canonical name and version of an exact pin; extras do not matter."""
    name, _, version = pin.partition("==")
    return canonical(name.partition("[")[0].strip()), version.strip()


def meets(version: str, wanted: str) -> bool:
    """Whether a version is the pin's; a local part such as +cpu matters only if the pin has one."""
    return version == wanted if "+" in wanted else version.partition("+")[0] == wanted


def fits(version: str, wanted: str) -> bool:
    """Whether a Python is the one wanted: 3.8 takes any 3.8.x, 3.7.9 itself alone."""
    return not wanted or version == wanted or version.startswith(wanted + ".")


def numbers(version: str) -> tuple[int, ...]:
    """The first two numbers of a version, to compare."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def header(version: str) -> str:
    """The lock's first line."""
    return f"# python {version}"


def pins_of(steps: list[Spec]) -> dict[str, str]:
    """Every pinned package and its version, over the steps."""
    found: dict[str, str] = {}
    for step in steps:
        found.update(split(pin) for pin in step.get("requirements", []))
        if "wheel" in step:
            found[canonical(step["wheel"]["project"])] = step["wheel"]["version"]
    return found


def compiled(step: Spec) -> bool:
    """Whether a step's result hangs on more than versions: on a tree, a build, variables."""
    return "tree" in step or "built" in step or bool(step.get("environment"))


def digest(step: Spec) -> str:
    """What of a step tells its result from another of the same versions."""
    tree, built, wheel = (step.get(kind) or {} for kind in ("tree", "built", "wheel"))
    told = [
        tree.get("identity"),
        tree.get("editable"),
        built.get("identity"),
        wheel.get("sha256"),
        step.get("environment") or {},
    ]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def short_of(pins: dict[str, str], packages: Packages) -> list[str]:
    """Which pins are not met, in words."""
    faults = []
    for name, wanted in pins.items():
        have = packages[name]["version"] if name in packages else ""
        if not have:
            faults.append(f"{name} {wanted} is not there")
        elif not meets(have, wanted):
            faults.append(f"{name} is {have}, not {wanted}")
    return faults


def unmet(step: Spec, packages: Packages, record: Spec) -> list[str]:
    """What a step lacks, in words; empty for one that is there."""
    known = record.get("steps", {}).get(step["name"])
    faults = short_of(pins_of([step]), packages)
    if faults:
        return faults
    if known is None and record.get("pending"):
        return [f"{step['name']} was not installed to the end"]
    if known is None:
        # An environment of an older TrainBench has pins, and no record.
        return [f"{step['name']} is not there"] if compiled(step) else []
    if known["digest"] != digest(step):
        return [f"{step['name']} is of another source, patch or build than the pin's"]
    for name, version in known["holds"].items():
        have = packages.get(name, {}).get("version", "")
        if have != version:
            return [f"{name} is {have or 'not there'}, not {version} as it was installed"]
    torch = packages.get("torch", {}).get("version", "")
    if compiled(step) and known["torch"] != torch:
        return [f"{step['name']} was built with torch {known['torch'] or 'absent'}, not {torch}"]
    return []


def drifted(lock: list[str], packages: Packages) -> dict[str, str]:
    """Packages that are not as the lock says: name to what is wrong, in words."""
    was, now, faults = parsed(lock), parsed(frozen(packages)), {}
    for name in sorted(was.keys() | now.keys()):
        before, after = was.get(name), now.get(name)
        if after is None:
            faults[name] = f"{name} {was[name][0]} of the lock is not there"
        elif before is None:
            faults[name] = f"{name} {after[0]} is not in the lock"
        elif before[0] != after[0]:
            faults[name] = f"{name} is {after[0]}, not {before[0]} as in the lock"
        elif before != after:
            whence = [address or "an index" for address in (after[1], before[1])]
            faults[name] = f"{name} {after[0]} came from {whence[0]}, not from {whence[1]}"
    return faults


def plan(
    spec: Spec, packages: Packages, version: str, lock: list[str], record: Spec
) -> tuple[list[str], list[Spec]]:
    """What is wrong, in words, and what is to do about it, in order."""
    steps: list[Spec] = spec["steps"]
    lacking = {step["name"]: unmet(step, packages, record) for step in steps}
    wrong = {name for name, faults in lacking.items() if faults}
    # After an interrupted run the lock is of before it, and what is there is no drift.
    drift = drifted(lock, packages) if lock and not record.get("pending") else {}
    # What a step will bring needs no repair of its own; what a tree or wheel brought, that step's.
    locked = parsed(lock)
    holders = {
        name: step for step, said in record.get("steps", {}).items() for name in said["holds"]
    }
    brought = set(pins_of([step for step in steps if step["name"] in wrong]))
    brought |= {name for name, step in holders.items() if step in wrong}
    drift = {name: fault for name, fault in drift.items() if name not in brought}
    install, remove = [], []
    for name in drift:
        if name not in locked:
            remove.append(name)
        elif holders.get(name) in lacking:
            wrong.add(holders[name])
        elif not locked[name][1]:
            install.append(f"{name}=={locked[name][0]}")
    if any("torch" in pins_of([step]) for step in steps if step["name"] in wrong):
        wrong |= {step["name"] for step in steps if compiled(step)}
    todo: list[Spec] = []
    if install or remove:
        words = f"repair {', '.join([*install, *(f'remove {name}' for name in remove)])}"
        todo.append({"what": "repair", "words": words, "install": install, "remove": remove})
    for step in steps:
        if step["name"] in wrong and step["name"] not in spec["later"]:
            words = ", ".join(step.get("requirements", [])) or step["name"]
            todo.append({"what": "install", "words": f"install {words}", "name": step["name"]})
    faults = [*(fault for said in lacking.values() for fault in said), *drift.values()]
    if lock and version and lock[0] != header(version):
        faults.append(f"python is {version}, not {lock[0].rpartition(' ')[2]} as in the lock")
    unfinished = bool(wrong & set(spec["later"]))
    if (todo or faults or not lock or record.get("pending")) and not unfinished:
        todo.append({"what": "lock", "words": "write down what is there"})
    return faults, todo


# --- an interpreter -------------------------------------------------------------------------------


def candidates(spec: Spec) -> list[str]:
    """Interpreters that the node may have: the usual one, the named ones, those in known places."""
    if not spec["python"]:
        return [spec["interpreter"]]
    found = [spec["interpreter"]]
    for pattern in spec["interpreters"]:
        found += sorted(glob.glob(os.path.expanduser(pattern)))
    for name in (f"python{'.'.join(spec['python'].split('.')[:2])}", "python3"):
        found += [shutil.which(name) or ""]
        for place in PLACES:
            found += sorted(glob.glob(os.path.join(os.path.expanduser(place), name)))
    return [path for path in dict.fromkeys(found) if path]


def interpreter(spec: Spec) -> tuple[str, str]:
    """A Python of the node that can make the environment; or "", and why there is none."""
    tried: dict[str, str] = {}
    for path in candidates(spec):
        said = probe(path)
        if not said:
            tried[path] = f"{path} does not run"
        elif not fits(said["version"], spec["python"]):
            tried.setdefault(said["version"], f"{path} is Python {said['version']}")
        else:
            words = [path, "-I", "-c", "import ensurepip, venv"]
            if subprocess.run(words, capture_output=True, env=clean({})).returncode == 0:
                return path, ""
            tried[path] = f"{path} makes no environments (install python3-venv)"
    return "", "; ".join(tried.values())


# --- the environment ------------------------------------------------------------------------------


class Environment:
    """An environment and what lies beside it."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.steps: list[Spec] = spec["steps"]
        self.path: str = spec["path"]
        self.home = os.path.dirname(self.path)
        self.python = os.path.join(self.path, "bin", "python3")
        self.config = os.path.join(self.path, "bin", "python3-config")
        self.lock_file = os.path.join(self.home, "lock.txt")
        self.record_file = os.path.join(self.home, "env.json")
        self.refresh()

    def refresh(self) -> None:
        """Look again at what is there."""
        self.said = probe(self.python)
        self.packages = installed(self.said)
        self.version = str(self.said.get("version", ""))
        self.record: Spec = json.loads(read(self.record_file) or "{}")
        self.lock = read(self.lock_file).splitlines()

    def remember(self, **more: Any) -> None:
        """Write the record down."""
        self.record = {"schema": 1, "steps": {}, **self.record, **more}
        write(self.record_file, json.dumps(self.record, indent=2, sort_keys=True) + "\n")

    def pip(self) -> str:
        """Which pip it has."""
        return self.packages["pip"]["version"] if "pip" in self.packages else "0"

    def summary(self) -> Spec:
        """What every command says of the environment."""
        held = {name for said in self.record.get("steps", {}).values() for name in said["holds"]}
        names = pins_of(self.steps).keys() | (held & self.packages.keys())
        lines = frozen(self.packages)
        return {
            "python": self.version,
            "versions": {
                name: self.packages[name]["version"] if name in self.packages else ""
                for name in sorted(names)
            },
            "lock": digest_of_lock(lines),
            "lines": lines,
        }


def read(path: str) -> str:
    """A file's text; empty without one."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def write(path: str, text: str) -> None:
    """Write a file whole or not at all."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def look(env: Environment) -> Spec:
    """What is there, and what is to do."""
    spec = env.spec
    if spec["existing"]:
        return look_at_existing(env)
    ours = env.said and "pip" in env.packages and not os.path.islink(env.path)
    if ours and fits(env.version, spec["python"]):
        faults, todo = plan(spec, env.packages, env.version, env.lock, env.record)
        wanted = config_program(env.said)
        if wanted and read(env.config) != wanted:
            faults.append(f"{env.config} is not that of its Python")
            todo.insert(0, {"what": "config", "words": "write python3-config"})
        return {**env.summary(), "faults": faults, "todo": todo, "make": "", "from": ""}
    fault = f"{env.path} is not there"
    if os.path.islink(env.path):
        fault = f"{env.path} is a link to somebody else's environment"
    elif env.said and not fits(env.version, spec["python"]):
        fault = f"{env.path} has Python {env.version}, not {spec['python']}"
    elif env.said:
        fault = f"{env.path} has no pip"
    elif os.path.exists(env.path):
        fault = f"{env.path} has no Python that runs"
    path, why = interpreter(spec)
    env.version = probe(path)["version"] if path else spec["python"]
    if not path and not spec["python"]:
        raise EnvError(f"{why}; name another Python with python_env_interpreter")
    env.packages = {}
    todo = plan(spec, {}, "", [], {})[1]
    make = "venv" if path else "conda"
    return {**env.summary(), "faults": [fault], "todo": todo, "make": make, "from": path or why}


def look_at_existing(env: Environment) -> Spec:
    """Somebody else's environment: linked as it is, never changed.

    Any version of a pin will do, Python's too: it is written down, and whoever named it answers.
    """
    python = env.spec["existing"]
    env.said = probe(python)
    if not env.said:
        raise EnvError(f"{python} does not run; correct the path of the existing Python")
    env.packages, env.version = installed(env.said), env.said["version"]
    wanted = [*pins_of(env.steps), *(each["project"] for each in env.steps if "project" in each)]
    lacking = [name for name in wanted if name not in env.packages]
    if lacking:
        raise EnvError(
            f"{python} lacks {', '.join(lacking)}; install them there, or leave the existing "
            "Python empty for an environment of our own"
        )
    prefix = env.said["prefix"]
    linked = os.path.islink(env.path) and os.path.realpath(env.path) == os.path.realpath(prefix)
    faults = [] if linked else [f"{env.path} is no link to {prefix}"]
    faults += drifted(env.lock, env.packages).values() if env.lock else []
    same = linked and env.lock == [header(env.version), *frozen(env.packages)]
    todo = [] if same else [{"what": "lock", "words": "write down what it holds"}]
    make = "" if linked else "link"
    return {**env.summary(), "faults": faults, "todo": todo, "make": make, "from": prefix}


def verify(env: Environment) -> Spec:
    """Refuse an environment that is not what it should be."""
    said = look(env)
    faults = said["faults"] or (["it has no lock"] if said["todo"] else [])
    if faults:
        raise EnvError(f"{env.path}: {'; '.join(faults)}; run setup")
    return said


def create(env: Environment) -> Spec:
    """Make the empty environment, in the place of one that cannot be used."""
    os.makedirs(env.home, exist_ok=True)
    for path in (env.lock_file, env.record_file, env.path):
        if os.path.islink(path) or os.path.isfile(path):
            os.unlink(path)
    shutil.rmtree(env.path, ignore_errors=True)
    made, path = env.spec["do"]["make"], env.spec["do"]["from"]
    if made == "venv":
        call(env, "venv", [path, "-m", "venv", env.path], {})
    env.refresh()
    if made == "venv":
        write_config(env)
    if made == "venv" and "pip" not in pins_of(env.steps) and numbers(env.pip()) < PIP_SINCE:
        # Ubuntu 20.04's says nowhere what it installed from an address.
        try:
            pip(env, "pip", {}, [*sources(env.spec, []), f"pip=={PIP}"], [])
        except EnvError as error:
            raise EnvError(
                f"pip {env.pip()} of {path} is too old, and pip {PIP} cannot be had: {error}; name "
                "one that the index has first among the pins, such as in `build`"
            ) from None
    env.record = {}
    env.remember(made=made, pending=True, **({"from": path} if made == "venv" else {}))
    return {}


def write_config(env: Environment) -> None:
    """Give a venv its python3-config."""
    text = config_program(env.said)
    if text:
        write(env.config, text)
        os.chmod(env.config, 0o755)  # noqa: S103  # a program that everybody runs


def step(env: Environment) -> Spec:
    """Do one thing of look's list."""
    do = env.spec["do"]
    if do["what"] == "config":
        write_config(env)
        return {}
    if do["what"] == "lock":
        write(env.lock_file, "\n".join([header(env.version), *frozen(env.packages)]) + "\n")
        env.remember(pending=False)
        return {}
    env.remember(pending=True)
    if do["what"] == "repair":
        repair(env, do["install"], do["remove"])
    else:
        install(env, next(each for each in env.steps if each["name"] == do["name"]))
    return {}


def repair(env: Environment, pins: list[str], remove: list[str]) -> None:
    """Bring packages back to the lock: those alone, no dependency with them."""
    if remove:
        words = [env.python, "-m", "pip", "uninstall", "--yes", "--disable-pip-version-check"]
        call(env, "repair", [*words, *remove], {})
    if pins:
        indexes = [each["index"] for each in env.steps if each.get("index")]
        pip(env, "repair", {"no_deps": True}, sources(env.spec, indexes) + pins, [])


def install(env: Environment, what: Spec) -> None:
    """One step. Its pins are asked for afterwards: pip's success alone is no proof."""
    before, pins = env.packages, pins_of([what])
    every = pins_of(env.steps)
    limits = [f"{name}=={version}" for name, version in every.items() if name not in pins]
    limits += [line for line in env.spec["constraints"] if split(line)[0] not in every]
    options = {key: what.get(key) for key in ("no_deps", "no_build_isolation")}
    # The same version again, built in another way: nothing that it needs changes.
    again = not short_of(pins, before) if pins else False
    if compiled(what) or "wheel" in what:
        options.update(no_cache=compiled(what), force=again)
        options["no_deps"] = options["no_deps"] or again
    copy = ""
    lines = list(what.get("requirements", []))
    indexes = sources(env.spec, [what["index"]] if what.get("index") else [])
    variables = what.get("environment") or {}
    known = env.record.get("steps", {})
    env.remember(steps={name: said for name, said in known.items() if name != what["name"]})
    if "sha256" in what:
        # pip wants checksums of all or of none: first the one file alone, then what it needs.
        hashed = [f"{line} --hash=sha256:{what['sha256']}" for line in lines]
        pip(env, what["name"], {"no_deps": True}, indexes + hashed, [])
    if "wheel" in what:
        lines = [what["wheel"]["file"]]
    elif "built" in what:
        lines = glob.glob(os.path.join(glob.escape(what["built"]["folder"]), "*.whl"))
        options.update(no_deps=True, force=True)
        if len(lines) != 1:
            raise EnvError(f"{what['built']['folder']} has {len(lines)} wheels, and needs one")
    elif "tree" in what and what["tree"].get("editable"):
        lines = [f"-e {what['tree']['path']}"]
    elif "tree" in what:
        # A build leaves files in its tree: it gets a copy, always in the same place, which is named
        # in the lock.
        copy = os.path.join(env.home, "build", what["name"])
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(what["tree"]["path"], copy, symlinks=True)
        lines = [copy]
    try:
        pip(env, what["name"], options, indexes + lines, limits, variables)
    finally:
        if copy:
            shutil.rmtree(copy, ignore_errors=True)
    env.refresh()
    faults = short_of(pins, env.packages)
    if faults:
        raise EnvError(f"pip installed {what['name']}, and {'; '.join(faults)}; correct the pin")
    new = [name for name, entry in env.packages.items() if entry != before.get(name)]
    direct = [name for name in new if env.packages[name]["origin"]]
    held = known.get(what["name"], {"holds": {}})["holds"]
    holds = sorted({*held, *direct} & env.packages.keys())
    said = {
        "digest": digest(what),
        "holds": {name: env.packages[name]["version"] for name in holds},
        "torch": env.packages.get("torch", {}).get("version", ""),
    }
    env.remember(steps={**env.record.get("steps", {}), what["name"]: said})


def mirrored(address: str, mirrors: dict[str, str] | None) -> str:
    """The address to use: the longest beginning that a mirror stands for is replaced."""
    fitting = [beginning for beginning in mirrors or {} if address.startswith(beginning)]
    if not mirrors or not fitting:
        return address
    beginning = max(fitting, key=len)
    return mirrors[beginning] + address[len(beginning) :]


def sources(spec: Spec, indexes: list[str]) -> list[str]:
    """Where pip looks, as lines of its requirements file: an address may hold a password.

    A folder of wheels stands for an index where the mirror is a path. Without a choice of ours
    pip's own configuration decides.
    """
    mirrors = spec["mirrors"].get("pip")
    index = spec["index"] or mirrored(INDEX, mirrors)
    lines = []
    if index.startswith("/"):
        lines += ["--no-index", f"--find-links {index}"]
    elif index != INDEX:
        lines += [f"--index-url {index}"]
    for extra in [*indexes, *([spec["extra_index"]] if spec["extra_index"] else [])]:
        address = mirrored(extra, mirrors)
        option = "--find-links" if address.startswith("/") else "--extra-index-url"
        lines += [f"{option} {address}"]
    return [*lines, *([f"--find-links {spec['find_links']}"] if spec["find_links"] else [])]


def pip(
    env: Environment,
    name: str,
    options: Spec,
    lines: list[str],
    limits: list[str],
    variables: dict[str, str] | None = None,
) -> None:
    """Run `pip install` on lines of a requirements file, within the limits."""
    with tempfile.TemporaryDirectory(prefix="trainbench-pip-") as scratch:
        files = [os.path.join(scratch, each) for each in ("requirements.txt", "constraints.txt")]
        write(files[0], "".join(f"{line}\n" for line in lines))
        write(files[1], "".join(f"{line}\n" for line in limits))
        argv = [env.python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
        argv += [flag for key, flag in FLAGS.items() if options.get(key)]
        call(env, name, [*argv, "-r", files[0], "-c", files[1]], variables or {})


def call(env: Environment, name: str, argv: list[str], variables: dict[str, str]) -> None:
    """Run a program, its output in a log of its own; EnvError says how it ended."""
    os.makedirs(os.path.join(env.home, "logs"), exist_ok=True)
    log = os.path.join(env.home, "logs", re.sub(r"[^A-Za-z0-9._-]", "_", name) + ".log")
    given = {**env.spec["environment"], **variables}
    path = [os.path.join(env.path, "bin"), os.environ.get("PATH", os.defpath)]
    if given.get("CUDA_HOME"):
        path.insert(1, os.path.join(given["CUDA_HOME"], "bin"))
    with open(log, "w", encoding="utf-8") as file:
        done = subprocess.run(
            argv,
            env=clean({**given, "PATH": os.pathsep.join(path)}),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=env.home,
        )
    if done.returncode != 0:
        raise EnvError(failure(name, read(log), log))


def failure(name: str, output: str, log: str) -> str:
    """Why a program failed: one sentence where the reason is known, else the end of its log."""
    if "No space left on device" in output:
        return f"the disk is full while installing {name}; free some space and run setup again"
    lines = [line for line in output.splitlines() if line.strip()]
    for line in lines:
        if line.startswith("ERROR: No matching distribution found for "):
            return (
                f"{line[7:]} (step {name}); correct the pin, or name an index that has it with "
                "python_env_index_url"
            )
    return f"{name} cannot be installed; {log} ends with:\n" + "\n".join(lines[-LOG_LINES:])


COMMANDS = {"look": look, "create": create, "step": step, "verify": verify}


def main() -> int:
    """Run the command line; the exit code."""
    try:
        said = COMMANDS[sys.argv[1]](Environment(json.load(sys.stdin)))
    except (EnvError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(said, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())

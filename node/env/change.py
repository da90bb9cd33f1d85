"""Everything that changes an environment: it is made, repaired, and gets its steps."""

from __future__ import annotations

import glob
import os
import shutil
from typing import TYPE_CHECKING

from node.files import write_text
from node.validated_text import Pin

from .cpu_wheels import cpu_index, for_cpus
from .environment import EnvError, Environment
from .indexes import sources
from .interpreter import config_program
from .lock import frozen, header
from .pins import numbers, pins_of, short_of, split
from .pip import call, pip
from .plan import compiled, digest

if TYPE_CHECKING:
    from .pins import Spec

# An older pip is replaced by the last one that every Python from 3.7 on can have.
PIP_SINCE = (20, 3)
PIP = "23.0.1"


def create(spec: Spec) -> Spec:
    """Make the empty environment, in the place of one that cannot be used."""
    env = Environment(spec)
    os.makedirs(env.home, exist_ok=True)
    for path in (env.lock_file, env.record_file, env.path):
        if os.path.islink(path) or os.path.isfile(path):
            os.unlink(path)
    shutil.rmtree(env.path, ignore_errors=True)
    maker, path = env.spec["do"]["make"], env.spec["do"]["from"]
    if maker == "venv":
        call(env, "venv", [path, "-m", "venv", env.path], {})
    env.refresh()
    if maker == "venv":
        write_config(env)
    if maker == "venv" and "pip" not in pins_of(env.steps) and numbers(env.pip()) < PIP_SINCE:
        # Ubuntu 20.04's says nowhere what it installed from an address.
        try:
            pip(env, "pip", {}, [*sources(env.spec, []), f"pip=={PIP}"], [])
        except EnvError as error:
            raise EnvError(
                f"pip {env.pip()} of {path} is too old, and pip {PIP} cannot be had: {error}; name "
                "one that the index has first among the pins, such as in `build`"
            ) from None
    env.record = {}
    env.remember(made=maker, pending=True, **({"from": path} if maker == "venv" else {}))
    return {}


def write_config(env: Environment) -> None:
    """Give a venv its python3-config."""
    text = config_program(env.facts)
    if text:
        write_text(env.config, text)
        os.chmod(env.config, 0o755)  # noqa: S103  # a program that everybody runs


def step(spec: Spec) -> Spec:
    """Do one thing of look's list."""
    env = Environment(spec)
    do = env.spec["do"]
    if do["what"] == "config":
        write_config(env)
        return {}
    if do["what"] == "lock":
        write_text(env.lock_file, "\n".join([header(env.version), *frozen(env.packages)]) + "\n")
        env.remember(pending=False)
        return {}
    env.remember(pending=True)
    if do["what"] == "repair":
        repair(env, do["install"], do["remove"])
    else:
        install(env, next(candidate for candidate in env.steps if candidate["name"] == do["name"]))
    return {}


def repair(env: Environment, pins: list[str], remove: list[str]) -> None:
    """Bring packages back to the lock: those alone, no dependency with them."""
    if remove:
        argv = [env.python, "-m", "pip", "uninstall", "--yes", "--disable-pip-version-check"]
        call(env, "repair", [*argv, *remove], {})
    if pins:
        indexes = [item["index"] for item in env.steps if item.get("index")]
        lines = sources(env.spec, indexes)
        if any(record.get("cpu_index") for record in env.record.get("steps", {}).values()):
            lines += cpu_index(env.spec)
        pip(env, "repair", {"no_deps": True}, lines + pins, [])


def install(env: Environment, item: Spec) -> None:
    """One step. Its pins are asked for afterwards: pip's success alone does not prove them."""
    before, pins = env.packages, pins_of([item])
    every = pins_of(env.steps)
    limits = [f"{name}=={version}" for name, version in every.items() if name not in pins]
    constraints = [
        Pin(line, "constraints") for line in env.spec["constraints"]
    ]  # another node's, too
    limits += [line for line in constraints if split(line)[0] not in every]
    options = {key: item.get(key) for key in ("no_deps", "no_build_isolation")}
    # The same version again, built in another way: nothing that it needs changes.
    again = not short_of(pins, before) if pins else False
    if compiled(item) or "wheel" in item:
        options.update(no_cache=compiled(item), force=again)
        options["no_deps"] = options["no_deps"] or again
    copy = ""
    lines = list(item.get("requirements", []))
    indexes = sources(env.spec, [item["index"]] if item.get("index") else [])
    without_cuda = for_cpus(env, lines, indexes)
    indexes += without_cuda
    variables = item.get("environment") or {}
    steps = env.record.get("steps", {})
    env.remember(steps={name: entry for name, entry in steps.items() if name != item["name"]})
    if "sha256" in item:
        # pip wants checksums of all or of none: first the one file alone, then what it needs.
        hashed = [f"{line} --hash=sha256:{item['sha256']}" for line in lines]
        pip(env, item["name"], {"no_deps": True}, indexes + hashed, [])
    if "wheel" in item:
        lines = [item["wheel"]["file"]]
    elif "built" in item:
        lines = glob.glob(os.path.join(glob.escape(item["built"]["folder"]), "*.whl"))
        options.update(no_deps=True, force=True)
        if len(lines) != 1:
            raise EnvError(f"{item['built']['folder']} has {len(lines)} wheels, and needs one")
    elif "tree" in item and item["tree"].get("editable"):
        lines = [f"-e {item['tree']['path']}"]
    elif "tree" in item:
        # A build leaves files in its tree: it gets a copy, always in the same place, which is named
        # in the lock.
        copy = os.path.join(env.home, "build", item["name"])
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(item["tree"]["path"], copy, symlinks=True)
        lines = [copy]
    try:
        pip(env, item["name"], options, indexes + lines, limits, variables)
    finally:
        if copy:
            shutil.rmtree(copy, ignore_errors=True)
    env.refresh()
    faults = short_of(pins, env.packages)
    if faults:
        raise EnvError(f"pip installed {item['name']}, and {'; '.join(faults)}; correct the pin")
    new = [name for name, entry in env.packages.items() if entry != before.get(name)]
    direct = [name for name in new if env.packages[name]["origin"]]
    before_step = steps.get(item["name"], {"holds": {}})["holds"]
    holds = sorted({*before_step, *direct} & env.packages.keys())
    entry = {
        "digest": digest(item),
        "holds": {name: env.packages[name]["version"] for name in holds},
        "torch": env.packages.get("torch", {}).get("version", ""),
        **({"cpu_index": True} if without_cuda else {}),
    }
    env.remember(steps={**env.record.get("steps", {}), item["name"]: entry})

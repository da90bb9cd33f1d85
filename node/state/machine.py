"""Reads the machine: its packages, files, services, commands' words, our ledger."""

from __future__ import annotations

import glob
import json
import os
import subprocess
from typing import Any

from .compare import MachineState, applies, last_words
from .packages import FORMAT, Package, parse_listing
from .repositories import SOURCES, configured, keyring, sources
from .spec import Spec, StateError

ROOT = os.environ.get("TRAINBENCH_TEST_ROOT", "")  # unit tests alone set it
LEDGERS = f"{ROOT}/var/lib/trainbench"
CHECK_S = 60
# A plain user's PATH may lack the sbin folders.
SEARCH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"


def read_bytes(path: str) -> bytes | None:
    """A file, or None where we may read none."""
    try:
        with open(ROOT + path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError, PermissionError, IsADirectoryError):
        return None


def read_file(path: str) -> tuple[str, str] | None:
    """A file's text and mode."""
    data = read_bytes(path)
    if data is None:
        return None
    mode = os.stat(ROOT + path).st_mode & 0o7777
    return data.decode("utf-8", "surrogateescape"), f"{mode:04o}"


def run(argv: list[str], seconds: float = CHECK_S) -> tuple[int, str]:
    """A command's exit code and words; a missing one is 127."""
    env = {**os.environ, "LC_ALL": "C", "PATH": SEARCH}
    try:
        completed = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            timeout=seconds,
        )
    except OSError:
        return 127, f"{argv[0]} is not installed"
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {seconds:g} s"
    return completed.returncode, completed.stdout.decode("utf-8", "replace")


def read_services(names: list[str]) -> dict[str, dict[str, bool] | None]:
    """Whether each is enabled and runs; None for one that is not there."""
    services: dict[str, dict[str, bool] | None] = {}
    if names and os.path.isdir(f"{ROOT}/run/systemd/system"):
        fields = ["--property=Id,LoadState,ActiveState,UnitFileState"]
        units = [f"{name}.service" for name in names]
        _, text = run(["systemctl", "show", *fields, *units])
        for name, block in zip(names, text.strip().split("\n\n")):  # Python 3.8
            state = dict(line.partition("=")[::2] for line in block.splitlines())
            running = state.get("ActiveState") in ("active", "reloading", "activating")
            enabled = state.get("UnitFileState", "").startswith(("enabled", "static", "alias"))
            loaded = state.get("LoadState") not in ("not-found", None)
            services[name] = {"enabled": enabled, "running": running} if loaded else None
        return services
    for name in names:
        script = f"{ROOT}/etc/init.d/{name}"
        if not os.access(script, os.X_OK):
            services[name] = None
            continue
        links = glob.glob(f"{ROOT}/etc/rc[2345].d/S[0-9][0-9]{name}")
        services[name] = {"enabled": bool(links), "running": run([script, "status"])[0] == 0}
    return services


def read_packages() -> dict[str, Package]:
    """All that dpkg knows. Raises StateError where it knows nothing."""
    argv = ["dpkg-query", f"--admindir={ROOT}/var/lib/dpkg", "--show", f"--showformat={FORMAT}"]
    code, text = run(argv)
    packages = parse_listing(text)
    if code == 127:
        raise StateError("this node has no dpkg; TrainBench installs on Debian and Ubuntu")
    if code or not packages:
        raise StateError(
            f"dpkg-query lists no packages ({last_words(text)}); repair the dpkg database"
        )
    return packages


def read_ledger(name: str) -> dict[str, Any]:
    """The role's ledger; empty without one, or where we may not read it."""
    try:
        with open(f"{LEDGERS}/{name}.json", encoding="utf-8") as file:
            return dict(json.load(file))
    except (FileNotFoundError, PermissionError):
        return {}
    except ValueError:
        raise StateError(
            f"{LEDGERS}/{name}.json is damaged; setup cannot tell what it installed: restore it,"
            " or move it away to count all that is there now as installed by others"
        ) from None


def read_machine(spec: Spec) -> MachineState:
    """All that a comparison asks, read once."""
    ledger = read_ledger(spec["name"])
    own_files = {sources(repository)["path"] for repository in spec["repositories"]}
    paths = {item["path"] for item in spec["files"]} | own_files | set(ledger.get("files", {}))
    foreign: set[tuple[str, str]] = set()
    for path in ["/etc/apt/sources.list", *glob.glob(f"{ROOT}{SOURCES}/*")]:
        path = path[len(ROOT) :] if ROOT and path.startswith(ROOT) else path
        if path not in own_files and path.endswith((".list", ".sources")):
            foreign |= configured(path, (read_file(path) or ("", ""))[0])
    conditions = ("only_with", "unless")
    candidates = [
        item[key] for item in spec["files"] + spec["made"] for key in conditions if item.get(key)
    ]
    for item in spec["made"]:
        candidates += item.get("paths", []) + item.get("leftovers", [])
    candidates += [path for item in ledger.get("made", {}).values() for path in item["paths"]]
    candidates += list(ledger.get("files", {}))
    machine = MachineState(
        packages=read_packages(),
        files={path: read_file(path) for path in sorted(paths)},
        keys={
            repository["name"]: read_bytes(keyring(repository))
            for repository in spec["repositories"]
        },
        foreign=foreign,
        services=read_services(
            [service["name"] for service in spec["services"]] + sorted(ledger.get("services", {}))
        ),
        paths={path for path in candidates if os.path.lexists(ROOT + path)},
        links={
            path: os.readlink(ROOT + path) for path in candidates if os.path.islink(ROOT + path)
        },
        ledger=ledger,
    )
    for item in spec["made"]:
        if applies(item, machine):
            machine.made[item["what"]] = run(item["argv"], item.get("seconds", CHECK_S))[1]
    return machine

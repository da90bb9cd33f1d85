"""A machine's packages, files and services: what is there, what is wanted, and what was found.

    python3 state.py look < SPEC     print the differences and what would mend them; change nothing
    python3 state.py verify < SPEC   fail with the differences
    python3 state.py begin < SPEC    write down what the machine is like before a change
    python3 state.py wanted < SPEC   print what apt would be asked for, and its sources
    python3 state.py key < SPEC      install repositories' keys that were fetched, if they are right
    python3 state.py finish < SPEC   write down what the change made new; fail if something differs
    python3 state.py account < SPEC  the same after a failure: fails for nothing that differs
    python3 state.py undo < SPEC     print what takes it all off again; change nothing
    python3 state.py forget < SPEC   remove the ledger, or say what could not be taken off

SPEC is JSON; roles/node_state/meta/argument_specs.yml says what its lists hold. Runs on the node
by its own Python (3.8 or newer). What goes wrong is one sentence on stderr, and exit code 1.

The ledger, /var/lib/trainbench/<name>.json, holds what was new because of us: never more, so that
removal leaves what was found. While a change is under way it also holds the list of packages from
before, which a change that dies leaves there for the next one to compare with.
"""

from __future__ import annotations

import base64
import fnmatch
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable  # noqa: UP035  # Python 3.8

ROOT = os.environ.get("TRAINBENCH_TEST_ROOT", "")  # unit tests alone set it
LEDGERS = f"{ROOT}/var/lib/trainbench"
KEYRINGS = "/etc/apt/keyrings"
SOURCES = "/etc/apt/sources.list.d"
STATUS = f"{ROOT}/var/lib/dpkg/status"
# What Ansible's apt module installs for itself where it is missing: ours to take off again.
TOOLS = ("python3-apt",)
INSTALLED = ("installed", "triggers-awaited", "triggers-pending")
CHECK_S = 60
# A plain user's PATH may lack the sbin folders.
SEARCH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
Spec = Dict[str, Any]  # noqa: UP006  # Python 3.8 takes no dict[...] outside of annotations


class StateError(Exception):
    """What is wrong, in one sentence with the cure."""


# --- packages: pure -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Package:
    """One entry of dpkg's status file. Each group of ``needs`` is met by any one of its names."""

    name: str
    version: str
    state: str
    held: bool = False
    needs: tuple[tuple[str, ...], ...] = ()
    wishes: tuple[tuple[str, ...], ...] = ()
    provides: tuple[str, ...] = ()


def relation(text: str) -> tuple[tuple[str, ...], ...]:
    """`a (>= 1) | b:any, c` as groups of names, versions and architectures left out."""
    groups = (group.split("|") for group in text.split(",") if group.strip())
    return tuple(tuple(re.split(r"[\s:(\[<]", name.strip())[0] for name in each) for each in groups)


def parse_status(text: str) -> dict[str, Package]:
    """Dpkg's status file by package name; a foreign architecture's is called `name:arch`."""
    entries = []
    native = "all"
    for paragraph in text.split("\n\n"):
        fields: dict[str, str] = {}
        key = ""
        for line in paragraph.splitlines():
            if line[:1] in " \t":
                if key in ("Depends", "Pre-Depends", "Recommends", "Provides"):
                    fields[key] += line
            else:
                key, _, value = line.partition(":")
                fields[key] = value.strip()
        if "Package" in fields:
            entries.append(fields)
            if fields["Package"] == "dpkg":
                native = fields.get("Architecture", native)
    packages = {}
    for fields in entries:
        name, arch = fields["Package"], fields.get("Architecture", "all")
        if arch not in ("all", native):
            name = f"{name}:{arch}"
        want, _, state = fields.get("Status", "unknown ok not-installed").split(" ")
        needs = ", ".join(fields[key] for key in ("Pre-Depends", "Depends") if fields.get(key))
        provides = relation(fields.get("Provides", ""))
        packages[name] = Package(
            name=name,
            version=fields.get("Version", ""),
            state=state,
            held=want == "hold",
            needs=relation(needs),
            wishes=relation(fields.get("Recommends", "")),
            provides=tuple(names[0] for names in provides),
        )
    return packages


def present(packages: dict[str, Package]) -> dict[str, Package]:
    """Those that are installed, whole."""
    return {name: each for name, each in packages.items() if each.state in INSTALLED}


def interrupted(packages: dict[str, Package]) -> list[str]:
    """Those that dpkg began and did not end."""
    whole = (*INSTALLED, "not-installed", "config-files")
    return sorted(name for name, each in packages.items() if each.state not in whole)


def providers(packages: dict[str, Package]) -> dict[str, set[str]]:
    """Each name, real or virtual, to the packages that stand for it."""
    found: dict[str, set[str]] = {}
    for name, each in packages.items():
        for called in (name, name.partition(":")[0], *each.provides):
            found.setdefault(called, set()).add(name)
    return found


def reached(packages: dict[str, Package], roots: Iterable[str]) -> set[str]:
    """The installed packages that the roots depend on or recommend, at any remove, and the roots.

    A package that recommends another is enough: apt installs those too.
    """
    by_name = providers(packages)
    found: set[str] = set()
    ahead = [name for root in roots for name in by_name.get(root, ())]
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            groups = packages[name].needs + packages[name].wishes
            ahead += [one for group in groups for word in group for one in by_name.get(word, ())]
    return found


def removable(packages: dict[str, Package], ours: Iterable[str]) -> tuple[set[str], dict[str, str]]:
    """Which of ours can go, and those that stay, each with a package that needs it."""
    by_name = providers(packages)
    going = {name for name in ours if name in packages}
    kept: dict[str, str] = {}
    again = True
    while again:
        again = False
        for name, each in packages.items():
            if name in going:
                continue
            for group in each.needs:
                standing = {one for word in group for one in by_name.get(word, ())}
                if standing and standing <= going:
                    going -= standing
                    kept.update(dict.fromkeys(standing, name))
                    again = True
    return going, kept


def split(item: str) -> tuple[list[str], str]:
    """`name=version` or `name | alternative` as names and a version, empty for any."""
    names, _, version = item.partition("=")
    return [name.strip() for name in names.split("|")], version.strip()


def satisfies(have: str, wanted: str) -> bool:
    """Whether a version is the wanted one, which may end in `*`."""
    return not wanted or fnmatch.fnmatchcase(have, wanted)


# --- keys: pure -----------------------------------------------------------------------------------


def dearmor(data: bytes) -> bytes:
    """The bytes of an OpenPGP key, whether or not it comes as text."""
    if b"-----BEGIN PGP PUBLIC KEY BLOCK-----" not in data:
        return data
    out = b""
    for block in data.split(b"-----BEGIN PGP PUBLIC KEY BLOCK-----")[1:]:
        body = block.split(b"-----END PGP")[0].replace(b"\r", b"").strip(b"\n")
        # headers such as `Version: ...` end with an empty line; the last line is a checksum
        lines = [line.strip() for line in body.split(b"\n")]
        kept = [line for line in lines if line and b":" not in line and not line.startswith(b"=")]
        out += base64.b64decode(b"".join(kept))
    return out


def fingerprints(data: bytes) -> list[str]:
    """Fingerprints of the primary keys in a keyring (RFC 4880: SHA-1 over the key's packet)."""
    found = []
    at = 0
    while at < len(data):
        tag = data[at]
        if not tag & 0x80:
            raise ValueError("not an OpenPGP key")
        if tag & 0x40:  # new format
            kind, first = tag & 0x3F, data[at + 1]
            if first < 192:
                size, start = first, at + 2
            elif first < 224:
                size, start = ((first - 192) << 8) + data[at + 2] + 192, at + 3
            else:
                size, start = int.from_bytes(data[at + 2 : at + 6], "big"), at + 6
        else:
            kind, width = (tag >> 2) & 0x0F, 1 << (tag & 3)
            size, start = int.from_bytes(data[at + 1 : at + 1 + width], "big"), at + 1 + width
        body = data[start : start + size]
        if kind == 6:
            whole = b"\x99" + len(body).to_bytes(2, "big") + body
            found.append(hashlib.sha1(whole).hexdigest().upper())  # noqa: S324  # what the format says
        at = start + size
    return found


def key_fault(data: bytes | None, expected: list[str]) -> str:
    """What is wrong with a keyring, empty for nothing: every key in it must be an expected one."""
    if data is None:
        return "missing"
    try:
        found = fingerprints(dearmor(data))
    except (ValueError, IndexError):
        return "not an OpenPGP key"
    wanted = {each.replace(" ", "").upper() for each in expected}
    if not found:
        return "empty"
    if set(found) <= wanted:
        return ""
    return f"key {', '.join(found)}, not {' or '.join(sorted(wanted))}"


def wrong_key(repository: Spec, fault: str) -> str:
    """What to say of a key that is not the expected one."""
    return (
        f"what {repository['key']} gives is not the key of repository {repository['name']}: "
        f"{fault}; correct the mirror, or name its own key in site_apt_fingerprints"
    )


# --- repositories: pure ---------------------------------------------------------------------------


def keyring(repository: Spec) -> str:
    """Where a repository's key lies."""
    return f"{KEYRINGS}/trainbench-{repository['name']}.gpg"


def sources(repository: Spec) -> dict[str, Any]:
    """The file that names a repository to apt."""
    lines = [
        "# Written by TrainBench's role node_state.",
        "Types: deb",
        f"URIs: {repository['uri']}",
        f"Suites: {repository['suite']}",
    ]
    if repository.get("components"):
        lines.append(f"Components: {repository['components']}")
    lines.append(f"Signed-By: {keyring(repository)}")
    path = f"{SOURCES}/trainbench-{repository['name']}.sources"
    return {"path": path, "content": "\n".join(lines) + "\n", "mode": "0644"}


def configured(path: str, text: str) -> set[tuple[str, str]]:
    """The (address, suite) pairs that one of apt's files names."""
    pairs = set()
    if path.endswith(".sources"):
        for paragraph in re.split(r"\n\s*\n", text):
            fields = dict(re.findall(r"^([\w-]+):[ \t]*(.*)$", paragraph, flags=re.MULTILINE))
            fields = {key.lower(): value for key, value in fields.items()}
            if fields.get("enabled", "yes").strip().lower() != "no":
                for uri in fields.get("uris", "").split():
                    pairs |= {(uri.rstrip("/"), s) for s in fields.get("suites", "").split()}
    else:
        for line in text.splitlines():
            found = re.match(r"deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)", line.strip())
            if found:
                pairs.add((found[1].rstrip("/"), found[2]))
    return pairs


# --- the wanted and the present -------------------------------------------------------------------


@dataclass
class Machine:
    """What was read from the machine: all that the comparison knows."""

    packages: dict[str, Package] = field(default_factory=dict)
    files: dict[str, tuple[str, str] | None] = field(default_factory=dict)  # text and mode
    keys: dict[str, bytes | None] = field(default_factory=dict)
    foreign: set[tuple[str, str]] = field(default_factory=set)  # repositories of other files
    services: dict[str, dict[str, bool] | None] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)  # what a check said
    paths: set[str] = field(default_factory=set)  # of those asked for, the ones that exist
    links: dict[str, str] = field(default_factory=dict)  # those that are links, with their targets
    ledger: dict[str, Any] = field(default_factory=dict)


def own_repositories(spec: Spec, machine: Machine) -> list[Spec]:
    """Those that nobody else has configured: two files for one would be an error of apt's."""
    return [
        each
        for each in spec["repositories"]
        if (each["uri"].rstrip("/"), each["suite"]) not in machine.foreign
    ]


def applies(item: Spec, machine: Machine) -> bool:
    """Whether an item is for this machine."""
    if item.get("only_with") and item["only_with"] not in machine.paths:
        return False
    return not (item.get("unless") and item["unless"] in machine.paths)


def wanted_text(item: Spec, have: str | None) -> str:
    """A file's wanted text; wanted keys of a JSON file are merged into those that are there."""
    if "merge" not in item:
        return str(item["content"])
    try:
        there = json.loads(have) if have and have.strip() else {}
    except ValueError:
        raise StateError(f"{item['path']} is no JSON; correct it and run setup again") from None

    def merge(old: Any, new: Any) -> Any:
        if not isinstance(old, dict) or not isinstance(new, dict):
            return new
        return {**old, **{key: merge(old.get(key), value) for key, value in new.items()}}

    merged = merge(there, item["merge"])
    return str(have) if merged == there and have else json.dumps(merged, indent=2) + "\n"


def compare(spec: Spec, machine: Machine) -> dict[str, Any]:
    """The differences in words, and what mends them."""
    said: list[str] = []
    todo: dict[str, Any] = {
        "keys": [], "apt_files": [], "files": [], "packages": [], "unhold": [], "hold": [],
        "after": [], "enable": [], "restart": [], "make": [],
    }  # fmt: skip
    for each in own_repositories(spec, machine):
        fault = key_fault(machine.keys.get(each["name"]), each["fingerprints"])
        if fault:
            said.append(f"repository {each['name']}: {fault}")
            todo["keys"].append({"url": each["key"], "name": each["name"]})
    _compare_packages(spec, machine, said, todo)
    _compare_files(spec, machine, said, todo)
    _compare_services(spec, machine, said, todo)
    for item in spec["made"]:
        if applies(item, machine) and not re.search(item["expect"], machine.made[item["what"]]):
            answer = machine.made[item["what"]].strip().splitlines()
            said.append(f"{item['what']}: {answer[-1] if answer else 'says nothing'}")
            if item.get("make"):
                todo["make"].append(item["what"])
    return {
        "differences": said,
        "todo": todo,
        "interrupted": interrupted(machine.packages),
        "there": sorted(machine.paths),
        "links": machine.links,
        "installed": {
            name: each.version
            for name, each in sorted(present(machine.packages).items())
            if name in {one for item in spec["packages"] for one in split(item)[0]}
        },
    }


def to_hold(spec: Spec, machine: Machine, held: bool) -> list[str]:
    """Installed packages that the rules hold; those that are held, or those that are not."""
    names = set()
    for rule in spec["held"]:
        for name, each in present(machine.packages).items():
            matches = any(fnmatch.fnmatchcase(name, pattern) for pattern in rule["names"])
            if matches and satisfies(each.version, rule.get("version", "")) and each.held == held:
                names.add(name)
    return sorted(names)


def _compare_packages(spec: Spec, machine: Machine, said: list[str], todo: Spec) -> None:
    there = present(machine.packages)
    for item in spec["packages"]:
        names, version = split(item)
        have = next((there[name] for name in names if name in there), None)
        wanted = f"{names[0]}={version}" if version else names[0]
        if have is None:
            broken = machine.packages.get(names[0])
            half = broken is not None and names[0] in interrupted(machine.packages)
            said.append(
                f"package {names[0]}: {broken.state if half and broken else 'not installed'}"
            )
            todo["packages"].append(wanted)
        elif not satisfies(have.version, version):
            said.append(f"package {have.name}: {have.version}, not {version}")
            todo["packages"].append(wanted)
    if todo["packages"]:  # apt moves no held package for one that it is asked for
        ours = {*machine.ledger.get("held", []), *machine.ledger.get("packages", {})}
        todo["unhold"] = sorted(name for name in ours if name in there and there[name].held)
    todo["hold"] = to_hold(spec, machine, held=False)
    said += [f"package {name}: not held" for name in todo["hold"]]


def _compare_files(spec: Spec, machine: Machine, said: list[str], todo: Spec) -> None:
    owed = machine.ledger.get("owed", {})
    apt_files = [sources(each) for each in own_repositories(spec, machine)]
    changed = set()
    for item in apt_files + spec["files"]:
        if not applies(item, machine):
            continue
        path, mode = item["path"], item.get("mode", "0644")
        have = machine.files.get(path)
        text = wanted_text(item, have[0] if have else None)
        if have is None:
            said.append(f"file {path}: missing")
        elif have[0] != text:
            said.append(f"file {path}: edited")
        elif have[1] != mode:
            said.append(f"file {path}: mode {have[1]}, not {mode}")
        else:
            continue
        changed.add(path)
        # apt's own must be there before it installs, the others after, beside the package's
        kind = "apt_files" if path.startswith("/etc/apt/") else "files"
        todo[kind].append({"path": path, "content": text, "mode": mode})
    for item in spec["files"]:
        if item.get("after") and (
            item["path"] in changed or item["after"] in owed.get("after", [])
        ):
            if item["path"] not in changed:
                said.append(f"file {item['path']}: {' '.join(item['after'])} has not run since")
            if item["after"] not in todo["after"]:
                todo["after"].append(item["after"])
    for each in spec["services"]:
        stale = changed & set(each.get("files", []))
        if stale or each["name"] in owed.get("restart", []):
            todo["restart"].append(each["name"])
            if not stale:
                said.append(f"service {each['name']}: not restarted since its file changed")


def _compare_services(spec: Spec, machine: Machine, said: list[str], todo: Spec) -> None:
    for each in spec["services"]:
        name = each["name"]
        have = machine.services.get(name)
        if have is None:
            said.append(f"service {name}: there is none")
        elif not have["running"]:
            said.append(f"service {name}: stopped")
        elif not have["enabled"]:
            said.append(f"service {name}: not enabled")
        else:
            continue
        todo["enable"].append(name)


# --- the ledger: pure -----------------------------------------------------------------------------


def before(spec: Spec, machine: Machine, todo: Spec) -> dict[str, Any]:
    """The ledger as it is written before a change."""
    ledger: dict[str, Any] = {
        "schema": 1, "packages": {}, "removed": {}, "changed": {}, "held": [], "files": {},
        "services": {}, "made": {}, **machine.ledger,
    }  # fmt: skip
    ledger["role"] = spec["name"]
    there = {name: each.version for name, each in present(machine.packages).items()}
    ledger.setdefault("before", there)
    held_before = [name for name, each in machine.packages.items() if each.held]
    ledger.setdefault("held_before", held_before)
    for item in todo["apt_files"] + todo["files"]:
        have = machine.files.get(item["path"])
        old = {"content": have[0], "mode": have[1]} if have else None
        ledger["files"].setdefault(item["path"], {"old": old})
        ledger["files"][item["path"]]["sha256"] = sha256(item["content"])
    for key in todo["keys"]:
        path = keyring({"name": key["name"]})
        if machine.keys.get(key["name"]) is None:
            ledger["files"].setdefault(path, {"old": None})
    for name in todo["enable"]:  # None: it comes with a package
        ledger["services"].setdefault(name, machine.services.get(name))
    for item in spec["made"]:
        if item["what"] in todo["make"]:
            paths = [path for path in item.get("paths", []) if path not in machine.paths]
            made = {"unmake": item.get("unmake", []), "paths": paths}
            ledger["made"].setdefault(item["what"], made)
    ledger["owed"] = {"restart": todo["restart"], "after": todo["after"]}
    return ledger


def account(spec: Spec, machine: Machine, done: bool) -> dict[str, Any]:
    """The ledger after a change, whole or broken off: what is new because of us."""
    ledger = dict(machine.ledger)
    if "before" not in ledger:  # nothing was begun
        return ledger
    found: dict[str, str] = ledger.pop("before")
    held_before = ledger.pop("held_before")
    now = {name: each.version for name, each in present(machine.packages).items()}
    roots = [name for item in spec["packages"] for name in split(item)[0]] + list(TOOLS)
    new = (set(now) - set(found)) & reached(present(machine.packages), roots)
    ledger["packages"] = {**ledger["packages"], **{name: now[name] for name in sorted(new)}}
    gone = {name: version for name, version in found.items() if name not in now}
    ledger["removed"] = {**gone, **ledger["removed"]}
    for name, version in found.items():
        if name in now and now[name] != version and name not in ledger["packages"]:
            ledger["changed"].setdefault(name, version)
    held = set(to_hold(spec, machine, held=True)) - set(held_before)
    ledger["held"] = sorted(set(ledger["held"]) | held)
    if done:
        ledger.pop("owed", None)
    else:  # a dependency whose root is not there yet is counted when the change is whole
        ledger.update(before=found, held_before=held_before)
    return ledger


def undo(machine: Machine) -> dict[str, Any]:
    """What takes off all that the ledger has, and what stays and why."""
    ledger = machine.ledger
    there = present(machine.packages)
    going, needed = removable(there, ledger.get("packages", {}))
    stays = [f"package {name}: {by} needs it" for name, by in sorted(needed.items())]
    files, gone = [], []
    for path, item in ledger.get("files", {}).items():
        have = machine.files.get(path)
        if item["old"] is None:
            if have is not None or path in machine.paths:
                gone.append(path)
        elif have is not None and sha256(have[0]) == item.get("sha256"):
            files.append({"path": path, **item["old"]})
        elif have is not None and have[0] != item["old"]["content"]:
            stays.append(f"file {path}: somebody edited it since")
    held = set(ledger.get("held", []))
    services = [
        (name, state)
        for name, state in ledger.get("services", {}).items()
        if machine.services.get(name) not in (None, state)
    ]
    changed = {
        name: version
        for name, version in ledger.get("changed", {}).items()
        if name in there and there[name].version != version
    }
    return {
        "unhold": sorted(name for name in held if name in there and there[name].held),
        "remove": sorted(going),
        # the versions that were found, where apt still has them
        "install": sorted(n for n in ledger.get("removed", {}) if n not in there),
        "downgrade": sorted(f"{name}={version}" for name, version in changed.items()),
        "restore": files,
        "delete": gone,
        "stop": [name for name, state in services if state is None],
        "services": [{"name": name, **state} for name, state in services if state is not None],
        "unmake": [
            {"what": what, **item}
            for what, item in ledger.get("made", {}).items()
            if any(path in machine.paths for path in item["paths"])
        ],
        "stays": stays,
        "ledger": bool(ledger),
    }


def sha256(text: str) -> str:
    """Of a file's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


# --- effects --------------------------------------------------------------------------------------


def read_bytes(path: str) -> bytes | None:
    """A file, or None where there is none that we may read."""
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
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            timeout=seconds,
        )
    except OSError:
        return 127, f"{argv[0]} is not there"
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {seconds:g} s"
    return done.returncode, done.stdout.decode("utf-8", "replace")


def read_services(names: list[str]) -> dict[str, dict[str, bool] | None]:
    """Whether each is enabled and runs; None for one that is not there."""
    found: dict[str, dict[str, bool] | None] = {}
    if names and os.path.isdir(f"{ROOT}/run/systemd/system"):
        fields = ["--property=Id,LoadState,ActiveState,UnitFileState"]
        units = [f"{name}.service" for name in names]
        _, text = run(["systemctl", "show", *fields, *units])
        for name, block in zip(names, text.strip().split("\n\n")):  # noqa: B905  # Python 3.8
            state = dict(line.partition("=")[::2] for line in block.splitlines())
            running = state.get("ActiveState") in ("active", "reloading", "activating")
            enabled = state.get("UnitFileState", "").startswith(("enabled", "static", "alias"))
            loaded = state.get("LoadState") not in ("not-found", None)
            found[name] = {"enabled": enabled, "running": running} if loaded else None
        return found
    for name in names:
        script = f"{ROOT}/etc/init.d/{name}"
        if not os.access(script, os.X_OK):
            found[name] = None
            continue
        links = glob.glob(f"{ROOT}/etc/rc[2345].d/S[0-9][0-9]{name}")
        found[name] = {"enabled": bool(links), "running": run([script, "status"])[0] == 0}
    return found


def read_ledger(name: str) -> dict[str, Any]:
    """The role's ledger; empty without one, or where we may not read it."""
    try:
        with open(f"{LEDGERS}/{name}.json", encoding="utf-8") as file:
            return dict(json.load(file))
    except (FileNotFoundError, PermissionError):
        return {}
    except ValueError:
        raise StateError(
            f"{LEDGERS}/{name}.json is damaged; setup cannot tell what it installed: mend it, or "
            "move it away to count all that is there now as found"
        ) from None


def write_ledger(name: str, ledger: dict[str, Any]) -> None:
    """Write it whole or not at all."""
    os.makedirs(LEDGERS, mode=0o755, exist_ok=True)
    handle, path = tempfile.mkstemp(dir=LEDGERS, prefix=f".{name}.")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            json.dump(ledger, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path, f"{LEDGERS}/{name}.json")
    except BaseException:
        os.unlink(path)
        raise


def read_machine(spec: Spec) -> Machine:
    """All that a comparison asks, read once."""
    try:
        with open(STATUS, encoding="utf-8", errors="replace") as file:
            packages = parse_status(file.read())
    except FileNotFoundError:
        raise StateError(
            "this node has no dpkg; TrainBench installs on Debian and Ubuntu"
        ) from None
    ledger = read_ledger(spec["name"])
    own = {sources(each)["path"] for each in spec["repositories"]}
    paths = {item["path"] for item in spec["files"]} | own | set(ledger.get("files", {}))
    foreign: set[tuple[str, str]] = set()
    for path in ["/etc/apt/sources.list", *glob.glob(f"{ROOT}{SOURCES}/*")]:
        path = path[len(ROOT) :] if ROOT and path.startswith(ROOT) else path
        if path not in own and path.endswith((".list", ".sources")):
            foreign |= configured(path, (read_file(path) or ("", ""))[0])
    asked = [item[key] for item in spec["files"] + spec["made"] for key in ("only_with", "unless")
             if item.get(key)]  # fmt: skip
    for item in spec["made"]:
        asked += item.get("paths", []) + item.get("leftovers", [])
    asked += [path for item in ledger.get("made", {}).values() for path in item["paths"]]
    asked += list(ledger.get("files", {}))
    machine = Machine(
        packages=packages,
        files={path: read_file(path) for path in sorted(paths)},
        keys={each["name"]: read_bytes(keyring(each)) for each in spec["repositories"]},
        foreign=foreign,
        services=read_services(
            [each["name"] for each in spec["services"]] + sorted(ledger.get("services", {}))
        ),
        paths={path for path in asked if os.path.lexists(ROOT + path)},
        links={path: os.readlink(ROOT + path) for path in asked if os.path.islink(ROOT + path)},
        ledger=ledger,
    )
    for item in spec["made"]:
        if applies(item, machine):
            machine.made[item["what"]] = run(item["argv"], item.get("seconds", CHECK_S))[1]
    return machine


def look(spec: Spec) -> dict[str, Any]:
    """Compare."""
    result = compare(spec, read_machine(spec))
    todo = result["todo"]
    folders = {os.path.dirname(item["path"]) for item in todo["apt_files"] + todo["files"]}
    if todo["keys"]:
        folders |= {KEYRINGS, LEDGERS}
    # a node without an initramfs, such as a container, needs none made
    todo["after"] = [argv for argv in todo["after"] if shutil.which(argv[0], path=SEARCH)]
    todo["folders"] = sorted(path for path in folders if not os.path.isdir(ROOT + path))
    return result


def begin(spec: Spec) -> dict[str, Any]:
    """Write down what there is."""
    machine = read_machine(spec)
    todo = compare(spec, machine)["todo"]
    write_ledger(spec["name"], before(spec, machine, todo))
    return {}


def key(spec: Spec) -> dict[str, Any]:
    """Install the keys that were fetched beside the ledgers."""
    for each in spec["repositories"]:
        fetched = f"{LEDGERS}/{each['name']}.key"
        if not os.path.exists(fetched):
            continue
        with open(fetched, "rb") as file:
            data = file.read()
        os.unlink(fetched)
        fault = key_fault(data, each["fingerprints"])
        if fault:
            raise StateError(wrong_key(each, fault))
        path = ROOT + keyring(each)
        with open(path + ".new", "wb") as file:
            file.write(dearmor(data))
        os.chmod(path + ".new", 0o644)
        os.replace(path + ".new", path)
    return {}


def wanted(spec: Spec) -> dict[str, Any]:
    """What apt would be asked for, and the repositories that nobody else has configured."""
    machine = read_machine(spec)
    found = []
    for each in own_repositories(spec, machine):
        try:
            # any scheme: at an air-gapped site a key is a file
            import urllib.request  # a third of the time of a look, which needs none

            with urllib.request.urlopen(each["key"], timeout=CHECK_S) as answer:  # noqa: S310
                data = answer.read()
        except OSError as error:
            why = getattr(error, "reason", error)
            raise StateError(
                f"cannot fetch {each['key']} ({why}); bring that server back or name a mirror in "
                "site_mirrors.apt"
            ) from None
        fault = key_fault(data, each["fingerprints"])
        if fault:
            raise StateError(wrong_key(each, fault))
        text = sources(each)["content"]
        ring = base64.b64encode(dearmor(data)).decode()
        found.append({"name": each["name"], "content": text, "key": ring})
    items = [split(item) for item in spec["packages"]]
    return {
        "name": spec["name"],
        "wanted": [f"{names[0]}={version}" if version else names[0] for names, version in items],
        "lacking": compare(spec, machine)["todo"]["packages"],
        "files": [item for item in spec["files"] if item["path"].startswith("/etc/apt/")],
        "repositories": found,
    }


def finish(spec: Spec, whole: bool) -> dict[str, Any]:
    """Count what is new; with ``whole`` nothing may differ any more."""
    machine = read_machine(spec)
    owed = machine.ledger.get("owed", {})
    machine.ledger["owed"] = {}
    left = compare(spec, machine)["differences"]
    machine.ledger["owed"] = owed
    if "before" in machine.ledger:
        write_ledger(spec["name"], account(spec, machine, done=whole and not left))
    if whole and left:
        raise StateError("setup ran to its end, and yet: " + "; ".join(left))
    return {"differences": left}


def forget(spec: Spec) -> dict[str, Any]:
    """Remove the ledger once nothing of it is left."""
    machine = read_machine(spec)
    plan = undo(machine)
    left = plan["remove"] + plan["install"] + plan["delete"] + [
        path for item in plan["unmake"] for path in item["paths"] if path in machine.paths
    ]  # fmt: skip
    if left:
        raise StateError(f"these could not be undone: {', '.join(left)}; run teardown again")
    if machine.ledger:
        os.unlink(f"{LEDGERS}/{spec['name']}.json")
        if not os.listdir(LEDGERS):
            os.rmdir(LEDGERS)
    return {"stays": plan["stays"]}


def verify(spec: Spec) -> dict[str, Any]:
    """Raises StateError with what differs."""
    if found := look(spec)["differences"]:
        raise StateError("; ".join(found))
    return {}


def main() -> None:
    """Run the command line."""
    steps = {
        "look": look,
        "verify": verify,
        "begin": begin,
        "key": key,
        "wanted": wanted,
        "finish": lambda spec: finish(spec, whole=True),
        "account": lambda spec: finish(spec, whole=False),
        "undo": lambda spec: undo(read_machine(spec)),
        "forget": forget,
    }
    try:
        print(json.dumps(steps[sys.argv[1]](json.load(sys.stdin)), sort_keys=True))
    except (StateError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()

"""Download all that an inventory needs into one folder, for sites without a network.

    python3 prefetch.py < SPEC       SPEC is JSON, written by roles/prefetch/vars/main.yml

Runs on the control node, by the Python that runs Ansible (it needs PyYAML, git, and pip of a
Python of the nodes' version). The folder then has

    pip/                 wheels and source archives, flat
    git/<host>/<path>    bare repositories with the pinned commits, and no more of their history
    apt/<release>/       packages, a flat repository; they came before this program ran
    data/<host>/<path>   files by URL: corpora, single wheels, conda's installer
    manifest.json        every file with its size and checksum, and what stands in place of what

What is there already stays; a download that broke off is gone on with. Prints {"changed": bool},
what was downloaded, and `left_out`: what setup will want and the folder cannot have. Exits 0, or 1
with one sentence that says what is wrong and the cure.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from node import fetch
from node.files import write_text
from node.schema import List, Row, Text, UnfitError
from plugins import datasets
from plugins.filter import mirrors, pins

INDEX = "https://pypi.org/simple"
NODES = List(Row(Text(r"[0-9]{1,3}\.[0-9]{1,3}"), Text(r"[A-Za-z0-9_]*")))  # Python and machine
BLOCK = 1 << 20


class PrefetchError(Exception):
    """What cannot be had, with the cure."""


# --- what is needed (pure) ------------------------------------------------------------------------


@dataclass(frozen=True)
class File:
    """One file by its public address; checksums are empty where nobody states them.

    `kind` is that of its mirror; a dataset's file goes to one node only.
    """

    url: str
    sha256: str = ""
    md5: str = ""
    kind: str = "data"
    dataset: bool = False

    @property
    def path(self) -> str:
        """Where it lies in the folder."""
        parts = urlsplit(self.url)
        path = unquote(parts.path).lstrip("/")
        if not parts.hostname or not path or ".." in path.split("/"):
            raise PrefetchError(f"{self.url} is not the address of a file; correct the pin")
        return f"data/{parts.hostname}/{path}"


@dataclass
class Wheels:
    """One resolution of pip: what goes into one environment."""

    python: str
    requirements: list[str]
    indexes: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    no_deps: bool = False


@dataclass
class Needs:
    """Everything, each once."""

    wheels: list[Wheels] = field(default_factory=list)
    commits: set[tuple[str, str]] = field(default_factory=set)
    files: list[File] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def wheels_of(plan: Mapping[str, Any], python: str) -> list[Wheels]:
    """What pip is asked for by one pin set; `python` is the nodes', unless the pin names one.

    All steps are resolved together, but for those that want no dependencies.
    """
    found = []
    for no_deps in (False, True):
        steps = [step for step in plan["steps"] if bool(step.get("no_deps")) is no_deps]
        group = Wheels(
            plan["python"] or python,
            list(dict.fromkeys(pin for step in steps for pin in step.get("requirements", []))),
            sorted({step["index"] for step in steps if step.get("index")}),
            list(plan["constraints"]),
            files_of(steps),
            no_deps,
        )
        found += [group] if group.requirements or group.files else []
    return found


def files_of(steps: Iterable[Mapping[str, Any]]) -> list[File]:
    """Wheels that a plan's steps name by their address."""
    wheels = [step["wheel"] for step in steps if "wheel" in step]
    return [File(wheel["url"], str(wheel.get("sha256") or "")) for wheel in wheels]


def inputs_of(entries: Mapping[str, Any]) -> list[File]:
    """The files that the datasets are made from."""
    inputs = [each for entry in entries.values() for each in (entry or {}).get("inputs", [])]
    return [
        File(
            each["address"],
            # `recorded`: nobody states one.
            sha256="" if each.get("sha256") == "recorded" else str(each.get("sha256") or ""),
            md5=str(each.get("md5") or ""),
            dataset=True,
        )
        for each in inputs
    ]


def merged(groups: Iterable[Wheels]) -> list[Wheels]:
    """Each resolution once."""
    return list({repr(item): item for item in groups}.values())


# --- reading the roles ----------------------------------------------------------------------------


def read(path: Path) -> dict[str, Any]:
    """A YAML file's mapping; empty where there is none."""
    if not path.exists():
        return {}
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")) or {})


def value_of(spec: Mapping[str, Any], role: str, name: str) -> Any:
    """A role's variable: the inventory's value, or the role's default."""
    given = spec["variables"].get(name)
    if given not in (None, ""):
        return given
    return read(Path(spec["roles"], role, "defaults", "main.yml")).get(name)


def plans_of(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the inventory's systems install, as the role trainer plans it."""
    roles, plans = Path(spec["roles"]), []
    for system in spec["systems"]:
        sets = read(roles / system / "vars" / "pins.yml")[f"{system}_pins"]
        names = value_of(spec, system, f"{system}_pin_sets") or list(sets)[:1]
        site = {"system": system, "root": "", "roles": roles, "device": spec["device"]}
        try:
            plans += pins.pin_plans(sets, names, site)
        except pins.PinError as error:
            raise PrefetchError(str(error)) from None
    return plans


def datasets_of(spec: Mapping[str, Any], python: str) -> tuple[list[str], list[File]]:
    """Pins of the tools' environment, and the files that the datasets are made from."""
    folder = Path(spec["roles"], "dataset", "vars")
    names = value_of(spec, "dataset", "dataset_names") or []
    own = value_of(spec, "dataset", "dataset_own") or {}
    try:
        entries = datasets.entries(read(folder / "catalogue.yml"), names, own, {}, {})
    except ValueError as error:
        raise PrefetchError(str(error)) from None
    tools = datasets.tools(datasets.needs(entries), python, read(folder / "main.yml"))
    return tools, inputs_of(entries)


def needs(spec: Mapping[str, Any]) -> Needs:
    """What the inventory's systems and datasets need."""
    found = Needs()
    pythons = sorted({python for python, _ in spec["nodes"]})
    for plan in plans_of(spec):
        found.commits |= {(tree["repository"], tree["commit"]) for tree in plan["trees"]}
        found.files += files_of(plan["steps"])
        for python in pythons:
            found.wheels += wheels_of(plan, python)
    for python in pythons:
        tools, files = datasets_of(spec, python)
        found.wheels.append(Wheels(python, tools))
        found.files += files
    # A Python that the nodes may lack comes from conda.
    others = sorted({group.python for group in found.wheels} - set(pythons))
    if others:
        found.files += conda_files(spec)
        found.left_out.append(f"conda's packages of Python {', '.join(others)}")
    found.left_out += images(spec)
    found.files += runfiles(spec)
    found.wheels = merged(found.wheels)
    found.files = list(dict.fromkeys(found.files))
    return found


def images(spec: Mapping[str, Any]) -> list[str]:
    """Images, in words: no engine here brings them, nor what goes into them."""
    bases = [plan["image"]["base"] for plan in plans_of(spec) if plan["image"]]
    found = [f"the image {base} and what is built into it" for base in dict.fromkeys(bases)]
    named = value_of(spec, "container_runtime", "container_runtime_image")
    engines = value_of(spec, "container_runtime", "container_runtime_engines")
    return found + ([f"the image {named}"] if named and engines and spec["privileged"] else [])


def runfiles(spec: Mapping[str, Any]) -> list[File]:
    """CUDA toolkits that come as one file, where setup may install them."""
    if spec["device"] != "cuda" or not spec["privileged"]:
        return []
    wanted = {str(version) for version in value_of(spec, "cuda", "cuda_versions") or []}
    by_file = {str(version) for version in value_of(spec, "cuda", "cuda_runfile_versions") or []}
    known = value_of(spec, "cuda", "cuda_runfiles") or {}
    chosen = [known[version] for version in sorted(wanted & by_file) if version in known]
    return [File(item["url"], str(item.get("sha256") or "")) for item in chosen]


def conda_files(spec: Mapping[str, Any]) -> list[File]:
    """Miniforge's installer for the nodes' machines, where the role conda exists."""
    url, version = (value_of(spec, "conda", f"conda_{name}") for name in ("url", "version"))
    sums = value_of(spec, "conda", "conda_sha256") or {}
    machines = {machine or platform.machine() for _, machine in spec["nodes"]} & set(sums)
    if not url:
        return []
    return [
        File(
            f"{url}/{version}/Miniforge3-{version}-Linux-{machine}.sh",
            sha256=sums[machine],
            kind="conda",
        )
        for machine in sorted(machines)
    ]


# --- downloading ----------------------------------------------------------------------------------


def run(argv: list[str], what: str, cure: str) -> None:
    """Run a program. Raises PrefetchError with its last words."""
    ran = subprocess.run(argv, capture_output=True, text=True, errors="replace")
    if ran.returncode != 0:
        words = (ran.stderr.strip() or ran.stdout.strip() or f"exit {ran.returncode}").splitlines()
        # The line that says why, rather than pip's notice after it.
        told = [line for line in words if line.lower().startswith(("error", "fatal"))]
        raise PrefetchError(f"{what}: {(told or words)[-1].strip()}; {cure}")


def interpreter(version: str) -> str:
    """A Python of that version on this machine, with pip."""
    if version == "{}.{}".format(*sys.version_info[:2]):
        return sys.executable
    for name in (f"python{version}",):
        found = shutil.which(name)
        if (
            found
            and subprocess.run([found, "-m", "pip", "-V"], capture_output=True).returncode == 0
        ):
            return found
    raise PrefetchError(
        f"this machine has no Python {version} with pip, which must choose the nodes' wheels;"
        f" install python{version}, or run prefetch.yml on a machine that has it"
    )


def source(address: str, option: str) -> str:
    """A line for pip: a mirror that is a path is a folder of wheels, not an index."""
    return f"{'--find-links' if address.startswith('/') else option} {address}"


class Prefetch:
    """Fills the folder."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = spec
        self.folder = Path(spec["dir"])
        self.mirrors = spec["mirrors"]

    def files(self, files: Iterable[File]) -> None:
        """Files by URL, resumed and checked."""
        for item in files:
            asked = {
                "url": item.url,
                "path": str(self.folder / item.path),
                "sha256": item.sha256,
                "md5": item.md5,
                "mirrors": self.mirrors.get(item.kind) or {},
            }
            try:
                fetch.bring(asked)
            except fetch.FetchError as error:
                raise PrefetchError(str(error)) from None

    def commits(self, commits: Iterable[tuple[str, str]]) -> None:
        """Bare repositories that have the commits, and give them out by their names."""
        for repository, commit in sorted(commits):
            parts = urlsplit(repository)
            path = self.folder / "git" / f"{parts.hostname}{parts.path}".rstrip("/")
            git = ["git", "-C", str(path)]
            cure = "see the pin, or name a mirror in site_mirrors.git"
            if not (path / "HEAD").exists():
                path.mkdir(parents=True, exist_ok=True)
                run([*git, "init", "-q", "--bare", "--template="], repository, cure)
                run([*git, "config", "uploadpack.allowAnySHA1InWant", "true"], repository, cure)
            there = subprocess.run(
                [*git, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True
            )
            if there.returncode == 0:
                continue
            url = mirrors.mirrored(repository, "git", self.mirrors)
            ref = f"+{commit}:refs/heads/pin-{commit[:12]}"
            fetching = [*git, "-c", "gc.auto=0", "fetch", "-q", "--no-tags", url]
            try:
                run([*fetching, "--depth=1", ref], repository, cure)
            except PrefetchError:  # an older server gives out tips only
                run([*fetching, "+refs/heads/*:refs/remotes/origin/*"], repository, cure)
                run([*git, "update-ref", f"refs/heads/pin-{commit[:12]}", commit], repository, cure)
            run([*git, "repack", "-q", "-a", "-d"], repository, cure)

    def wheels(self, groups: Iterable[Wheels]) -> None:
        """Wheels with all that they need, by pip itself."""
        target = self.folder / "pip"
        target.mkdir(parents=True, exist_ok=True)
        for group in groups:
            self._download(group, target)
        if any(target.glob("*.tar.gz")) or any(target.glob("*.zip")):
            # pip builds these on the node, in an environment of its own, with whatever is newest.
            for python in sorted({group.python for group in groups}):
                self._download(Wheels(python, ["setuptools", "wheel"]), target)

    def _download(self, group: Wheels, target: Path) -> None:
        wanted = [*group.requirements, *(str(self.folder / item.path) for item in group.files)]
        index = str(self.spec["variables"].get("python_env_index_url") or "")
        index = index or mirrors.mirrored(INDEX, "pip", self.mirrors)
        lines = ["--no-index"] if index.startswith("/") else []
        lines += [] if index == INDEX else [source(index, "--index-url")]
        extra = self.spec["variables"].get("python_env_extra_index_url")
        for address in [*group.indexes, *([str(extra)] if extra else [])]:
            address = mirrors.mirrored(address, "pip", self.mirrors)
            lines.append(source(address, "--extra-index-url"))
        if self.spec["variables"].get("python_env_find_links"):
            lines.append(f"--find-links {self.spec['variables']['python_env_find_links']}")
        with tempfile.TemporaryDirectory(prefix="trainbench-prefetch-") as scratch:
            asked, limits = Path(scratch, "requirements.txt"), Path(scratch, "constraints.txt")
            # In a file: an index's address may hold a password.
            asked.write_text("\n".join([*lines, *wanted]) + "\n", encoding="utf-8")
            limits.write_text("\n".join(group.constraints) + "\n", encoding="utf-8")
            argv = [interpreter(group.python), "-m", "pip", "download", "--quiet", "--no-input"]
            argv += ["--disable-pip-version-check", "--dest", str(target)]
            argv += ["--no-deps"] if group.no_deps else []
            run(
                [*argv, "-r", str(asked), "-c", str(limits)],
                f"pip download of {', '.join(group.requirements)}",
                "see the pins, or name an index in site_mirrors.pip",
            )


# --- packages -------------------------------------------------------------------------------------


def release_text(packages: bytes) -> str:
    """A flat repository's Release. Its date is no moment: equal packages make an equal file."""
    digest = hashlib.sha256(packages).hexdigest()
    return (
        "Origin: TrainBench\nLabel: prefetched\nDate: Thu, 01 Jan 1970 00:00:00 UTC\n"
        f"SHA256:\n {digest} {len(packages)} Packages\n"
    )


def releases_of(plans: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Each release's packages by file name, all nodes together."""
    found: dict[str, set[str]] = {}
    for plan in plans:
        found.setdefault(plan["release"], set()).update(plan["files"])
    return {release: sorted(names) for release, names in found.items()}


def write_repositories(folder: Path, releases: Mapping[str, list[str]]) -> None:
    """Make repositories of packages that lie in `apt/<release>`, each with its `.control`."""
    for release, names in releases.items():
        place = folder / "apt" / release
        wanted = {*names, *(f"{name}.control" for name in names), "Packages", "Release"}
        for path in place.glob("*"):
            if path.name not in wanted:  # of an older prefetch
                path.unlink()
        entries = [(place / f"{name}.control").read_text(encoding="utf-8") for name in names]
        packages = "\n".join(entries).encode()
        (place / "Packages").write_bytes(packages)
        (place / "Release").write_text(release_text(packages), encoding="utf-8")


# --- the manifest ---------------------------------------------------------------------------------


def digest_of(path: Path, kind: str) -> str:
    """The file's checksum."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def places(found: Needs) -> dict[str, dict[str, str]]:
    """What stands in place of each public address, as a path in the folder."""
    kinds: dict[str, dict[str, str]] = {"pip": {INDEX: "pip"}, "git": {}, "data": {}, "conda": {}}
    for group in found.wheels:
        kinds["pip"] |= dict.fromkeys(group.indexes, "pip")
    for repository, _ in found.commits:
        parts = urlsplit(repository)
        kinds["git"][f"{parts.scheme}://{parts.netloc}/"] = f"git/{parts.hostname}/"
    for item in found.files:
        parts = urlsplit(item.url)
        kinds[item.kind][f"{parts.scheme}://{parts.netloc}/"] = f"data/{parts.hostname}/"
    return kinds


def manifest(folder: Path, found: Needs) -> dict[str, Any]:
    """Every file with its size and checksum; `datasets` are those for one node only."""
    listed = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if (
            path.is_file()
            and not name.startswith("manifest.json")  # nor one that was half written
            and not name.endswith((".part", ".part.json", ".control"))
        ):
            listed[name] = [path.stat().st_size, digest_of(path, "sha256")]
    only = sorted(item.path for item in found.files if item.dataset)
    return {"schema": 1, "files": listed, "datasets": only, "mirrors": places(found)}


def prefetch(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Fill the folder, and say what it has."""
    folder = Path(spec["dir"])
    NODES.check(spec["nodes"], "what a node says of its Python")
    found = needs(spec)
    work = Prefetch(spec)
    work.files(found.files)
    work.commits(found.commits)
    work.wheels(found.wheels)
    write_repositories(folder, releases_of(spec["apt"]))
    path = folder / "manifest.json"
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    text = json.dumps(manifest(folder, found), indent=1, sort_keys=True) + "\n"
    if text != before:
        write_text(str(path), text)
    sizes = [size for size, _ in json.loads(text)["files"].values()]
    return {
        "changed": text != before,
        "files": len(sizes),
        "mib": sum(sizes) // BLOCK,
        "left_out": found.left_out,
    }


def main() -> int:
    """Run the command line; the exit code."""
    try:
        print(json.dumps(prefetch(json.load(sys.stdin))))
    except (PrefetchError, UnfitError) as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename}: {error.strerror}; see rights and disk there", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

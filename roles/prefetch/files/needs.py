"""What an inventory needs of the network, by the roles' own files: wheels, commits, files."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

from plugins import datasets
from plugins.filter import pins


class PrefetchError(Exception):
    """What cannot be had, with the cure."""


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
        """Where it is in the folder."""
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

    All steps are resolved together, except those that want no dependencies.
    """
    groups = []
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
        groups += [group] if group.requirements or group.files else []
    return groups


def files_of(steps: Iterable[Mapping[str, Any]]) -> list[File]:
    """Wheels that a plan's steps name by their address."""
    wheels = [step["wheel"] for step in steps if "wheel" in step]
    return [File(wheel["url"], str(wheel.get("sha256") or "")) for wheel in wheels]


def inputs_of(entries: Mapping[str, Any]) -> list[File]:
    """The files that the datasets are made from."""
    inputs = [source for entry in entries.values() for source in (entry or {}).get("inputs", [])]
    return [
        File(
            source["address"],
            # `recorded`: nobody states one.
            sha256="" if source.get("sha256") == "recorded" else str(source.get("sha256") or ""),
            md5=str(source.get("md5") or ""),
            dataset=True,
        )
        for source in inputs
    ]


def merged(groups: Iterable[Wheels]) -> list[Wheels]:
    """Each resolution once."""
    return list({repr(item): item for item in groups}.values())


# --- reading the roles ----------------------------------------------------------------------------


def read(path: Path) -> dict[str, Any]:
    """A YAML file's mapping; empty without a file."""
    if not path.exists():
        return {}
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")) or {})


def value_of(spec: Mapping[str, Any], role: str, name: str) -> Any:
    """A role's variable: the inventory's value, or the role's default."""
    value = spec["variables"].get(name)
    if value not in (None, ""):
        return value
    return read(Path(spec["roles"], role, "defaults", "main.yml")).get(name)


def plans_of(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the inventory's systems install, as the role trainer plans it."""
    roles, plans = Path(spec["roles"]), []
    for system in spec["systems"]:
        default_sets = read(roles / system / "vars" / "pins.yml")[f"{system}_pins"]
        sets = spec["variables"].get(f"{system}_pins") or default_sets
        names = value_of(spec, system, f"{system}_pin_sets") or list(sets)[:1]
        if not isinstance(names, list):  # a default that Ansible works out: all that are declared
            names = list(sets)
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
    own_entries = value_of(spec, "dataset", "dataset_own") or {}
    try:
        entries = datasets.entries(read(folder / "catalogue.yml"), names, own_entries, {}, {})
    except ValueError as error:
        raise PrefetchError(str(error)) from None
    tools = datasets.tools(datasets.needs(entries), python, read(folder / "main.yml"))
    return tools, inputs_of(entries)


def needs(spec: Mapping[str, Any]) -> Needs:
    """What the inventory's systems and datasets need."""
    needed = Needs()
    pythons = sorted({python for python, _ in spec["nodes"]})
    for plan in plans_of(spec):
        needed.commits |= {(tree["repository"], tree["commit"]) for tree in plan["trees"]}
        needed.files += files_of(plan["steps"])
        for python in pythons:
            needed.wheels += wheels_of(plan, python)
    for python in pythons:
        tools, files = datasets_of(spec, python)
        needed.wheels.append(Wheels(python, tools))
        needed.files += files
    # A Python that the nodes may lack comes from conda.
    other_pythons = sorted({group.python for group in needed.wheels} - set(pythons))
    if other_pythons:
        needed.files += conda_files(spec)
        needed.left_out.append(f"conda's packages of Python {', '.join(other_pythons)}")
    needed.left_out += images(spec)
    needed.files += runfiles(spec)
    needed.wheels = merged(needed.wheels)
    needed.files = list(dict.fromkeys(needed.files))
    return needed


def images(spec: Mapping[str, Any]) -> list[str]:
    """Images, in words: no engine here brings them, nor what goes into them."""
    bases = [plan["image"]["base"] for plan in plans_of(spec) if plan["image"]]
    descriptions = [f"the image {base} and what is built into it" for base in dict.fromkeys(bases)]
    runtime_image = value_of(spec, "container_runtime", "container_runtime_image")
    engines = value_of(spec, "container_runtime", "container_runtime_engines")
    return descriptions + (
        [f"the image {runtime_image}"] if runtime_image and engines and spec["privileged"] else []
    )


def runfiles(spec: Mapping[str, Any]) -> list[File]:
    """CUDA toolkits that come as one file, where setup may install them."""
    if spec["device"] != "cuda" or not spec["privileged"]:
        return []
    versions = {str(version) for version in value_of(spec, "cuda", "cuda_versions") or []}
    by_file = {str(version) for version in value_of(spec, "cuda", "cuda_runfile_versions") or []}
    runfiles_known = value_of(spec, "cuda", "cuda_runfiles") or {}
    chosen = [
        runfiles_known[version]
        for version in sorted(versions & by_file)
        if version in runfiles_known
    ]
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

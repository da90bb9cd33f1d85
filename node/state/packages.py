"""Packages, as dpkg's status file has them: pure."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass

INSTALLED = ("installed", "triggers-awaited", "triggers-pending")


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

"""Packages, as dpkg-query lists them: pure."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass

FIELDS = (
    *("Package", "Architecture", "Version", "db:Status-Want", "db:Status-Status"),
    *("Pre-Depends", "Depends", "Recommends", "Provides"),
)
FORMAT = "\\t".join("${%s}" % field for field in FIELDS) + "\\n"
INSTALLED = ("installed", "triggers-awaited", "triggers-pending")


@dataclass(frozen=True)
class Package:
    """One row of dpkg-query's. Each group of ``needs`` is met by any one of its names."""

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


def parse_listing(text: str) -> dict[str, Package]:
    """What dpkg-query prints as FORMAT; a foreign architecture's package is called `name:arch`."""
    # dpkg-query's warnings stand between the rows
    rows = [line.split("\t") for line in text.splitlines() if line.count("\t") == len(FIELDS) - 1]
    native = next((arch for name, arch, *_ in rows if name == "dpkg"), "all")
    packages = {}
    for name, arch, version, want, state, before, needs, wishes, provides in rows:
        called = name if arch in ("", "all", native) else f"{name}:{arch}"
        packages[called] = Package(
            name=called,
            version=version,
            state=state,
            held=want == "hold",
            needs=relation(f"{before},{needs}"),
            wishes=relation(wishes),
            provides=tuple(names[0] for names in relation(provides)),
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

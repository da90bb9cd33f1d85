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
    return tuple(
        tuple(re.split(r"[\s:(\[<]", name.strip())[0] for name in group) for group in groups
    )


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
    return {name: package for name, package in packages.items() if package.state in INSTALLED}


def interrupted(packages: dict[str, Package]) -> list[str]:
    """Those that dpkg began and did not end."""
    settled = (*INSTALLED, "not-installed", "config-files")
    return sorted(name for name, package in packages.items() if package.state not in settled)


def providers(packages: dict[str, Package]) -> dict[str, set[str]]:
    """Each name, real or virtual, to the packages that stand for it."""
    by_name: dict[str, set[str]] = {}
    for name, package in packages.items():
        for called in (name, name.partition(":")[0], *package.provides):
            by_name.setdefault(called, set()).add(name)
    return by_name


def reached(packages: dict[str, Package], roots: Iterable[str]) -> set[str]:
    """The installed packages that the roots depend on or recommend, at any remove, and the roots.

    A package that recommends another is enough: apt installs those too.
    """
    by_name = providers(packages)
    marked: set[str] = set()
    ahead = [name for root in roots for name in by_name.get(root, ())]
    while ahead:
        name = ahead.pop()
        if name not in marked:
            marked.add(name)
            groups = packages[name].needs + packages[name].wishes
            ahead += [name for group in groups for word in group for name in by_name.get(word, ())]
    return marked


def removable(packages: dict[str, Package], ours: Iterable[str]) -> tuple[set[str], dict[str, str]]:
    """Which of our packages can go, and those that stay, each with a package that needs it."""
    by_name = providers(packages)
    going = {name for name in ours if name in packages}
    needed_by: dict[str, str] = {}
    again = True
    while again:
        again = False
        for name, package in packages.items():
            if name in going:
                continue
            for group in package.needs:
                standing = {provider for word in group for provider in by_name.get(word, ())}
                if standing and standing <= going:
                    going -= standing
                    needed_by.update(dict.fromkeys(standing, name))
                    again = True
    return going, needed_by


def split(item: str) -> tuple[list[str], str]:
    """`name=version` or `name | alternative` as names and a version, empty for any."""
    names, _, version = item.partition("=")
    return [name.strip() for name in names.split("|")], version.strip()


def satisfies(have: str, pattern: str) -> bool:
    """Whether a version is the wanted one, which may end in `*`."""
    return not pattern or fnmatch.fnmatchcase(have, pattern)

"""Every address that setup, teardown and verify can contact, from our literals.

Each address has one rule below, which says what it is for and which kind of `site_mirrors` puts
another in its place. An address without a rule is an error: nothing is contacted unannounced.
docs/inventory.md has them as a table.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from plugins.filter.mirrors import KINDS

# YAML in C where this Python has it.
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
ADDRESS = re.compile(r"https?://[^\s\"'<>{}|\\)`,;]+")
IMAGE = re.compile(r"\.image\.base$")  # the key of an image, whose address has no scheme
NEVER = "never contacted"

# What is matched is `role key address`; the first rule that fits counts. A kind, and a purpose.
RULES = (
    (r"^\S+ \S*\.image\.base ", "images", "the base of a pin set that is an image"),
    (r"^npu \S* https://www\.hiascend\.com/", NEVER, "named where driver or CANN is missing"),
    (r"^\S+ \S* \S+\.whl$", "data", "a wheel that no index has"),
    (r"^dataset \S*address ", "data", "input of a dataset"),
    (r"^(cuda|nvidia_driver) \S* \S+\.run$", "data", "CUDA toolkit, and driver, as one file"),
    (r"^node_state \S* \S+(cuda/repos|libnvidia-container)", "apt", "packages and their key"),
    (r"^conda \S*channels", "conda", "a Python that the nodes lack"),
    (r"^conda \S*url", "conda", "Miniforge's installer"),
    (r"^\S+ \S*index ", "pip", "a package index beside the usual one"),
    (r"^\S+ \S* https://pypi\.org/simple$", "pip", "packages of an environment"),
    (r"^env \S* \S+/whl/cpu$", "pip", "torch without CUDA, for nodes without GPUs"),
    (r"^\S+ \S*repository ", "git", "source of a system, or of what it builds"),
)


class PublicAddress(NamedTuple):
    """One literal address: where it stands, and what the rules say of it."""

    address: str
    role: str
    purpose: str
    kind: str


class UnknownAddressError(Exception):
    """An address that no rule knows."""


def of_yaml(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Pairs of key path and address in a value of YAML."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from of_yaml(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from of_yaml(inner, key)
    elif isinstance(value, str):
        for address in [value] if IMAGE.search(key) else ADDRESS.findall(value):
            yield key, address


def of_python(text: str) -> Iterator[tuple[str, str]]:
    """Pairs of constant's name and address in a program; docstrings do not count."""
    tree = ast.parse(text)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            for address in ADDRESS.findall(node.value) if isinstance(node.value, str) else []:
                yield "", address


def literals(path: Path) -> Iterator[tuple[str, str]]:
    """Pairs of key and address in one file of a role."""
    text = path.read_text(encoding="utf-8")
    if "://" not in text and "image:" not in text:  # parsing takes most of the time
        return
    if path.suffix == ".yml":
        yield from of_yaml(yaml.load(text, Loader=Loader))  # noqa: S506  # safe one
    elif path.suffix == ".py":
        yield from of_python(text)
    else:
        for address in ADDRESS.findall(text):
            yield "", address


def rule(role: str, key: str, address: str) -> PublicAddress:
    """The address with its purpose and kind. Raises UnknownAddressError."""
    for pattern, kind, purpose in RULES:
        if re.search(pattern, f"{role} {key} {address}"):
            return PublicAddress(address, role, purpose, kind)
    raise UnknownAddressError(
        f"role {role}, {key or 'a program'}: {address} has no rule in plugins/public_addresses.py;"
        " add one with the kind of mirror that the role puts it through"
    )


def literals_of(roles: Path) -> Iterator[tuple[str, str, str]]:
    """Role, key and address, of every role, and of the programs in node/ beside them."""
    places = ("defaults", "vars", "tasks", "handlers", "templates", "files", "action_plugins")
    for role in sorted(path for path in roles.iterdir() if path.is_dir()):
        for path in sorted(p for subfolder in places for p in (role / subfolder).rglob("*")):
            # Patches and constraints are no programs of ours; their addresses are in comments.
            if path.is_file() and path.suffix in (".yml", ".py", ".j2", ".sh"):
                yield from ((role.name, key, address) for key, address in literals(path))
    programs = roles.parent / "node"
    for path in sorted(programs.rglob("*.py")):
        name = path.relative_to(programs).with_suffix("").parts[0]
        yield from ((name, "", address) for _, address in literals(path))


def found(roles: Path) -> list[PublicAddress]:
    """Every address once, sorted. Raises UnknownAddressError."""
    listed = {rule(*literal) for literal in literals_of(roles)}
    return sorted(listed, key=lambda item: (item.kind, item.address, item.role))


def by_kind(roles: Path) -> dict[str, set[str]]:
    """The addresses of each kind of mirror; one without a rule has none."""
    kinds: dict[str, set[str]] = {kind: set() for kind in (*KINDS, NEVER)}
    for literal in literals_of(roles):
        with contextlib.suppress(UnknownAddressError):
            kinds[rule(*literal).kind].add(literal[2])
    return kinds

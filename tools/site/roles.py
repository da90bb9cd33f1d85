"""A page per role, written from its meta/argument_specs.yml: what it does, and its variables.

The description of an option is its documentation, here and in `ansible-doc`; nothing is said twice.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tools.site.links import ROOT, Sheet


def roles() -> Iterator[Sheet]:
    """Yield the page of each role."""
    for specs in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml")):
        name = specs.parents[1].name
        yield Sheet(f"docs/roles/{name}.md", page(name, specs))


def page(name: str, specs: Path) -> str:
    """Write a role's page."""
    entries = yaml.safe_load(specs.read_text(encoding="utf-8"))["argument_specs"]
    lines = [f"# {name}"]
    shown: dict[str, str] = {}
    for entry, spec in entries.items():
        if entry != "main":
            lines += ["", f"## Entry `{entry}`"]
        lines += ["", f"{_markdown(spec['short_description'])}."]
        paragraphs = spec.get("description", [])
        for paragraph in [paragraphs] if isinstance(paragraphs, str) else paragraphs:
            lines += ["", _markdown(paragraph)]
        rows = _table(spec.get("options") or {})
        same = shown.setdefault("\n".join(rows), entry)
        if len(rows) == 2:
            lines += ["", "It takes no variables."]
        elif same != entry:
            lines += ["", f"Its variables are those of `{same}`."]
        else:
            lines += ["", *rows]
    return "\n".join(lines) + "\n"


def _table(options: dict[str, dict[str, Any]]) -> list[str]:
    """Return a row per option: those that must be given first, else in the order of the file."""
    lines = ["| variable | type | default | what it is |", "| --- | --- | --- | --- |"]
    for name, option in sorted(options.items(), key=lambda item: not item[1].get("required")):
        words = (f"`{name}`", _type(option), _default(option), _markdown(option.get("description")))
        cells = (word.replace("|", "\\|").replace("\n", " ").strip() for word in words)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _markdown(value: str | list[str] | None) -> str:
    """Return Ansible's markup as Markdown."""
    words = " ".join([value] if isinstance(value, str) else value or []).strip()
    return re.sub(r"\b[CVOIB]\(([^)]*)\)", r"`\1`", words)


def _default(option: dict[str, Any]) -> str:
    """Return the default as one writes it in YAML."""
    if option.get("required"):
        return "required"
    if option.get("default") is None:
        return ""
    written = yaml.safe_dump(option["default"], default_flow_style=True, width=10_000)
    return f"`{written.removesuffix('...' + chr(10)).strip()}`"


def _type(option: dict[str, Any]) -> str:
    """Return the type, with what a list holds and what may be chosen."""
    name = str(option.get("type", "str"))
    if "elements" in option:
        name += f" of {option['elements']}"
    if "choices" in option:
        name += ": " + ", ".join(f"`{choice}`" for choice in option["choices"])
    return name

"""The packages of an environment, by their own metadata."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from node import parsing
from node.canonical import canonical
from node.schema import Fields, Mapped, Maybe, Text

if TYPE_CHECKING:
    from .pins import Packages, Spec


_TEXT = Text()
ARCHIVE = Fields({}, {"hash": (_TEXT, ""), "hashes": (Maybe(Mapped(_TEXT, _TEXT)), None)})
ORIGIN = Fields(
    {},
    {
        "url": (_TEXT, ""),
        "archive_info": (Maybe(ARCHIVE), None),
        "vcs_info": (Maybe(Fields({"commit_id": _TEXT})), None),
    },
)


def installed(facts: Spec) -> Packages:
    """Every package on the path of the interpreter that said so; the first one counts."""
    packages: Packages = {}
    for folder in facts.get("path", []):
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            # what begins with ~ is what an interrupted pip left
            if not name.endswith((".dist-info", ".egg-info")) or name.startswith("~"):
                continue
            entry = metadata(os.path.join(folder, name))
            if not entry:
                continue
            if name.endswith(".egg-info") and not within(folder, (facts["prefix"], "/usr")):
                entry["origin"] = f"file://{folder}"  # an editable install of older tools
            packages.setdefault(canonical(entry["name"]), entry)
    return packages


def within(folder: str, places: tuple[str, ...]) -> bool:
    """Whether the folder is in one of the places."""
    real = os.path.realpath(folder)
    return any(real.startswith(os.path.realpath(parent) + os.sep) for parent in places)


def metadata(folder: str) -> dict[str, str]:
    """Name, version and origin of one package, from the top lines of its metadata."""
    files = [os.path.join(folder, name) for name in ("METADATA", "PKG-INFO")]
    fields: dict[str, str] = {}
    for path in [*files, folder]:
        if not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, colon, value = line.partition(": ")
                if not line.strip():
                    break  # the description follows
                if colon and key in ("Name", "Version"):
                    fields.setdefault(key.lower(), value.strip())
        break
    return {**fields, "origin": origin(folder)} if len(fields) == 2 else {}


def origin(folder: str) -> str:
    """The address that a package was installed from; empty for one of an index."""
    recorded = parsing.recall(os.path.join(folder, "direct_url.json"), ORIGIN)
    if not recorded:
        return ""
    archive, vcs = recorded["archive_info"] or ARCHIVE.check({}, ""), recorded["vcs_info"]
    sha256 = (archive["hashes"] or {}).get("sha256") or archive["hash"][len("sha256=") :]
    tail = f"#sha256={sha256}" if sha256 else f"@{vcs['commit_id']}" if vcs else ""
    return str(recorded["url"]) + tail

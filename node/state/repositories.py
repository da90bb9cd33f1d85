"""apt's repositories: the files that name them, ours and others': pure."""

from __future__ import annotations

import re
from typing import Any

from .spec import Spec

KEYRINGS = "/etc/apt/keyrings"
SOURCES = "/etc/apt/sources.list.d"


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
            match = re.match(r"deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)", line.strip())
            if match:
                pairs.add((match[1].rstrip("/"), match[2]))
    return pairs

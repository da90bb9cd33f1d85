"""JSON files of a campaign: written whole or not at all, read as mappings."""

import json
import os
from pathlib import Path
from typing import Any

SCHEMA = 1


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON so that a crash leaves the old file or the new one, on the disk, whole."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.tmp")
    with fresh.open("w", encoding="utf-8") as stream:
        json.dump({"schema": SCHEMA, **content}, stream, indent=1)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON file's content; None where there is no such file, or no whole one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None

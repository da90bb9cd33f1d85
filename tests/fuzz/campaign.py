"""A small campaign as files, its runs ended in several ways: seed of folders and archives."""

import json
import tempfile
from functools import cache
from pathlib import Path

from tests.runner.test_mutated import written

NAME = "m-rack"
TORN = "m-rack/campaign.json"


@cache
def files() -> dict[str, bytes]:
    """The campaign's files: path below the folder of runs to content."""
    with tempfile.TemporaryDirectory() as name:
        runs = Path(name)
        written(runs)
        for node in runs.glob("*/zero*/*/*/nodes/*"):
            (node / "prepared").write_text(json.dumps({"clock_offset_s": 0.1, "boot_id": "b"}))
        paths = sorted(path for path in runs.rglob("*") if path.is_file())
        return {path.relative_to(runs).as_posix(): path.read_bytes() for path in paths}


def lay_out(runs: Path) -> None:
    """Write the campaign."""
    for name, content in files().items():
        path = runs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

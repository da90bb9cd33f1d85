"""Every patch of a pin set on its own commit: applies, and is seen the second time.

Its lines on a node: test_on_nodes.py; one that does not apply: roles/test_source_tree.py.
"""

from pathlib import Path
from typing import Any

import pytest

from runner.base.paths import PROJECT
from runner.systems.common.pins import pins
from runner.systems.common.registry import system_names
from tests.node import run
from tests.upstream.mirrors import whole


def trees() -> list[tuple[str, dict[str, Any]]]:
    """`<system>/<pin>/<name>` and what pins.yml says, for each source that has patches."""
    found = []
    for system in system_names():
        for pin, content in pins(system).items():
            named = {"src": content.get("source"), **content.get("sources", {})}
            named["apex"], named["deepspeed"] = content.get("apex"), content.get("deepspeed")
            for name, source in named.items():
                if source and source.get("patches"):
                    found.append((f"{system}/{pin}/{name}", source))
    return found


def files(label: str, source: dict[str, Any]) -> list[Path]:
    places = [
        PROJECT / "roles" / role / "files" / "patches" for role in (label.split("/")[0], "apex")
    ]
    return [
        next((place / name for place in places if (place / name).is_file()), places[0] / name)
        for name in source["patches"]
    ]


TREES = trees()


@pytest.mark.parametrize(("label", "source"), TREES, ids=[label for label, _ in TREES])
def test_source_tree_applies_them_once_and_sees_them_the_second_time(
    label: str, source: dict[str, Any], tmp_path: Path
) -> None:
    """The program that the role runs on a node, on the trainer's real files."""
    repository, commit, left_out = whole(source["repository"], source["commit"], tmp_path / "git")
    texts = [(path.name, path.read_text(encoding="utf-8")) for path in files(label, source)]
    spec = {
        "path": str(tmp_path / "src"),
        "repository": str(repository),
        "mirrors": {},
        "commit": commit,
        "version": source.get("version", ""),
        "patches": texts,
        "untracked": source.get("untracked", []),
        "reset": False,
        "check": False,
    }
    first, second = (run("tree:make", spec).facts for _ in range(2))
    assert (first["changed"], second["changed"]) == (True, False)
    assert first["identity"] == second["identity"]
    assert run("tree:verify", spec).code == 0
    assert len(left_out) <= 1
    edited = next(line[6:] for line in texts[0][1].splitlines() if line.startswith("+++ b/"))
    with (tmp_path / "src" / edited).open("a") as stream:
        stream.write("# somebody's edit\n")
    refused = run("tree:make", spec)
    assert refused.code != 0
    assert edited in refused.words

"""Every patch of a pin set on its own commit: applies, is seen the second time, else refused."""

from pathlib import Path
from typing import Any

import pytest

from runner.base.paths import PROJECT
from runner.systems.common.pins import pins
from runner.systems.common.registry import system_names
from tests.node import run
from tests.upstream.mirrors import apply, git, mirror, show, whole


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
def test_patches_are_there_and_apply_to_their_commit_alone(
    label: str, source: dict[str, Any]
) -> None:
    patches = files(label, source)
    assert [path.name for path in patches if not path.is_file()] == []
    assert apply(source["repository"], source["commit"], patches) == [""] * len(patches)


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


PATCHES = {path: source for label, source in TREES for path in files(label, source)}


@pytest.mark.parametrize("path", PATCHES, ids=[f"{p.parts[-4]}/{p.name}" for p in PATCHES])
def test_every_patch_is_refused_by_name_on_another_version(path: Path, tmp_path: Path) -> None:
    """On the first commit of its repository. A patch that only adds a file fits anywhere."""
    source = PATCHES[path]
    place = mirror(source["repository"], source["commit"])
    first = git(place, "rev-list", "--max-parents=0", source["commit"]).stdout.split()[-1]
    repository, commit, _ = whole(source["repository"], first, tmp_path / "git")
    spec = {
        **{"path": str(tmp_path / "src"), "repository": str(repository), "mirrors": {}},
        **{"commit": commit, "version": "the first commit", "untracked": []},
        **{"patches": [(path.name, path.read_text())], "reset": False, "check": False},
    }
    adds_only = "--- a/" not in path.read_text()
    code, _, said = run("tree:make", spec)
    assert (code == 0) == adds_only, said
    if not adds_only:
        assert f"patch {path.name} does not apply to the first commit ({commit[:12]})" in said
        assert not (tmp_path / "src").exists()
        assert not list(tmp_path.glob("*.part"))


# --- the documented content -----------------------------------------------------------------------


def test_the_edit_of_requirements_is_document_001s(tmp_path: Path) -> None:
    """Its diff says blob da76b5e before and d2a390c after."""
    text = (
        PROJECT / "roles/megatron_deepspeed/files/patches/e52bdabb-requirements.patch"
    ).read_text()
    assert "index da76b5e4..d2a390c2" in text


def test_the_edit_of_the_checkpointer_is_document_000s() -> None:
    text = (PROJECT / "roles/libai/files/patches/no-checkpointer.patch").read_text()
    line = "hooks.PeriodicCheckpointer(self.checkpointer, self.cfg.train.checkpointer.period),"
    assert f"-            {line}\n+            #{line}\n" in text


def test_the_print_of_memory_is_document_000s() -> None:
    text = (PROJECT / "roles/libai/files/patches/memory.patch").read_text()
    query = (
        "timestamp,name,driver_version,utilization.gpu,utilization.memory,memory.total,memory.free"
    )
    for line in (
        "import os",
        "                    if self.iter == 99:",
        f'cmd = "nvidia-smi --query-gpu={query},memory.used --format=csv"',
        "                        os.system(cmd)",
    ):
        assert f"+{line}" in text or f"+                        {line}" in text
    lines = show("Oneflow-Inc/libai", "9fc504c4", "libai/engine/trainer.py").splitlines()
    assert lines[143] == "                for self.iter in range(start_iter, max_iter):"

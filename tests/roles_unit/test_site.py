"""roles/site: what a node lacks of a prefetched folder, and what came is put in place."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail

from roles.site.action_plugins import bring
from tests.node import run

FILES = {"pip/a.whl": b"wheel", "data/example.org/corpus": b"text", "git/h/x/refs/heads/pin": b"c"}


def listed(**changed: bytes) -> dict[str, list[Any]]:
    return {
        path: [len(content), hashlib.sha256(content).hexdigest()]
        for path, content in {**FILES, **changed}.items()
    }


def ask(folder: Path, *place: str, check: bool = False, **more: Any) -> tuple[dict[str, Any], str]:
    spec = {"folder": str(folder), "files": listed(), "place": list(place), "check": check, **more}
    ran = run("prefetched:have", spec)
    return ran.facts or {}, ran.words


def put(folder: Path, path: str, content: bytes) -> None:
    (folder / f"{path}.part").write_bytes(content)


def fill(folder: Path) -> None:
    assert set(ask(folder)[0]["lacking"]) == set(FILES)
    for path, content in FILES.items():
        put(folder, path, content)
    assert ask(folder, *FILES) == ({"lacking": [], "extra": []}, "")


def test_files_come_into_place_when_they_are_whole(tmp_path: Path) -> None:
    folder = tmp_path / "a b" / "prefetched"
    fill(folder)
    for path, content in FILES.items():
        assert (folder / path).read_bytes() == content
    assert ask(folder) == ({"lacking": [], "extra": []}, "")


def test_check_mode_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "prefetched"
    assert set(ask(folder, check=True)[0]["lacking"]) == set(FILES)
    assert not folder.exists()


def test_a_damaged_file_comes_again_and_an_old_one_goes(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "pip/a.whl").write_bytes(b"whale")  # of the same size
    (tmp_path / "pip/old.whl").write_bytes(b"old")
    assert ask(tmp_path) == ({"lacking": ["pip/a.whl"], "extra": ["pip/old.whl"]}, "")
    assert not (tmp_path / "pip/old.whl").exists()
    put(tmp_path, "pip/a.whl", b"whale")
    assert ask(tmp_path, "pip/a.whl") == ({}, "pip/a.whl came damaged; run it again")
    assert not (tmp_path / "pip/a.whl.part").exists()


def test_a_checksum_is_read_once(tmp_path: Path) -> None:
    fill(tmp_path)
    record = json.loads((tmp_path / ".have.json").read_text())
    record["pip/a.whl"]["sha256"] = "0" * 64
    (tmp_path / ".have.json").write_text(json.dumps(record))
    assert ask(tmp_path)[0]["lacking"] == ["pip/a.whl"]
    os.utime(tmp_path / "pip/a.whl")  # touched since: it is read again
    assert ask(tmp_path)[0]["lacking"] == []


def test_a_disk_that_is_too_small_is_named_before_anything_comes(tmp_path: Path) -> None:
    huge = {"pip/huge.whl": [1 << 60, "0" * 64]}
    _, said = ask(tmp_path, files=huge)
    assert "MiB more, and its disk has" in said
    assert "another cluster_root" in said


# --- the plugin's pure part -----------------------------------------------------------------------


def test_dataset_files_are_for_the_node_that_prepares() -> None:
    manifest = {"files": listed(), "datasets": ["data/example.org/corpus"]}
    assert set(bring.needed(manifest, data=True)) == set(FILES)
    assert set(bring.needed(manifest, data=False)) == set(FILES) - {"data/example.org/corpus"}


def test_mirrors_lie_in_the_folder() -> None:
    places = {"pip": {"https://pypi.org/simple": "pip"}, "git": {"https://h/": "git/h/"}}
    assert bring.mirrors_in("/opt/t b", places) == {
        "pip": {"https://pypi.org/simple": "/opt/t b/pip"},
        "git": {"https://h/": "file:///opt/t%20b/git/h/"},
    }


def test_a_folder_that_nobody_filled_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        AnsibleActionFail,
        match=r"has no whole manifest.json; fill it first: python -m runner prefetch",
    ):
        bring.read_manifest(tmp_path)

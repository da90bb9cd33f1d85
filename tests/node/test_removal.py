"""node/removal.py: folders that setup made, with their sizes."""

import os
from pathlib import Path

from node.removal import remove, size_of


def test_it_says_what_goes_and_how_large_and_then_removes_it(tmp_path: Path) -> None:
    folder, link, absent = tmp_path / "env", tmp_path / "link", tmp_path / "absent"
    folder.mkdir()
    (folder / "a").write_bytes(b"x" * 100_000)
    os.link(folder / "a", folder / "b")  # counts once
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    link.symlink_to(outside)
    spec = {"paths": [str(folder), str(link), str(absent)], "check": True}
    assert 100_000 <= size_of(str(folder)) < 120_000
    looked = remove(spec)
    assert looked["changed"]
    assert looked["told"][0].startswith(f"{folder} (")
    assert looked["told"][0].endswith(" KiB)")
    assert folder.is_dir()
    assert remove({**spec, "check": False}) == looked
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside"]
    assert (outside / "kept").exists()
    assert remove(spec) == {"changed": False, "told": []}

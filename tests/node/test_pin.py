"""node/pin.py: what verify asks of a pin set beside its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from node import pin

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("mode", "refused"), [(0o755, False), (0o700, False), (0o775, True), (0o777, True)]
)
def test_what_runs_compiled_is_its_owners_alone_to_change(
    mode: int, refused: bool, tmp_path: Path
) -> None:
    assert pin.opened({"home": str(tmp_path)}) == []
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(mode)
    found = pin.opened({"home": str(tmp_path)})
    assert len(found) == refused
    assert all("is not a folder that its owner alone can write to; remove it" in x for x in found)


def test_nor_is_it_a_link_to_somewhere_else(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "elsewhere")
    assert len(pin.opened({"home": str(tmp_path)})) == 1


def test_files_that_are_all_missing_are_one_fault(tmp_path: Path) -> None:
    """A node that was never set up names its folder, not each of the trainer's files."""
    wanted = {str(tmp_path / "src" / name): "0" for name in ("model.py", "train.py")}
    folder = tmp_path / "src"
    assert pin._files(wanted) == [f"none of the 2 files of {folder} is there"]
    folder.mkdir()
    (folder / "model.py").touch()
    assert pin._files(wanted) == [
        f"{folder}/model.py is not as in this checkout",
        f"{folder}/train.py is not there",
    ]

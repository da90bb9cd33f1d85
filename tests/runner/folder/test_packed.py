"""Samples and looks at logs are read alike, however they came back."""

import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from runner.folder import names, packed

CSV, TIMES = b"timestamp, index\n1, 0\n", b'{"node": 1.0, "log_bytes": 7}\n'


def archive(**parts: bytes) -> bytes:
    """A node's archive, as it brings it."""
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as made:
        for name, part in parts.items():
            made.writestr(name, part)
    return content.getvalue()


def brought(run: Path, nodes: int) -> list[Path]:
    """A run of which each node brought an archive."""
    (run / names.ROSTER).mkdir(parents=True)
    (run / names.ROSTER / "0000.over").touch()
    folders = [run / names.node(rank, f"rank{rank}") for rank in range(nodes)]
    for rank, folder in enumerate(folders):
        folder.mkdir(parents=True)
        parts = {names.SAMPLES: CSV + b"%d\n" % rank, names.TIMELINE: TIMES}
        (folder / names.PACKED).write_bytes(archive(**parts))
    return folders


def test_plain_files_go_first(tmp_path: Path) -> None:
    (folder,) = brought(tmp_path, 1)
    assert packed.read_part(folder, names.TIMELINE) == TIMES
    (folder / names.TIMELINE).write_bytes(b"plain")
    assert packed.read_part(folder, names.TIMELINE) == b"plain"


def test_what_is_missing_is_empty(tmp_path: Path) -> None:
    node = tmp_path / names.node(0, "n1")
    node.mkdir(parents=True)
    assert packed.read_part(node, names.SAMPLES) == b""
    assert not packed.has_part(node, names.SAMPLES)


def test_a_run_that_is_over_has_one_archive_of_all_nodes(tmp_path: Path) -> None:
    folders = brought(tmp_path, 5)
    packed.pack(tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / names.PACKED]
    for rank, folder in enumerate(folders):
        assert packed.read_part(folder, names.SAMPLES) == CSV + b"%d\n" % rank
        assert packed.has_part(folder, names.TIMELINE)
    assert [name for name, _ in packed.nodes_of(tmp_path / names.PACKED)] == [
        folder.name for folder in folders
    ]
    # what comes later stays beside it, and goes first
    (folders[2] / names.PACKED).write_bytes(archive(**{names.SAMPLES: b"late"}))
    packed.pack(tmp_path)
    assert packed.read_part(folders[2], names.SAMPLES) == b"late"


def test_nothing_is_removed_before_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    folders = brought(tmp_path, 2)
    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match="No space"):
        packed.pack(tmp_path)
    assert [packed.read_part(folder, names.TIMELINE) for folder in folders] == [TIMES, TIMES]
    assert not (tmp_path / names.PACKED).exists()


@pytest.mark.parametrize("where", ["node", "run"])
@pytest.mark.parametrize("damage", [b"", b"rubbish", "cut", "flipped", "link", "folder"])
def test_a_damaged_archive_is_none(tmp_path: Path, where: str, damage: bytes | str) -> None:
    (folder,) = brought(tmp_path, 1)
    if where == "run":
        packed.pack(tmp_path)
    path = (folder if where == "node" else tmp_path) / names.PACKED
    whole = path.read_bytes()
    path.unlink()
    middle = len(whole) // 3
    if damage == "link":
        path.symlink_to("/etc/passwd")
    elif damage == "folder":
        path.mkdir()
    elif damage == "cut":
        path.write_bytes(whole[:middle])
    elif damage == "flipped":
        path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :])
    elif isinstance(damage, bytes):
        path.write_bytes(damage)
    found = b""
    try:
        found = packed.read_part(folder, names.SAMPLES)
    except OSError:  # as of any file that is no plain one
        assert damage in ("folder",)
    assert found in (b"", CSV + b"0\n")


def test_an_archive_of_a_million_names_is_not_listed(tmp_path: Path) -> None:
    (folder,) = brought(tmp_path, 1)
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as made:
        made.writestr(names.SAMPLES, b"x")
        for number in range(300):
            made.writestr("a" * 40_000 + str(number), b"")
    (folder / names.PACKED).write_bytes(content.getvalue())
    assert packed.read_part(folder, names.SAMPLES) == b""

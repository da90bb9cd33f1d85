"""Prefetched packages: apt's words as data, a flat repository that apt itself takes."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from node import packages
from roles.prefetch.action_plugins import debs
from roles.prefetch.files import prefetch
from roles.site.action_plugins import bring

PRINTED = """\
'http://deb.debian.org/debian/pool/main/g/gcc-12/gcc-12-base_12.2.0-14%2bdeb12u1_amd64.deb' \
gcc-12-base_12.2.0-14+deb12u1_amd64.deb 37596 MD5Sum:8e7e
'http://deb.debian.org/debian/pool/main/g/git/git_2.39.5_amd64.deb' git_1%3a2.39.5_amd64.deb 9 ""
'file:/srv/ca-certificates_20230311_all.deb' ca-certificates_20230311_all.deb 9 SHA256:12
Some other words
"""
SHOWN = """\
Package: git
Architecture: amd64
Version: 1:2.39.5
Depends: libc6 (>= 2.34),
 perl
Filename: pool/main/g/git/git_2.39.5_amd64.deb
Size: 7
SHA256: aa

Package: git
Architecture: amd64
Version: 1:2.39.5
Filename: elsewhere
Size: 8
SHA256: bb

Package: unsummed
Architecture: all
Version: 1
"""


def test_what_apt_would_download_is_read_with_epochs_and_any_architecture() -> None:
    assert packages.printed(PRINTED) == {
        "gcc-12-base_12.2.0-14+deb12u1_amd64.deb": "gcc-12-base:amd64=12.2.0-14+deb12u1",
        "git_1+2.39.5_amd64.deb": "git:amd64=1:2.39.5",
        "ca-certificates_20230311_all.deb": "ca-certificates=20230311",
    }


def test_an_entry_is_the_first_of_its_version_and_has_a_checksum() -> None:
    found = packages.stanzas(SHOWN)
    assert list(found) == ["git:amd64=1:2.39.5"]
    assert packages.size_and_sum(found["git:amd64=1:2.39.5"]) == [7, "aa"]


def test_an_entry_names_the_file_beside_it() -> None:
    text = packages.entry(packages.stanzas(SHOWN)["git:amd64=1:2.39.5"], "git_1+2.39.5_amd64.deb")
    assert text.endswith("\n perl\nFilename: ./git_1+2.39.5_amd64.deb\nSize: 7\nSHA256: aa\n")
    assert text.count("Filename") == 1


def test_downloads_go_in_batches_that_a_node_has_room_for() -> None:
    files = {"a": [4, ""], "b": [5, ""], "c": [20, ""], "d": [1, ""], "e": [9, ""]}
    assert debs.batches(files, limit=10) == [["a", "b"], ["c"], ["d", "e"]]
    assert debs.batches({}) == []


def test_a_node_takes_packages_of_its_own_release() -> None:
    files = {"apt/debian12/Release": [1, ""], "apt/debian1/x": [1, ""], "pip/a": [1, ""]}
    manifest = {"files": files, "datasets": []}
    taken = bring.needed(manifest, data=False, release="debian12")
    assert list(taken) == ["apt/debian12/Release", "pip/a"]
    assert list(bring.needed(manifest, data=False)) == ["pip/a"]


def test_nodes_of_one_release_share_a_repository() -> None:
    plans = [
        {"release": "debian12", "files": {"b": [1, ""], "a": [1, ""]}},
        {"release": "debian12", "files": {"c": [1, ""]}},
        {"release": "ubuntu2204", "files": {}},
    ]
    assert prefetch.releases_of(plans) == {"debian12": ["a", "b", "c"], "ubuntu2204": []}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One small package, in a repository as prefetch writes it."""
    tree, place = tmp_path / "tree", tmp_path / "apt" / "debian12"
    (tree / "DEBIAN").mkdir(parents=True)
    place.mkdir(parents=True)
    control = (
        "Package: trainbench-probe\nVersion: 1:2\nArchitecture: all\n"
        "Maintainer: tests <tests@example.org>\nDescription: nothing\n"
    )
    (tree / "DEBIAN" / "control").write_text(control)
    name = "trainbench-probe_1+2_all.deb"
    argv = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(place / name)]
    subprocess.run(argv, check=True, capture_output=True)
    data = (place / name).read_bytes()
    sums = f"Size: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
    (place / f"{name}.control").write_text(packages.entry(control + sums, name))
    (place / "old_1_all.deb").write_text("of an older prefetch")
    prefetch.write_repositories(tmp_path, {"debian12": [name]})
    return place


def apt(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """apt with that repository alone, in folders of its own."""
    for path in ("state/lists/partial", "cache/archives/partial"):
        (folder / path).mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    source = f"Types: deb\nURIs: file:{folder}/apt/debian12\nSuites: ./\nTrusted: yes\n"
    (folder / "prefetched.sources").write_text(source)
    options = [
        f"Dir::State={folder}/state", f"Dir::State::status={folder}/status",
        f"Dir::Cache={folder}/cache", "Dir::Etc::SourceList=/dev/null",
        f"Dir::Etc::SourceParts={folder}", "APT::Sandbox::User=root",
    ]  # fmt: skip
    argv = ["apt-get", *(word for option in options for word in ("-o", option)), *words]
    return subprocess.run(argv, capture_output=True, text=True, cwd=folder)


def test_apt_takes_the_repository_and_refuses_a_changed_file(
    tmp_path: Path, repository: Path
) -> None:
    assert sorted(path.suffix for path in repository.iterdir()) == ["", "", ".control", ".deb"]
    read = apt(tmp_path, "update")
    assert read.returncode == 0, read.stderr
    assert read.stderr == ""
    got = apt(tmp_path, "download", "trainbench-probe=1:2")
    assert got.returncode == 0, got.stderr

    deb = next(repository.glob("*.deb"))
    data = bytearray(deb.read_bytes())
    data[-1] ^= 1
    deb.write_bytes(data)
    next(tmp_path.glob("trainbench-probe*.deb")).unlink()
    refused = apt(tmp_path, "download", "trainbench-probe=1:2")
    assert refused.returncode != 0
    assert "Hash Sum mismatch" in refused.stderr


def test_an_equal_repository_is_an_equal_file() -> None:
    assert prefetch.release_text(b"x") == prefetch.release_text(b"x")

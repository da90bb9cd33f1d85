"""A folder that is executed from is this user's: another who can change it is found, however."""

import os
import struct
from pathlib import Path

import pytest

from node import trusted_folder
from node.trusted_folder import UntrustedError, check, own_groups

OTHER = 4242  # a user that this machine does not have
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder away")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "above" / "runs"
    path.mkdir(parents=True)
    for each in (path, path.parent):
        each.chmod(0o755)
    return path


def refused(path: Path, named: str = "", above: bool = True) -> str:
    try:
        check(str(path), own_groups(named), above)
    except UntrustedError as error:
        return str(error)
    return ""


def test_ones_own_folder_is_taken(folder: Path) -> None:
    assert refused(folder) == ""


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777, 0o2777])
def test_a_folder_that_all_can_write_to_is_refused_with_the_cure(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    assert f"then: chmod o-w {folder}" in refused(folder)


def test_one_of_another_user_is_refused_whatever_its_mode(folder: Path) -> None:
    folder.chmod(0o700)
    os.chown(folder, OTHER, -1)
    assert f"belongs to user {OTHER}" in refused(folder)


def test_one_that_a_group_can_write_to_is_refused_unless_the_inventory_names_it(
    folder: Path,
) -> None:
    import grp

    group = next(each for each in grp.getgrall() if each.gr_gid not in own_groups())
    folder.chmod(0o775)
    os.chown(folder, -1, group.gr_gid)
    assert f"the group {group.gr_name} can write" in refused(folder)
    assert refused(folder, group.gr_name) == ""
    os.chown(folder, OTHER, group.gr_gid)
    assert refused(folder, group.gr_name) == ""


def test_a_group_that_there_is_not_is_a_sentence() -> None:
    with pytest.raises(UntrustedError, match="cluster_group names the group nobody-of-here"):
        own_groups("nobody-of-here")


def test_a_folder_above_it_that_all_can_write_to_is_refused_unless_it_is_sticky(
    folder: Path,
) -> None:
    folder.parent.chmod(0o777)
    assert f"chmod o-w {folder.parent}" in refused(folder)
    assert refused(folder, above=False) == ""
    folder.parent.chmod(0o1777)
    assert refused(folder) == ""


def test_a_link_of_another_user_on_the_way_is_refused(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder.parent)
    assert refused(link / "runs") == ""
    os.chown(link, OTHER, OTHER, follow_symlinks=False)
    assert f"{link} belongs to user {OTHER}" in refused(link / "runs")


def test_a_users_own_group_is_no_other_user(monkeypatch: pytest.MonkeyPatch) -> None:
    class Group:
        gr_name, gr_mem, gr_gid = "ann", ["ann"], 77

    class User:
        pw_name, pw_gid = "ann", 77

    import grp
    import pwd

    monkeypatch.setattr(pwd, "getpwuid", lambda uid: User)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: Group)
    assert 77 in trusted_folder.own_groups()
    Group.gr_mem = ["ann", "bob"]
    assert 77 not in trusted_folder.own_groups()
    Group.gr_mem, Group.gr_name = [], "users"
    assert 77 not in trusted_folder.own_groups()


@pytest.mark.parametrize(("kind", "who"), [(2, "user 4242"), (8, "the group 4242")])
def test_an_access_list_that_lets_another_write_is_found(folder: Path, kind: int, who: str) -> None:
    def entries(rights: int) -> bytes:
        rows = [(1, 7, -1), (2, rights, OTHER), (4, 5, -1), (16, 7, -1), (32, 5, -1)]
        if kind == trusted_folder.ACL_GROUP:
            rows = [(1, 7, -1), (4, 5, -1), (8, rights, OTHER), (16, 7, -1), (32, 5, -1)]
        packed = (struct.pack("<HHi", *row) for row in rows)
        return struct.pack("<I", 2) + b"".join(packed)

    try:
        os.setxattr(folder, "system.posix_acl_access", entries(5))
    except OSError:
        pytest.skip("the file system has no access lists")
    assert refused(folder) == ""
    os.setxattr(folder, "system.posix_acl_access", entries(7))
    assert f"{who} can write to {folder} by its access list" in refused(folder)
    assert f"then: setfacl -b {folder}" in refused(folder)

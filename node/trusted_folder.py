"""Folders whose files are executed later: nobody else may put a file into one, or swap it.

The rule is sshd's, with one addition: a group that the inventory names may share a folder. A user's
own group, which many systems make with each user, and root's do not count as another user.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False  # as typing's, whose import would cost each poll of a run
if TYPE_CHECKING:
    from collections.abc import Collection


ACL_USER, ACL_GROUP, ACL_WRITE = 2, 8, 2  # of linux/posix_acl_xattr.h: named entries, a right


class UntrustedError(Exception):
    """Somebody else can change what a folder holds; the sentence says who, and the cure."""


def own_groups(group_name: str = "") -> frozenset[int]:
    """Return the groups that may write to what is executed: `group_name`, root's, the user's own.

    Raises UntrustedError for a named group that this machine does not know.
    """
    groups = {0, group_number(group_name)} if group_name else {0}
    return frozenset(groups | _own_group())


def group_number(name: str) -> int:
    """Return the number of the group that cluster_group names. Raises UntrustedError."""
    import grp

    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise UntrustedError(
            "cluster_group names the group %s, which this machine does not know; correct the name"
            % name
        ) from None


def _own_group() -> set[int]:
    """Return the group that is this user's alone: of the same name, without another member."""
    import grp
    import pwd

    try:
        user = pwd.getpwuid(os.geteuid())
        group = grp.getgrgid(user.pw_gid)
    except KeyError:  # a user of a container without a name
        return set()
    alone = group.gr_name == user.pw_name and not set(group.gr_mem) - {user.pw_name}
    return {user.pw_gid} if alone else set()


def check(path: str, groups: Collection[int], above: bool = True) -> None:
    """Refuse a folder that another user owns or can write to. Raises UntrustedError, OSError.

    `above`: those above it, too, for who can rename one of them can put another in its place; and
    links on the way that another user made.
    """
    if above:
        for link in _links(os.path.abspath(path)):
            refuse(link, os.lstat(link), groups)
    real = os.path.realpath(path)
    refuse(real, os.stat(real), groups)
    while above and real != os.path.dirname(real):
        real = os.path.dirname(real)
        facts = os.stat(real)
        # In a sticky folder, such as /tmp, only an entry's owner renames it.
        if not facts.st_mode & stat.S_ISVTX:
            _refuse_open(real, facts, groups)


def refuse(path: str, facts: os.stat_result, groups: Collection[int]) -> None:
    """Refuse one file, folder or link that another user owns, or can write to.

    Raises UntrustedError.
    """
    shared = facts.st_gid in groups and facts.st_gid != 0
    if facts.st_uid not in (os.geteuid(), 0) and not shared:
        raise UntrustedError(
            "%s belongs to %s, who could change what runs; name another folder, or set"
            " cluster_group in the inventory to a group that you trust, then: chgrp GROUP %s"
            % (path, _user(facts.st_uid), path)
        )
    if not stat.S_ISLNK(facts.st_mode):
        _refuse_open(path, facts, groups)


def _refuse_open(path: str, facts: os.stat_result, groups: Collection[int]) -> None:
    for bit, writer, letter in (
        (stat.S_IWOTH, "every user", "o"),
        (stat.S_IWGRP, "the group %s" % _group(facts.st_gid), "g"),
    ):
        if facts.st_mode & bit and not (bit == stat.S_IWGRP and facts.st_gid in groups):
            hint = " (or name that group as cluster_group of the inventory)"
            raise UntrustedError(
                "%s can write to %s, and so change what runs; see that nobody else left anything"
                " in it, then: chmod %s-w %s%s"
                % (writer, path, letter, path, hint if letter == "g" else "")
            )

    if facts.st_mode & stat.S_IWGRP:  # else no entry of an access list lets anybody write
        _refuse_listed(path, groups)


def _refuse_listed(path: str, groups: Collection[int]) -> None:
    """Refuse a folder whose access list (setfacl) lets another user or group write to it."""
    import struct

    try:
        entries = os.getxattr(path, "system.posix_acl_access")[4:]
    except OSError:  # it has none
        return
    for kind, rights, number in struct.iter_unpack("<HHI", entries):
        user = kind == ACL_USER and number not in (os.geteuid(), 0)
        if rights & ACL_WRITE and (user or (kind == ACL_GROUP and number not in groups)):
            raise UntrustedError(
                "%s can write to %s by its access list, and so change what runs; see that nobody"
                " else left anything in it, then: setfacl -b %s"
                % (_user(number) if user else "the group %s" % _group(number), path, path)
            )


def _links(path: str) -> list[str]:
    """Return the links among a path's folders, as they are written."""
    parts = path.split(os.sep)
    folders = [os.sep.join(parts[:at]) for at in range(2, len(parts) + 1)]
    return [folder for folder in folders if os.path.islink(folder)]


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "user %d" % uid


def _group(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)

"""Let a trusted group read a campaign: `cluster_group` of the inventory."""

import os
import stat
from pathlib import Path

from node.program_output import os_error_words
from node.trusted_folder import UntrustedError, group_number
from runner.base.errors import UserError

FOLDER_BITS = stat.S_ISGID | stat.S_IRGRP | stat.S_IXGRP
FILE_BITS = stat.S_IRGRP


def refuse_other_group(group: str) -> None:
    """Refuse a group that this user cannot give files to. Raises UserError."""
    try:
        number = group_number(group)
    except UntrustedError as error:
        raise UserError(str(error)) from None
    if os.geteuid() != 0 and number not in {os.getegid(), *os.getgroups()}:
        raise UserError(
            f"you are not in the group {group} that cluster_group names; have an administrator"
            f" add you (`usermod -aG {group} USER`) and log in again, or correct the name"
        )


def give(folder: Path, group: str) -> None:
    """Let `group` read one folder. Raises UserError where the file system does not allow it."""
    try:
        _give(folder, group_number(group))
    except OSError as error:
        raise UserError(
            f"{folder} cannot be given to the group {group}: {os_error_words(error, str(folder))};"
            " name another folder with --runs, or leave cluster_group out of the inventory"
        ) from None


def let_group_read(campaign: Path, inside: Path, group: str) -> None:
    """Let `group` read what is in `inside`, and reach it from the campaign's folder.

    Only this user's own folders and plain files change; links and other users' files stay as they
    are, and so does a file that vanishes meanwhile. Raises OSError.
    """
    number = group_number(group)
    for folder in (inside, *inside.parents):
        _give(folder, number)
        if folder == campaign:
            break
    for above, folders, files in os.walk(inside):
        for name in (*folders, *files):
            _give(Path(above, name), number)


def _give(path: Path, group: int) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except OSError:  # a link, a socket, or gone
        return
    try:
        facts = os.fstat(handle)
        is_folder = stat.S_ISDIR(facts.st_mode)
        if facts.st_uid != os.geteuid() or not (is_folder or stat.S_ISREG(facts.st_mode)):
            return
        mode = stat.S_IMODE(facts.st_mode) | (FOLDER_BITS if is_folder else FILE_BITS)
        # Group first, so that its former group can read nothing for an instant.
        if facts.st_gid != group:
            os.fchown(handle, -1, group)
        if mode != stat.S_IMODE(facts.st_mode):
            os.fchmod(handle, mode)
    finally:
        os.close(handle)

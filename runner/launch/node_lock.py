"""One bench per cluster: while a campaign runs, no other campaign uses its nodes.

A lock file per node (its address and root folder), or per allocation that several benches may be
in, in this user's cache: it holds for all folders of runs. The lock on the node itself
(roles/launch) is the second line, for another user or another
control machine; it is free between two runs, so that alone it would let two campaigns take turns.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from node.printable import printable
from runner.base.errors import UserError
from runner.base.exclusive import make_private, open_lock, take

MOST_NAME = 4096  # bytes of a campaign's path
PATIENCE_S = 2.0  # a bench that was killed is gone within that


def _folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "trainbench" / "in-use"


def _file(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:24]


@contextmanager
def claimed(things: Mapping[str, str], campaign: Path) -> Iterator[None]:
    """Hold things (what is theirs alone, to what messages call them) for a campaign's folder.

    Raises UserError where another bench has one.
    """
    folder = _folder()
    try:
        make_private(folder)
    except OSError as error:
        raise UserError(
            f"the folder {folder} cannot be made: {error.strerror}; set XDG_CACHE_HOME to another"
        ) from None
    with ExitStack() as stack:
        # In one order, so that two that begin at once do not wait for each other.
        for key, name in sorted(things.items()):
            handle = stack.enter_context(open_lock(folder / _file(key)))
            if not take(handle, PATIENCE_S):
                holder = printable(handle.read(MOST_NAME).decode(errors="replace"))
                raise UserError(
                    f"{name} is in use by the campaign {holder}; wait for its bench, or end it with"
                    " Ctrl-C there"
                )
            handle.truncate(0)
            handle.write(os.fsencode(campaign.resolve()))
            handle.flush()
        yield

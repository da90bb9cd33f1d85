"""What a request to the live page asks for, or why it is refused. Pure: its words in, a noun out.

An address is `/<token>/`, `/<token>/now` or `/<token>/<file of a run>`; whoever does not know the
token is told nothing. The name in `Host` is this machine's own, so that no page of another site
that has its name point here (DNS rebinding) is answered.
"""

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from node.checked import PART
from runner.folder import names

METHODS = ("GET", "HEAD")
MOST_LETTERS = 2_000  # of an address
_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE)
_OF_RUN = (names.RUN, names.SCRIPT, names.OUTCOME)
_OF_NODE = (names.LOG, names.SAMPLES, names.DONE, names.STACKS, names.TIMELINE)
# What a campaign's folder has besides is nobody's: the lock, and what a later version may add.
_FILE = re.compile(
    rf"{PART}/repeat[0-9]{{1,6}}/attempt[0-9]{{1,6}}/"
    rf"(?:{'|'.join(map(re.escape, _OF_RUN))}"
    rf"|{names.NODES}/{PART}/(?:{'|'.join(map(re.escape, _OF_NODE))}))"
)


class RefusalError(Exception):
    """A request that is not answered; `status` is HTTP's."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True)
class Wish:
    """What is asked for: the page, how far the campaign is, or a `file` of a run, by its name
    in the campaign's folder.
    """

    kind: Literal["page", "now", "file"]
    file: str = ""


def wish(method: str, address: str, hosts: Sequence[str], token: str) -> Wish:
    """Read a request. `hosts` are its Host headers. Raises RefusalError."""
    if method not in METHODS:
        raise RefusalError(405)
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        raise RefusalError(421)
    path = address.partition("?")[0]
    empty, _, rest = path.partition("/")
    given, slash, name = rest.partition("/")
    known = hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
    if empty or not known or not slash or len(address) > MOST_LETTERS:
        raise RefusalError(404)
    if name in ("", "now"):
        return Wish("now" if name else "page")
    file = unquote(name, errors="replace")
    if not _FILE.fullmatch(file) or {".", ".."} & set(file.split("/")):
        raise RefusalError(404)
    return Wish("file", file)

"""What the live page's requests are answered with: the report, how far it is, a run's file."""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from node.files import open_plain
from node.printable import printable
from runner.serve.addresses import RefusalError, Wish
from runner.serve.renderer import Renderer

SEND_BYTES = 256 << 20  # of a run's file, from its beginning
# Of every answer. The address holds the token, so it goes to no other site, and into no cache.
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
}
# What a header can say and a page's own meta tag cannot.
_FRAMES = "frame-ancestors 'none'"
_POLICY = re.compile(rb'<meta http-equiv="Content-Security-Policy" content="([^"\r\n]{1,8000})">')


@dataclass(frozen=True)
class Response:
    """An answer of HTTP's: its status, headers besides those of every answer, and its body.

    The body is text, or an open file of which the first `size` bytes are sent; `sent` is called
    once all of them are.
    """

    status: int
    body: bytes | IO[bytes]
    size: int
    headers: Mapping[str, str] = field(default_factory=dict)
    sent: Callable[[], None] | None = None


@dataclass(frozen=True)
class Content:
    """What the server shows: the folder of a campaign, its report, and how far it is in words."""

    folder: Path
    renderer: Renderer
    words: Callable[[], str]

    def answer(self, wished: Wish) -> Response:
        """Answer it. Raises RefusalError for a file that is not there."""
        if wished.kind == "page":
            return self._page()
        if wished.kind == "now":
            return self._now()
        return _file(self.folder, wished.file)

    def _page(self) -> Response:
        page = self.renderer.page()
        found = _POLICY.search(page.content[:20_000])
        policy = found[1].decode() if found else HEADERS["Content-Security-Policy"]
        headers = {"Content-Security-Policy": f"{policy}; {_FRAMES}"}
        answer = _answer(page.content, "text/html; charset=utf-8", headers)
        return replace(answer, sent=lambda: self.renderer.sent(page.version))

    def _now(self) -> Response:
        page = self.renderer.page()
        content = {
            "version": page.version,
            "problem": printable(page.problem),
            "words": printable(self.words()),
            "over": self.renderer.over,
        }
        return _answer(json.dumps(content).encode(), "application/json", {})


def refusal(refused: RefusalError) -> Response:
    """Answer a request that is refused, in a word or two."""
    words = {404: "Not found", 405: "Only GET and HEAD", 421: "Another host"}
    text = words.get(refused.status, "Refused") + "\n"
    headers = {"Allow": "GET, HEAD"} if refused.status == 405 else {}
    return _answer(text.encode(), "text/plain; charset=utf-8", headers, refused.status)


def _answer(body: bytes, kind: str, headers: Mapping[str, str], status: int = 200) -> Response:
    return Response(status, body, len(body), {"Content-Type": kind, **headers})


def _file(folder: Path, name: str) -> Response:
    """Open a file as text, whatever its bytes say that they are."""
    path = folder / name
    try:
        # No link on the way leads out: what bench and its plugins write here are files and folders.
        if path.resolve() != folder.resolve() / name:
            raise RefusalError(404)
        stream = open_plain(path)
    except OSError:
        raise RefusalError(404) from None
    size = min(os.fstat(stream.fileno()).st_size, SEND_BYTES)
    return Response(200, stream, size, {"Content-Type": "text/plain; charset=utf-8"})

"""When the live page's report is made anew: somebody looks, something happened, and a while passed.

It is work for the machine that runs bench, which may be a node: it is done in a process of its own
of the lowest priority, at most for one part in SHARE of the time, and not at all while nobody asks.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

SHARE = 10  # a rendering may take one part in so many of the time
LEAST_S = 5.0  # between two of them
ASKS_S = 4.0  # between two questions of a page that is open (live.js: 3 s), and some
WATCHED_S = 15.0  # after the last request somebody still looks


@dataclass(frozen=True)
class Rendered:
    """A page: its number, from 1 on, and why the newest could not be made, if so."""

    version: int
    content: bytes
    problem: str = ""


class Renderer:
    """Keeps the newest page. `make` writes one, `changed` returns another value when one is due.

    `make` is told the page's number, and may raise an exception, whose words readers see.
    """

    def __init__(
        self, make: Callable[[int], bytes], changed: Callable[[], object], first: bytes
    ) -> None:
        self._make, self._changed = make, changed
        self._page = Rendered(0, first)
        self._made_of: object = None
        self._sent = 0  # the newest version that somebody has
        self._asked_at = -WATCHED_S
        self._not_before = self._made_at = 0.0
        self._final = self._closed = False
        self._turn = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="live page", daemon=True)
        self._thread.start()

    def page(self) -> Rendered:
        """Return the newest page, and have another one made if that is due."""
        with self._turn:
            self._asked_at = time.monotonic()
            self._turn.notify_all()
            return self._page

    def sent(self, version: int) -> None:
        """Note that somebody has all of a page."""
        with self._turn:
            self._sent = max(self._sent, version)
            self._turn.notify_all()

    @property
    def over(self) -> bool:
        """Whether this is the last page that there will be."""
        with self._turn:
            return self._final and self._made_of == self._changed()

    def finish(self, making_s: float, taking_s: float) -> None:
        """Let all who still look have the last page; return at once where nobody does.

        It may take `making_s` to be made, and they `taking_s` to take it. Nobody knows how many
        they are: each of them has asked within ASKS_S after it was made.
        """
        begun = time.monotonic()
        with self._turn:
            if not self._watched():
                return
            self._final, self._not_before = True, 0.0
            self._turn.notify_all()
        while True:
            last = self._changed()
            with self._turn:
                now, made = time.monotonic(), self._made_of == last
                all_asked = now - self._made_at > ASKS_S
                if made and self._sent == self._page.version and all_asked:
                    return
                until = max(begun, self._made_at) + taking_s if made else begun + making_s
                if now >= until:
                    return
                self._turn.wait(0.2)

    def close(self) -> None:
        """Make no more pages; one that is being made is waited for by nobody."""
        with self._turn:
            self._closed = True
            self._turn.notify_all()

    def _watched(self) -> bool:
        return time.monotonic() - self._asked_at < WATCHED_S

    def _work(self) -> None:
        while True:
            with self._turn:
                while not self._closed and not (self._watched() or self._final):
                    self._turn.wait()
                rest_s = self._not_before - time.monotonic()
                if rest_s > 0 and not self._closed:
                    self._turn.wait(rest_s)
                    continue
                if self._closed:
                    return
                version = self._page.version + 1
            now = self._changed()
            if now == self._made_of:
                with self._turn:
                    self._turn.wait(1.0)
                continue
            self._render(version, now)

    def _render(self, version: int, now: object) -> None:
        began = time.monotonic()
        try:
            page = Rendered(version, self._make(version))
        except Exception as error:  # whatever the folder holds: the campaign itself goes on
            page = Rendered(self._page.version, self._page.content, str(error) or repr(error))
        took_s = time.monotonic() - began
        with self._turn:
            self._page, self._made_of, self._made_at = page, now, time.monotonic()
            rest_s = 0.0 if self._final else max(LEAST_S, SHARE * took_s)
            self._not_before = time.monotonic() + rest_s
            self._turn.notify_all()

"""Lines that change while something goes on: in a terminal written over, elsewhere now and then."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from rich.console import ConsoleRenderable
from rich.control import Control
from rich.live import Live
from rich.text import Text

from runner.base.console import Screen, one_line

LIVE_S = 0.5  # between two looks, in a terminal
SHARE = 5  # a look may take one part in so many of a processor's time
RESIZED_S = 0.1  # between two looks at the terminal's size
PLAIN_S = 10.0  # between two plain lines elsewhere


class Visible(Protocol):
    """What is to be seen at an instant."""

    def rows(self, width: int, height: int) -> list[Text]:
        """Draw it for a terminal, each row narrower than that and fewer of them."""

    @property
    def words(self) -> str:
        """Say the same in a line."""


@dataclass(frozen=True)
class Shortened:
    """A picture of one line."""

    words: str

    def rows(self, width: int, height: int) -> list[Text]:
        """Cut the line where the terminal ends."""
        row = one_line(self.words)
        row.truncate(width - 1, overflow="ellipsis")
        return [row]


class Region(Live):
    """The lines at the end of a terminal that are written over, also where its size changed.

    A terminal that becomes narrower wraps the lines on it: each takes more rows than it had, which
    rich does not know, so that some would stay as ghosts.
    """

    def __init__(self, console: Screen) -> None:
        super().__init__(console=console, auto_refresh=False, transient=True)
        self._rows: Sequence[Text] = ()
        self._drawn: Sequence[int] = ()  # letters of each row that stands there

    def draw(self, rows: Sequence[Text]) -> None:
        """Write these rows over the last ones."""
        with self._lock:
            self._rows = rows
            self.update(Text("\n").join(rows), refresh=True)

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Say how many rows are to be erased, before anything is printed."""
        with self._lock:
            width = max(self.console.width, 1)
            if self._drawn:
                rows = sum(max(-(-letters // width), 1) for letters in self._drawn)
                self._live_render._shape = (width, rows)
            self._drawn = [row.cell_len for row in self._rows]
            return super().process_renderables(renderables)


def to_the_bottom(console: Screen) -> None:
    """Go to a terminal's last row, so that what follows fills its last rows.

    One whose size changes would else move rows of a region into its history, where they stay. Going
    there scrolls nothing: the history gets no empty lines.
    """
    if console.is_terminal and not console.is_dumb_terminal:
        console.control(Control.move(0, console.height))


@contextmanager
def live(console: Screen, line: Callable[[float], str]) -> Iterator[None]:
    """Show, until the block ends, `line` of the seconds since."""
    began = time.monotonic()
    with showing(console, lambda: Shortened(line(time.monotonic() - began))):
        yield


@contextmanager
def showing(console: Screen, look: Callable[[], Visible]) -> Iterator[None]:
    """Show, until the block ends, what a look sees: in a terminal all of it, elsewhere its words.

    These are not printed again where they say the same.
    """
    over = threading.Event()

    def seen() -> Visible:
        try:
            return look()
        except Exception as error:  # of what has come of a log so far; the run itself goes on
            return Shortened(f"how far it is cannot be read: {error}")

    terminal = console.is_terminal and not console.is_dumb_terminal
    watch = _in_a_terminal if terminal else _elsewhere
    watcher = threading.Thread(target=watch, args=(console, seen, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _in_a_terminal(console: Screen, seen: Callable[[], Visible], over: threading.Event) -> None:
    with Region(console) as region:
        while not over.is_set():
            began = time.monotonic()
            picture = seen()
            took_s = time.monotonic() - began
            until = began + max(LIVE_S, SHARE * took_s)
            size = None
            while True:
                if console.size != size:
                    size = console.size
                    region.draw(picture.rows(size.width, size.height))
                rest_s = until - time.monotonic()
                if rest_s <= 0 or over.wait(min(rest_s, RESIZED_S)):
                    break


def _elsewhere(console: Screen, seen: Callable[[], Visible], over: threading.Event) -> None:
    last_line = ""
    while not over.wait(PLAIN_S):
        line = one_line(seen().words)
        if line.plain != last_line:
            console.print(line)
        last_line = line.plain

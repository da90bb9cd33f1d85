"""Lines that change while something goes on: in a terminal written over, elsewhere now and then."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.text import Text

from runner.base.console import Screen, one_line

LIVE_S = 0.5  # between two looks at one run, in a terminal
PLAIN_S = 10.0  # between two plain lines elsewhere


@contextmanager
def live(console: Screen, line: Callable[[float], str]) -> Iterator[None]:
    """Show, until the block ends, `line` of the seconds since."""
    began = time.monotonic()
    with showing(console, lambda: [line(time.monotonic() - began)]):
        yield


@contextmanager
def showing(console: Screen, lines: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Show, until the block ends, `lines`: all of them in a terminal, elsewhere the last alone.

    That is not printed again where it says the same. Each line takes a look of its own, so that
    many are looked at less often.
    """
    over = threading.Event()

    def words() -> list[Text]:
        try:
            return [one_line(line) for line in lines()]
        except Exception as error:  # of what has come of a log so far; the run itself goes on
            return [one_line(f"how far it is cannot be read: {error}")]

    def watch() -> None:
        now = words() if console.is_terminal else []
        if console.is_terminal:
            with console.status(_block(now)) as status:
                while not over.wait(LIVE_S * len(now)):
                    now = words()
                    status.update(_block(now))
            return
        said = ""
        while not over.wait(PLAIN_S):
            *_, last = words()
            if last.plain != said:
                console.print(last)
            said = last.plain

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _block(lines: Sequence[Text]) -> Text:
    """Join lines below each other, the later ones as far in as the first."""
    return Text("\n  ").join(lines)

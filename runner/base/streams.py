"""Standard output and standard error: the one door to them, through which only `TerminalText` goes.

Ruff forbids print, sys.stdout and sys.stderr elsewhere (T20, TID251). rich writes by
base/console.py, which is held to the same.
"""

import errno
import io
import os
import shutil
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from types import TracebackType
from typing import Any, TextIO

from runner.base.escapes import TerminalLine, TerminalText, json_text
from runner.base.program_name import as_called


def say(text: str, end: str = "\n") -> None:
    """Print on standard output, with our commands named as people can call them."""
    print(TerminalText(as_called(text)), end=end)


def say_json(document: Any) -> None:
    """Print one JSON document, or a dataclass as one: a command's answer to a machine."""
    plain = (
        asdict(document) if is_dataclass(document) and not isinstance(document, type) else document
    )
    print(TerminalText(json_text(plain)))


def complain(text: str) -> None:
    """Print one line on standard error, with our commands named as people can call them."""
    print(TerminalLine(as_called(text)), file=sys.stderr)


def watched() -> bool:
    """Return whether standard output is a terminal, and no file or pipe."""
    return sys.stdout.isatty()


def terminal_width() -> int:
    """Return how many letters a line may have: where nobody watches, nothing needs to be cut."""
    return shutil.get_terminal_size((200, 24)).columns


def forgive() -> None:
    """Replace what a terminal cannot show, for it may know fewer characters than a log."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def open_closed() -> None:
    """Have a standard stream that the caller closed (`>&-`) lead nowhere; else the file that is
    opened next would have its number.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            os.set_inheritable(number, True)
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115, stays open
            setattr(sys, name, stream)


def guard() -> None:
    """Have Python's own tracebacks pass the door, too: an error's words may be a log's."""

    def show(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        text = "".join(traceback.format_exception(kind, error, at))
        print(TerminalText(text), end="", file=sys.stderr)

    sys.excepthook = show
    threading.excepthook = lambda ended: show(
        ended.exc_type, ended.exc_value or ended.exc_type(), ended.exc_traceback
    )


def reader_is_gone(error: OSError) -> bool:
    """Return whether what read our output has gone: a pipe's reader, or the terminal."""
    return isinstance(error, BrokenPipeError) or error.errno == errno.EIO


def nobody_reads() -> None:
    """Send what is left of our output nowhere, since its reader has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def flush() -> None:
    """Have what was printed be written, before this process becomes two."""
    sys.stdout.flush()
    sys.stderr.flush()


def leave_terminal(file: int) -> None:
    """Read nothing any more, and print into an open file."""
    flush()
    null = os.open(os.devnull, os.O_RDONLY)
    for number, source in enumerate((null, file, file)):
        os.dup2(source, number)
    os.close(null)


class Leaving:
    """Standard error that may go away, as a closed terminal or a pipe does: a campaign goes on."""

    def __init__(self) -> None:
        self._stream: TextIO = sys.stderr

    def write(self, text: str) -> int:
        """Write as a stream does; what cannot be written is dropped, from then on for good."""
        with self._until_gone():
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Do as a stream does."""
        with self._until_gone():
            self._stream.flush()

    def isatty(self) -> bool:
        """Answer as the stream does."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Answer as the stream does."""
        return self._stream.fileno()

    @contextmanager
    def _until_gone(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            # Python, too, would flush the old one at its end, and fail.
            self._stream = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115

"""What every case of every target is held against, whatever it is of.

- no exception leaves a command but those that `python -m runner` answers with a sentence;
- at most MOST_S seconds of CPU for each megabyte of the input begun;
- nothing but printable characters and line breaks on the terminal and in tables;
- JSON without NaN and Infinity;
- no file is written, and no folder made, outside of the case's own; no process starts and
  nothing connects.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from runner.__main__ import main

MOST_S = 2.0  # of CPU, for each megabyte of an input begun; 2,000 cells take 0.6 to 1.3
HANG_S = 5.0  # of CPU; then the case is stopped
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Events of sys.audit whose first arguments are paths that change.
CHANGES = {
    **dict.fromkeys(("os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.truncate"), 1),
    **dict.fromkeys(("os.rename", "os.link", "os.symlink"), 2),
    **dict.fromkeys(("os.chown", "os.utime", "os.setxattr", "shutil.rmtree"), 1),
}
STARTS = {
    *("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn", "pty.spawn"),
    *("socket.connect", "socket.bind", "socket.sendto"),
}


class FindingError(Exception):
    """What an oracle found: one line, which is the same for the same fault."""


class HangError(BaseException):
    """A case took HANG_S: no handler of the code under test takes it for its own."""


class Target(Protocol):
    """One kind of input."""

    name: str
    share: int  # of a hundred cases

    def make(self, chance: random.Random) -> bytes:
        """One input: the same for the same chance."""

    def judge(self, data: bytes, folder: Path) -> None:
        """Give it to the product, in a folder of its own. Raises FindingError."""


@dataclass(frozen=True)
class Said:
    """What one command said."""

    code: int
    out: str
    err: str


def said(argv: Sequence[str]) -> Said:
    """One command in this process, with the oracles that hold for each of them."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(argv))
    answer = Said(code, out.getvalue(), err.getvalue())
    if code not in (0, 1, 2, 3):  # 3: of a comparison that nobody can tell
        raise FindingError(f"{argv[0]}: exit code {code}")
    printable(f"{argv[0]}: what it printed", answer.out + answer.err)
    if "json" in argv and code != 2:
        strict(f"{argv[0]} --format json", answer.out)
    return answer


def printable(what: str, text: str) -> None:
    """No control character, but line breaks."""
    for line in text.split("\n"):
        if not line.isprintable():
            odd = next(letter for letter in line if not letter.isprintable())
            raise FindingError(f"{what} has the character {odd!a}")


def strict(what: str, text: str) -> Any:
    """JSON as everybody reads it."""

    def constant(word: str) -> None:
        raise FindingError(f"{what} says {word}")

    try:
        return json.loads(text, parse_constant=constant)
    except ValueError as error:
        raise FindingError(f"{what} is not JSON: {type(error).__name__}") from None


# --- what a case does outside of its folder -------------------------------------------------------


class Guard:
    """Hears of each file that this process opens or changes, and of each process that it starts."""

    def __init__(self, home: Path) -> None:
        self.home = f"{home.resolve()}{os.sep}"
        self.active = False
        self.outside = ""
        sys.addaudithook(self._hear)

    def _hear(self, event: str, given: tuple[Any, ...]) -> None:
        if not self.active:
            return
        if event in STARTS:
            self.outside = self.outside or f"{event} {str(given[:1])[:60]}"
        elif event == "open":
            if isinstance(given[2], int) and given[2] & WRITES:
                self._look(event, given[0])
        elif count := CHANGES.get(event):
            if isinstance(given[-1], int) and given[-1] > 0:
                return  # beside an open folder, as shutil.rmtree works
            for path in given[1 if event == "os.symlink" else 0 : count]:
                self._look(event, path)

    def _look(self, event: str, path: Any) -> None:
        if isinstance(path, str | bytes | os.PathLike):
            active, self.active = self.active, False
            whole = os.path.realpath(os.path.dirname(os.path.abspath(os.fsdecode(path))))
            self.active = active
            if not f"{whole}{os.sep}".startswith(self.home) and whole != "/dev":
                self.outside = self.outside or f"{event} {os.path.basename(whole)}/..."


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Stop what takes HANG_S of CPU."""

    def stop(number: int, frame: Any) -> None:
        raise HangError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, HANG_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def finding(target: Target, data: bytes, folder: Path, guard: Guard) -> tuple[str, float]:
    """What is wrong with one case, empty where nothing is; and the CPU seconds that it took."""
    most_s = MOST_S * (1 + len(data) // 2**20)
    took_s = 0.0
    for _ in range(2):  # what is slow twice is slow: the machine may be busy
        began = time.process_time()
        guard.outside, guard.active = "", True
        try:
            with bounded():
                target.judge(data, folder)
            why = ""
        except FindingError as error:
            why = str(error)
        except HangError:
            return f"takes more than {HANG_S:g} s of CPU", HANG_S
        except (Exception, SystemExit) as error:
            why = f"{type(error).__name__} at {_place(error)}"
        finally:
            guard.active = False
        took_s = time.process_time() - began
        if guard.outside:
            return f"reaches outside of its folder: {guard.outside}", took_s
        if why or took_s <= most_s:
            return why, took_s
    return f"takes {took_s:.1f} s of CPU for {len(data)} bytes", took_s


def _place(error: BaseException) -> str:
    """The last line of ours that an exception passed, and the one that raised it."""
    places, trace = [], error.__traceback__
    while trace is not None:
        path = Path(trace.tb_frame.f_code.co_filename)
        places.append((path, f"{path.parent.name}/{path.name}:{trace.tb_lineno}"))
        trace = trace.tb_next
    ours = [place for path, place in places if set(path.parts) & {"runner", "node", "plugins"}]
    ours = ours or [place for _, place in places]
    return " from ".join(dict.fromkeys([places[-1][1], ours[-1]]))

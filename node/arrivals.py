"""When the bytes of a log arrived, in a small file beside it, while something writes the log.

    began 1764427384.250 within_ms 5    when the file's clock began (epoch seconds), and its error
    1234.5 56                           1,234.5 ms later, by a monotonic clock, the log had 56 bytes
    2345.6 78 50                        an entry with an error of its own, in ms

The kernel says that the log grew (inotify): so the trainer keeps a plain file, and nothing looks at
one that rests. Between two looks are PAUSE_S; after many in a row SLOW_S, and then nothing waits
for the kernel. An entry is late by the time since the look before at most, one that the kernel told
by what this thread waited for a processor. The size is lseek's: stat has NFS write its cache back.

The file has MOST_BYTES at most: then every second entry of its older half is left out.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import threading
import time
from contextlib import suppress

from node.files import write_text

WITHIN_MS, MOST_MS = 5, 99_999
PAUSE_S, SLOW_S = 0.004, 0.06
LOOKS, LOOKS_A_SECOND = 2000, 16  # with PAUSE_S between them: so many in a row, and on average
MOST_BYTES = 4 << 20
IN_MODIFY = 2
END_S = 2.0  # for the last entries, on a file system that may hang


class Arrivals(threading.Thread):
    """Notes when a log grows, until `end`."""

    def __init__(self, log: str, path: str, flush_s: float) -> None:
        super().__init__(daemon=True)
        self.path, self.flush_s = path, flush_s
        self.log = os.open(log, os.O_RDONLY)
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.events = self.libc.inotify_init1(os.O_CLOEXEC)
        self.watched = self.libc.inotify_add_watch(self.events, os.fsencode(log), IN_MODIFY)
        self.over, self.size, self.schedstat = False, 0, -1
        self.began = self.flushed = time.monotonic()
        self.text = "began %.3f within_ms %d\n" % (time.time(), WITHIN_MS)
        self.noted: list[tuple[float, int, float]] = []  # when, bytes, and late by so much
        self.start()

    def run(self) -> None:
        """Look at the log whenever it grew."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        with suppress(OSError):
            self.schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        looked, spare, over, told, waited_s = self.began, float(LOOKS), False, False, 0.0
        while not over:
            over, size, now = self.over, os.lseek(self.log, 0, os.SEEK_END), time.monotonic()
            if size > self.size:
                self.size = size
                late_s = self.waited_s() - waited_s if told else now - looked
                self.noted.append((now - self.began, size, late_s))
            spare = min(LOOKS, spare + LOOKS_A_SECOND * (now - looked)) - 1
            looked = now
            if over or now - self.flushed >= self.flush_s:
                self.flush(now)
            told = self.watched >= 0 and spare > 0 and not over
            if told:
                waited_s = self.waited_s()
                told = bool(select.select([self.events], [], [], self.flush_s)[0])
                if told:
                    os.read(self.events, 4096)
            wait_s = looked + (PAUSE_S if spare > 0 else SLOW_S) - time.monotonic()
            if wait_s > 0:
                told = False
                time.sleep(wait_s)

    def waited_s(self) -> float:
        """Return how long this thread has waited for a processor; 0 where the kernel is silent."""
        text = os.pread(self.schedstat, 99, 0) if self.schedstat >= 0 else b"0 0"
        return int(text.split()[1]) / 1e9

    def log_bytes(self) -> int:
        """Return the log's size by the last look; as it is where this thread has ended."""
        return self.size if self.is_alive() else os.lseek(self.log, 0, os.SEEK_END)

    def flush(self, now: float) -> None:
        """Write what is noted; a full disk is the trainer's to say."""
        text, noted, self.flushed = self.text, self.noted, now
        self.text, self.noted = "", []
        for at, size, late_s in noted:
            error = " %d" % min(1000 * late_s + 1, MOST_MS) if 1000 * late_s > WITHIN_MS else ""
            text += "%.1f %d%s\n" % (1000 * at, size, error)
        with suppress(OSError):
            with open(self.path, "a+", encoding="ascii") as stream:
                stream.write(text)
                if stream.tell() <= MOST_BYTES:
                    return
                stream.seek(0)
                lines = stream.readlines()
            write_text(self.path, "".join(thinned(lines)), mode=0o600)

    def end(self) -> None:
        """Note the last bytes, and look no more."""
        self.over = True
        self.libc.inotify_rm_watch(self.events, self.watched)  # which is an event
        self.join(END_S)


def thinned(lines: list[str]) -> list[str]:
    """Return the first line, every second one of the older half, and the newer half."""
    return lines[:1] + lines[1 : len(lines) // 2 : 2] + lines[len(lines) // 2 :]

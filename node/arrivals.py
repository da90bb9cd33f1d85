"""When the bytes of a log arrived, in a small file beside it, while something writes the log.

    began 1764427384.250 within_ms 5    when the file's clock began (epoch seconds), and its error
    1234.5 56                           1,234.5 ms later, by a monotonic clock, the log had 56 bytes
    2345.6 78 50                        an entry with an error of its own, in ms

The kernel says that the log grew (inotify): so the trainer keeps a plain file, and nothing looks at
one that rests. Without inotify the log is looked at again and again. Between two looks are PAUSE_S,
after many in a row SLOW_S: bytes in between are seen that much too late. The size comes from lseek:
stat would have NFS write back what its cache holds.

The file has MOST_BYTES at most: then every second entry of its older half is left out.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import threading
import time

from node.files import write_text

WITHIN_MS = 5
PAUSE_S, SLOW_S = 0.004, 0.05
LOOKS, LOOKS_A_SECOND = 2000, 20  # with PAUSE_S between them: so many in a row, and on average
MOST_BYTES = 4 << 20
IN_MODIFY = 2
END_S = 2.0  # for the last entries, on a file system that may hang


class Arrivals(threading.Thread):
    """Notes when a log grows, until `end`; `size` is that of the log by the last look."""

    def __init__(self, log: str, path: str, flush_s: float) -> None:
        super().__init__(daemon=True)
        self.path, self.flush_s = path, flush_s
        self.log = os.open(log, os.O_RDONLY)
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.events = self.libc.inotify_init1(os.O_CLOEXEC)
        self.watched = self.libc.inotify_add_watch(self.events, os.fsencode(log), IN_MODIFY)
        self.over, self.size, self.spare = False, 0, float(LOOKS)
        self.began = self.looked = self.flushed = time.monotonic()
        self.text = "began %.3f within_ms %d\n" % (time.time(), WITHIN_MS)
        self.start()

    def run(self) -> None:
        """Look at the log whenever it grew."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self.look("")
        while not self.over:
            grew = self.watched < 0 or select.select([self.events], [], [], self.flush_s)[0]
            pause_s = PAUSE_S if self.spare > 0 else SLOW_S
            wait_s = self.looked + pause_s - time.monotonic()
            if wait_s > 0:
                time.sleep(wait_s)
            if grew and self.watched >= 0:
                os.read(self.events, 4096)
            self.look(" %d" % (SLOW_S * 1000) if wait_s > 0 and pause_s > PAUSE_S else "")
        self.flush()

    def look(self, error: str) -> None:
        """Note a new size, with its error; write what is noted where that was done long ago."""
        now, size = time.monotonic(), os.lseek(self.log, 0, os.SEEK_END)
        self.spare = min(LOOKS, self.spare + LOOKS_A_SECOND * (now - self.looked)) - 1
        self.looked = now
        if size > self.size:
            self.size = size
            self.text += "%.1f %d%s\n" % ((now - self.began) * 1000, size, error)
        if now - self.flushed >= self.flush_s:
            self.flushed = now
            self.flush()

    def flush(self) -> None:
        """Write what is noted; a full disk is the trainer's to say."""
        text, self.text = self.text, ""
        try:
            with open(self.path, "a+", encoding="ascii") as stream:
                stream.write(text)
                if stream.tell() <= MOST_BYTES:
                    return
                stream.seek(0)
                lines = stream.readlines()
            write_text(self.path, "".join(thinned(lines)), mode=0o600)
        except OSError:
            pass

    def end(self) -> None:
        """Note the last bytes, and look no more."""
        self.over = True
        self.libc.inotify_rm_watch(self.events, self.watched)  # which is an event
        self.join(END_S)


def thinned(lines: list[str]) -> list[str]:
    """Return the first line, every second one of the older half, and the newer half."""
    half = len(lines) // 2
    return lines[:1] + lines[1:half:2] + lines[half:]

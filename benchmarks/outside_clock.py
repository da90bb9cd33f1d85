"""Time every trainer by one clock outside of it: when each line of its log arrives.

    python -m benchmarks.outside_clock CLUSTER_ROOT -o stamps.json   while bench runs, until Ctrl-C
    python -m benchmarks.outside_clock --read stamps.json --warmup 8 --batch 64

The first looks at the logs of runs below CLUSTER_ROOT 50 times per second. The second prints, for
each log, the samples/s between its line of the last warm-up iteration and its last line. A line is
known to 20 ms, so 20 s of steps to 0.2 %. The log has to have a line per iteration, unbuffered.
"""

import argparse
import json
import re
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tabulate import tabulate

POLL_S, LOOK_S = 0.02, 1.0
STEP = re.compile(r"\b(?:iter(?:ation)?[ :]+|torch_gpt step=|step: +)(\d+)")
LOG = "launcher.log"
Stamp = tuple[float, str]  # seconds of a monotonic clock, line


class FollowedLog:
    """A log that grows: each whole line, once, with the time when it was seen."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open(newline="\n", errors="replace")
        self._rest = ""
        self.lines: list[Stamp] = []

    def poll(self, now: float) -> None:
        """Read what is new."""
        *whole, self._rest = (self._rest + self._stream.read()).split("\n")
        self.lines += [(now, line.split("\r")[-1][:200]) for line in whole]


def follow(root: Path, logs: dict[str, FollowedLog]) -> None:
    """Follow the logs below a folder for ever; those that were there before are left out."""
    before = set(root.rglob(LOG))
    looked = 0.0
    while True:
        now = time.monotonic()
        if now - looked > LOOK_S:
            looked = now
            for path in set(root.rglob(LOG)) - before:
                if str(path) not in logs:
                    logs[str(path)] = FollowedLog(path)
        for log in logs.values():
            log.poll(now)
        time.sleep(POLL_S)


def rate(lines: Iterable[Stamp], warmup: int, batch: int) -> tuple[float, int] | None:
    """Return samples/s after `warmup` iterations, and of how many; None of a log without them."""
    at = [(when, int(found[1])) for when, line in lines if (found := STEP.search(line))]
    if len(at) <= warmup:
        return None
    (begin, first), (end, last) = at[warmup - 1], at[-1]
    return ((last - first) * batch / (end - begin), last - first) if end > begin else None


def _rows(stamps: dict[str, list[Stamp]], warmup: int, batch: int) -> Iterator[Sequence[object]]:
    for path, lines in stamps.items():
        found = rate(lines, warmup, batch)
        name = "/".join(Path(path).parts[-3:-1])
        yield (name, *found) if found else (name, None, None)


def main(argv: Sequence[str] | None = None) -> int:
    """Follow logs, or print their rates."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("root", nargs="?", type=Path, metavar="CLUSTER_ROOT")
    parser.add_argument("-o", "--output", type=Path, default=Path("stamps.json"))
    parser.add_argument("--read", type=Path, metavar="FILE")
    parser.add_argument("--warmup", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64, help="samples per iteration")
    chosen = parser.parse_args(argv)
    if chosen.read:
        rows = _rows(json.loads(chosen.read.read_text()), chosen.warmup, chosen.batch)
        print(tabulate(rows, ("run", "samples/s", "iterations"), floatfmt=".4g"))
        return 0
    if chosen.root is None or not chosen.root.is_dir():
        parser.error("name the folder that runs are below (cluster_root), or --read FILE")
    for ended in (signal.SIGINT, signal.SIGTERM):  # a shell starts what is behind & without SIGINT
        signal.signal(ended, signal.default_int_handler)
    logs: dict[str, FollowedLog] = {}
    try:
        follow(chosen.root, logs)
    except KeyboardInterrupt:
        chosen.output.write_text(json.dumps({path: log.lines for path, log in logs.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

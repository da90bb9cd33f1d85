"""One function of many campaigns, on all processors; results in their order."""

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from runner.base.errors import UserError

Given = TypeVar("Given")
Made = TypeVar("Made")

MOST_PROCESSES = 8


def parallel_map(make: Callable[[Given], Made], arguments: Sequence[Given]) -> Iterator[Made]:
    """Yield `make(one)` for each, in order; `make` is a module's function.

    Ctrl-C ends the processes, and nothing temporary stays. Raises UserError where one was killed.
    """
    count = min(len(os.sched_getaffinity(0)), MOST_PROCESSES, len(arguments))
    if count < 2:
        yield from map(make, arguments)
        return
    before = set(multiprocessing.active_children())
    with tempfile.TemporaryDirectory(prefix="trainbench-") as scratch:
        pool = ProcessPoolExecutor(count, initializer=_begin, initargs=(scratch,))
        try:
            yield from pool.map(make, arguments)
        except BrokenProcessPool:
            raise UserError(
                "a process that read campaigns was killed, perhaps for the memory that it took;"
                " name fewer of them"
            ) from None
        except BaseException:
            for process in set(multiprocessing.active_children()) - before:
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _begin(scratch: str) -> None:
    """Leave Ctrl-C to the process that all see, which ends this one and removes what it had
    extracted.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    tempfile.tempdir = scratch

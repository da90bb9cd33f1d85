"""Do several things side by side, in threads; or one after the other, in none."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

Item = TypeVar("Item")
Begun = TypeVar("Begun")

LOOK_S = 0.02  # between two looks whether a run was handed over


def each(
    items: Iterable[Item],
    begin: Callable[[Item], Begun],
    finish: Callable[[Begun], None],
    *,
    at_once: int,
    handed_over: Callable[[Begun], bool],
    over: Callable[[], bool],
) -> None:
    """Begin the items in their order, `at_once` of them at a time, until it is over.

    `begin` is called here, `finish` in a thread of its own where several go on; the next begins
    once the one before it was handed over, so that a queue gets them in order. What one raises is
    raised here once the others have ended; no further one begins meanwhile.
    """
    if at_once == 1:
        for item in items:
            if over():
                return
            finish(begin(item))
        return
    going: set[Future[None]] = set()
    failed: list[Future[None]] = []

    def collect(least: int) -> None:
        """Wait until no more than `least` go on, and note which failed."""
        nonlocal going
        patience_s: float | None = 0.0
        while True:
            finished, going = wait(going, patience_s, FIRST_COMPLETED)
            failed.extend(future for future in finished if future.exception() is not None)
            if len(going) <= least:
                return
            patience_s = None

    with ThreadPoolExecutor(at_once, thread_name_prefix="run") as pool:
        for item in items:
            collect(at_once - 1)
            if failed or over():
                break
            begun = begin(item)
            future = pool.submit(finish, begun)
            going.add(future)
            while not (future.done() or over() or handed_over(begun)):
                time.sleep(LOOK_S)
        collect(0)
    for future in failed:
        future.result()

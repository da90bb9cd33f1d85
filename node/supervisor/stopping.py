"""Runs that are to end: told so, or cleaned up after."""

from __future__ import annotations

import os
import signal
import time

from node.causes import EndedBy

from .files import read_json, write
from .names import DONE, JOB, STATE, STOP
from .processes import end_run, stat_of
from .state import boot_id, daemon_alive, finish, on_this_node

STUCK_S = 5.0  # for a supervisor that goes on again to end its run

TYPE_CHECKING = False  # as typing's, whose import would cost each poll
if TYPE_CHECKING:
    from typing import Any


def ask_to_stop(reason: str) -> None:
    """Leave the stop file; where the disk is full, TERM says the same."""
    try:
        write(STOP, reason)
    except OSError:
        state = read_json(STATE)
        if state and daemon_alive():
            os.kill(state["pid"], signal.SIGTERM)


def wake() -> None:
    """Have a supervisor go on that somebody has stopped (SIGSTOP): it would hold the node."""
    state = read_json(STATE)
    if state and daemon_alive():
        entry = stat_of(state["pid"])
        if entry is not None and entry[2] in "Tt":
            signal_daemon(state["pid"], signal.SIGCONT)


def end_stuck(patience_s: float = STUCK_S) -> None:
    """End the run of this folder, whose supervisor was told to and does not: stopped, or frozen.

    What its control group has frozen ends once that is thawed, and counts as left.
    """
    wake()
    if _ends(patience_s):
        return
    state = read_json(STATE)
    if state and daemon_alive():
        signal_daemon(state["pid"], signal.SIGKILL)
    if not _ends(patience_s):
        lost_supervisor()


def end_stuck_in(folder: str) -> None:
    """Do the same in another run's folder, which holds this node."""
    here = os.getcwd()
    try:
        os.chdir(folder)
        if on_this_node(read_json(JOB) or {}) and not os.path.exists(DONE):
            end_stuck()
    except OSError:
        pass  # it has ended
    finally:
        os.chdir(here)


def signal_daemon(pid: int, number: int) -> None:
    """Signal a supervisor that may have ended by now."""
    try:
        os.kill(pid, number)
    except OSError:
        pass


def _ends(patience_s: float) -> bool:
    """Return whether the run of this folder says within some seconds how it ended."""
    until = time.monotonic() + patience_s
    while not os.path.exists(DONE) and time.monotonic() < until:
        if not daemon_alive():
            return False
        time.sleep(0.02)
    return os.path.exists(DONE)


def lost_supervisor(job: dict[str, Any] | None = None) -> dict[str, Any]:
    """The daemon was killed: end what it left, by the run's mark, and say so."""
    job = read_json(JOB) if job is None else job
    signalled, left = end_run(job, {})
    done: dict[str, Any] = {
        "rc": None,
        "signal": None,
        "ended_by": EndedBy.SUPERVISOR_LOST,
        "signalled": signalled,
        "left": left,
        "ended_at": time.time(),
    }
    if (read_json(STATE) or {}).get("boot_id") not in (None, boot_id()):
        done["message"] = "the node restarted meanwhile"
    try:
        finish(done)
    except OSError:
        pass  # the answer still says it
    return done


def stop_all(spec: dict[str, Any]) -> dict[str, Any]:
    """End every run that this node holds; for after a dead control process.

    `spec`: runs (the folder of all), patience_s.
    """
    ended = []
    for folder, _, names in os.walk(spec["runs"]):
        if JOB in names and DONE not in names:
            os.chdir(folder)
            if not on_this_node(read_json(JOB) or {}):
                continue
            ask_to_stop("stopped by playbooks/stop.yml")
            until = time.monotonic() + spec["patience_s"]
            while not os.path.exists(DONE) and time.monotonic() < until:
                if not daemon_alive():
                    lost_supervisor()
                time.sleep(0.02)
            if not os.path.exists(DONE):
                end_stuck()
            ended.append({"dir": folder, "done": read_json(DONE)})
    return {"ended": ended}

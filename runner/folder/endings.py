"""How one node's part of a run ended, by its done.json: whether well, the cause, the words. Pure.

The launch plugin imports this too, so that both say the same; it needs the standard library alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_CAUSES = {
    "exit": "exit",
    "lease": "node_lost",
    "stop": "stopped",
    "time_limit": "time_limit",
    "log_limit": "log_limit",
}
_WORDS = {
    "lease": "the node ended the run itself, having lost the control node",
    "time_limit": "the run reached time_limit_s",
    "supervisor_lost": "the supervisor was killed",
}


def ended_well(done: Mapping[str, Any]) -> bool:
    """Whether the launcher ended by itself with exit code 0."""
    return done.get("ended_by") == "exit" and done.get("rc") == 0


def cause_of(done: Mapping[str, Any]) -> str:
    """The cause word of a node that did not end well; the launch plugin's own where it has one."""
    if done.get("cause"):
        return str(done["cause"])
    return _CAUSES.get(str(done.get("ended_by")), "supervisor_lost")


def words_of(done: Mapping[str, Any]) -> str:
    """One sentence on how a node's launcher ended."""
    if done.get("message"):
        return str(done["message"])
    if done.get("ended_by") == "exit":
        how = f"the launcher ended with exit code {done.get('rc')}"
        if done.get("signal"):
            how = f"the launcher was ended by signal {done['signal']}"
        if done.get("oom_kills"):
            how += ", and the kernel killed a process for lack of memory meanwhile"
        return how
    ended_by = str(done.get("ended_by"))
    return _WORDS.get(ended_by, f"ended by {ended_by}")


def first_bad(done: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The first host, by rank as `done` has them, that did not end well; None where all did."""
    return next((host for host, how in done.items() if not ended_well(how)), None)


def incomplete(done: Mapping[str, Mapping[str, Any]]) -> str:
    """Which node's log did not come home in full, and why; empty where all did."""
    for host, how in done.items():
        if how.get("log"):
            return f"the log of {host} is {how['log']}"
    return ""

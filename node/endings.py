"""How a node's launcher ended, by its done.json: whether well, why, in which words. Pure.

The supervisor, the launch plugin and the runner say it by these.
"""

from __future__ import annotations

from .causes import Cause, EndedBy, cause_named

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any

WORDS: dict[str, str] = {
    EndedBy.LEASE: "the node ended the run itself, having lost the control node",
    EndedBy.TIME_LIMIT: "the run reached time_limit_s",
    EndedBy.SUPERVISOR_LOST: "the supervisor was killed",
}


def ended_well(ending: dict[str, Any]) -> bool:
    """Return whether the launcher ended by itself with exit code 0."""
    return ending.get("ended_by") == EndedBy.EXIT and ending.get("rc") == 0


def cause_of(ending: dict[str, Any]) -> Cause:
    """Return the cause of a node that did not end well; `cause` is its own, where it has one."""
    own_cause = cause_named(ending.get("cause") or "")
    if own_cause:
        return own_cause
    return next((by.cause for by in EndedBy if by == ending.get("ended_by")), Cause.SUPERVISOR_LOST)


def words_of(ending: dict[str, Any]) -> str:
    """Return one sentence on how the launcher ended."""
    if ending.get("message"):
        return str(ending["message"])
    if ending.get("ended_by") == EndedBy.EXIT:
        how = "the launcher ended with exit code %s" % ending.get("rc")
        if ending.get("signal"):
            how = "the launcher was ended by signal %s" % ending["signal"]
        if ending.get("oom_kills"):
            how += ", and the kernel killed a process for lack of memory meanwhile"
        return how
    return WORDS.get(ending.get("ended_by", ""), "ended by %s" % ending.get("ended_by"))

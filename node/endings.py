"""How a node's launcher ended, by its done.json: whether well, why, in which words. Pure.

The supervisor, the launch plugin and the runner say it by these.
"""

from __future__ import annotations

from .causes import Cause, EndedBy, known

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any

WORDS: dict[str, str] = {
    EndedBy.LEASE: "the node ended the run itself, having lost the control node",
    EndedBy.TIME_LIMIT: "the run reached time_limit_s",
    EndedBy.SUPERVISOR_LOST: "the supervisor was killed",
}


def ended_well(done: dict[str, Any]) -> bool:
    """Return whether the launcher ended by itself with exit code 0."""
    return done.get("ended_by") == EndedBy.EXIT and done.get("rc") == 0


def cause_of(done: dict[str, Any]) -> Cause:
    """Return the cause of a node that did not end well; `cause` is its own, where it has one."""
    own = known(done.get("cause") or "")
    if own:
        return own
    return next((by.cause for by in EndedBy if by == done.get("ended_by")), Cause.SUPERVISOR_LOST)


def words_of(done: dict[str, Any]) -> str:
    """Return one sentence on how the launcher ended."""
    if done.get("message"):
        return str(done["message"])
    if done.get("ended_by") == EndedBy.EXIT:
        how = "the launcher ended with exit code %s" % done.get("rc")
        if done.get("signal"):
            how = "the launcher was ended by signal %s" % done["signal"]
        if done.get("oom_kills"):
            how += ", and the kernel killed a process for lack of memory meanwhile"
        return how
    return WORDS.get(done.get("ended_by", ""), "ended by %s" % done.get("ended_by"))

"""How one node's part of a run ended, by its done.json: whether well, the cause, the words. Pure.

The launch plugin imports this too, so that both say the same; it needs the standard library alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from node.causes import Cause
from node.endings import cause_of, ended_well, words_of
from node.schema import Whole
from runner.terms.orders import Seconds
from runner.terms.outcome import Sentence, Time, Word

Code = Annotated[int, Whole(-(2**31), 2**32)]


@dataclass(frozen=True)
class Ending:
    """What of a done.json says how the node's launcher ended.

    `own_cause` is the launch plugin's, where it has one; `log` says what of the log did not come
    home; `started_at` is of the node's clock (epoch seconds), and the launcher ran for `wall_s`;
    all its processes had ended at `ended_at`.
    """

    ended_by: Word | None = None
    rc: Code | None = None
    signal: Code | None = None
    message: Sentence = ""
    own_cause: Word | None = field(default=None, metadata={"key": "cause"})
    oom_kills: int | None = 0
    log: Sentence = ""
    started_at: Time | None = None
    wall_s: Seconds | None = None
    ended_at: Time | None = None

    @property
    def _as_json(self) -> dict[str, Any]:
        return {**vars(self), "cause": self.own_cause}

    @property
    def well(self) -> bool:
        """Whether the launcher ended by itself with exit code 0."""
        return ended_well(self._as_json)

    @property
    def cause(self) -> Cause:
        """The cause of a node that did not end well."""
        return cause_of(self._as_json)

    @property
    def words(self) -> str:
        """One sentence on how the launcher ended."""
        return words_of(self._as_json)


def first_bad(endings: Mapping[str, Ending]) -> str | None:
    """Return the first host, by rank as given, that did not end well; None where all did."""
    return next((host for host, ending in endings.items() if not ending.well), None)


def incomplete(endings: Mapping[str, Ending]) -> str:
    """Say which node's log did not come home in full, and why; empty where all did."""
    for host, ending in endings.items():
        if ending.log:
            return f"the log of {host} is {ending.log}"
    return ""

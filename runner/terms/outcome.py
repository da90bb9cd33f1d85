"""How a run ended, as data; outcome.json is this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """How a run ended: a status of records.STATUSES, a cause word, and one sentence, `reason`.

    Of an ok one the reason is empty, or says what of a log did not come home.
    `ending` is what was seen from outside (exit code, time limit); `reason` adds what the logs say.
    `diagnosis` is a status of diagnosis.STATUSES where their evidence names the first cause,
    `evidence` its line as {log, line}, and `last_words` the log's own words. `rules` identifies the
    rules by which the logs were read. `started_at` is of the control node's clock (epoch seconds).
    """

    status: str
    cause: str
    reason: str
    ending: str = ""
    last_words: str = ""
    diagnosis: str | None = None
    evidence: Mapping[str, Any] | None = None
    rules: str = ""
    started_at: float | None = None
    wall_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return what outcome.json holds."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Outcome:
        """Return what an outcome.json says; what only another version knows is left out."""
        known = {item.name for item in fields(cls)}
        return cls(**{key: value for key, value in content.items() if key in known})

"""How a run ended, as data; outcome.json is this."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from node.schema import Number, OneOf, Text, Words
from node.validated_text import InsidePath
from runner.terms.record import ENDED

Word = Annotated[str, Text(most=100)]
Sentence = Annotated[str, Words(most=20_000)]  # a reason, with the log's own words
Time = Annotated[float, Number(0, 1e11)]  # in epoch seconds, or so many seconds


@dataclass(frozen=True)
class Place:
    """A line of one of a run's logs, whose path is the one in the run's folder."""

    log: InsidePath
    line: int | None


@dataclass(frozen=True)
class Outcome:
    """How a run ended: a status of records.STATUSES, a cause word, and one sentence, `reason`.

    Of an ok one the reason is empty, or says what of a log did not come home.
    `ending` is what was seen from outside (exit code, time limit); `reason` adds what the logs say.
    `diagnosis` is a status of diagnosis.STATUSES where their evidence names the first cause,
    `evidence` its line as {log, line}, and `last_words` the log's own words. `rules` identifies the
    rules by which the logs were read. `started_at` is of the control node's clock (epoch seconds),
    and `queued_s` what a queue held the run for before.
    """

    status: Annotated[str, OneOf(*ENDED)]
    cause: Word
    reason: Sentence
    ending: Sentence = ""
    last_words: Sentence = ""
    diagnosis: Word | None = None
    evidence: Place | None = None
    rules: Word = ""
    started_at: Time | None = None
    wall_s: Time = 0.0
    queued_s: Time | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what outcome.json holds."""
        return asdict(self)

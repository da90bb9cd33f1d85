"""What happened to a campaign, a line of JSON each: events.jsonl, for programs that follow it.

Bench adds to it and never reads it; a line that was cut short by a kill is not an event.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from node.files import open_to_append
from node.parsing import parse
from node.schema import Number, OneOf, UnfitError, Whole
from runner.base.dataclass_schema import shape
from runner.base.escapes import plain
from runner.base.text import tail
from runner.folder import names
from runner.folder.stored import SCHEMA
from runner.terms.outcome import Sentence, Time, Word

CAMPAIGN_BEGUN, CAMPAIGN_ENDED = "campaign_begun", "campaign_ended"
RUN_BEGUN, RUN_ENDED = "run_begun", "run_ended"
READ_BYTES = 1 << 20  # of the end of the file, by who looks

Count = Annotated[int, Whole(0)]
Figure = Annotated[float, Number()]


@dataclass(frozen=True, kw_only=True)
class Event:
    """What began or ended, and when (epoch seconds); what it does not say is left out of its line.

    Of a run: its cell, repeat, attempt and folder, and that it is the `number`th of `runs`. Of one
    that ended: how (docs/runs.md#statuses), the median samples/s after warm-up, its first and last
    loss, and what it took. Of a campaign's end: how many runs are ok and not ok, of these how many
    an earlier bench had made (`kept`), and why it ended early.
    """

    event: Annotated[str, OneOf(CAMPAIGN_BEGUN, RUN_BEGUN, RUN_ENDED, CAMPAIGN_ENDED)]
    at: Time
    campaign: Sentence
    folder: Sentence = ""
    cell: Sentence = ""
    repeat: Count | None = None
    attempt: Count | None = None
    number: Count | None = None
    runs: Count | None = None
    status: Word = ""
    cause: Word = ""
    reason: Sentence = ""
    samples_per_s: Figure | None = None
    iterations: Count | None = None
    first_loss: Figure | None = None
    last_loss: Figure | None = None
    wall_s: Annotated[float, Number(0)] | None = None
    ok: Count | None = None
    not_ok: Count | None = None
    kept: Count | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what its line holds: numbers that are not finite are left out, too."""
        content = plain({key: value for key, value in asdict(self).items() if value != ""})
        return {"schema": SCHEMA, **{k: v for k, v in content.items() if v is not None}}

    @property
    def title(self) -> str:
        """Name a run: `[2/4] zero_stage=1 repeat 2`."""
        position = f"[{self.number}/{self.runs}] " if self.number else ""
        return position + self.cell + (f" repeat {self.repeat}" if (self.repeat or 1) > 1 else "")


def add(campaign: Path, event: Event) -> None:
    """Add a line to a campaign's events.jsonl. Raises OSError."""
    line = json.dumps(event.to_json()).encode() + b"\n"
    path = campaign / names.HAPPENED
    with open_to_append(path) as stream:
        size = stream.seek(0, os.SEEK_END)
        if size and os.pread(stream.fileno(), 1, size - 1) != b"\n":  # a killed bench's half line
            line = b"\n" + line
        stream.write(line)


def events(campaign: Path) -> list[Event]:
    """Return what happened last, oldest first; invalid lines are left out."""
    read_events = []
    with contextlib.suppress(OSError):
        for line in tail(campaign / names.HAPPENED, READ_BYTES).splitlines():
            with contextlib.suppress(UnfitError):
                read_events.append(parse(line.decode("utf-8", "replace"), shape(Event)))
    return read_events

"""A campaign in which each cell ends otherwise, with attempts and a queue: for pages."""

import re
from dataclasses import replace
from pathlib import Path

from runner.base.dataclass_schema import shape
from runner.folder import names
from runner.folder.stored import load, write_json
from runner.results.records import records_of
from runner.terms.cell import Cell
from runner.terms.outcome import Outcome
from runner.terms.record import NOT_ENDED, Record
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import TRACEBACK, Story, torch_gpt, write

STEPS = 30
_HALTS = {
    "timed_out": ("time_limit", "n1", "n1: the time limit of 600 s was reached"),
    "stalled": ("stalled", "n2", "n2: no node printed anything for 300 s"),
    "node_lost": ("node_lost", "n2", "n2: out of contact for 7.2 s"),
    "interrupted": ("interrupted", None, "Ctrl-C"),
    "failed": ("exit", "n2", "n2: exit code 1"),
    "did_not_run": ("exit", "n1", "n1: exit code 1"),
}
WORDS = ("ok", "diverged", *_HALTS, "unreadable", "pending", "queued", "running")


def every_status(runs: Path) -> list[Record]:
    """A cell a status, by its seed; the first one's run is its second attempt, after a queue."""
    seeds = list(range(1, len(WORDS) + 1))
    matrix = small_matrix({"seed": seeds}, {"nodes": 2, "train_iters": STEPS}, name="statuses")

    def story(cell: Cell, repeat: int) -> Story | None:
        word = WORDS[cell.parameters["seed"] - 1]
        if word in NOT_ENDED:
            return None
        if word == "did_not_run":
            return Story({0: TRACEBACK + "ImportError: no module apex\n"}, _halt(word))
        if word == "diverged":
            log = torch_gpt(STEPS, loss=lambda step: 9.0 if step < 20 else float("nan"))
            return Story({0: re.sub(r"(loss=nan .* nan)=0", r"\1=1", log)})
        if word in _HALTS:
            return Story({0: torch_gpt(17, of=STEPS), 1: TRACEBACK}, _halt(word), 40.0)
        return Story({0: torch_gpt(STEPS)})

    campaign = write(runs, matrix, small_cluster(2, 1), story)
    first, broken = (matrix.cells[WORDS.index(word)] for word in ("ok", "unreadable"))
    (lost,) = campaign.attempts(first.id, 1)
    again = campaign.new_attempt(first.id, 1)
    for path in lost.path.iterdir():
        path.rename(again.path / path.name)
    ended: Outcome | None = load(again.path / names.OUTCOME, shape(Outcome))
    assert ended is not None
    assert ended.started_at is not None
    before = Outcome("node_lost", "", "n2 is gone", started_at=ended.started_at - 400, wall_s=90.0)
    write_json(lost.path / names.OUTCOME, before.to_json())
    write_json(again.path / names.OUTCOME, replace(ended, queued_s=120.0).to_json())
    (attempt,) = campaign.attempts(broken.id, 1)
    (attempt.path / names.OUTCOME).write_text("{")
    under_way = {"queued": "1st, Resources", "running": "it runs now"}
    return [
        replace(record, status=word, reason=under_way[word]) if word in under_way else record
        for record, word in zip(records_of(campaign, runs), WORDS, strict=True)
    ]


def _halt(word: str) -> dict[str, str | None]:
    return dict(zip(("cause", "host", "message"), _HALTS[word], strict=True))

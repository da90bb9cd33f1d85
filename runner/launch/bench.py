"""A bench: hold the campaign, check all of it, launch what is not finished yet."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.folder.hidden import hidden_of
from runner.folder.stored import write_json
from runner.launch import inspection
from runner.launch.abandoned import record_abandoned
from runner.launch.engine import Engine
from runner.launch.interrupts import Interrupts
from runner.launch.launcher import Launcher
from runner.launch.repeating import Repeating, RunSource, known
from runner.launch.rounds import Rounds
from runner.launch.view import Repeat, View
from runner.matrix.select import select
from runner.plan import checks
from runner.plan.make import campaign_name
from runner.plan.usage import uses
from runner.results.decide import is_finished
from runner.results.judge import outcome_of
from runner.terms.cell import Cell, Matrix, first_repeat
from runner.terms.cluster import Cluster
from runner.terms.outcome import Outcome
from runner.terms.record import UNREADABLE, WELL


@dataclass(frozen=True)
class Tally:
    """What a bench did: how many cells' repeats ended how. `exit_code` is the command's.

    `expired`: the campaign's limit, `limit_s`, ended it, and not every cell has run. `resumes`: the
    same command continues with what has not run; with --again it runs all cells once more.
    """

    ok: int
    failed: int
    kept: int
    interrupted: bool
    expired: bool = False
    limit_s: float | None = None
    resumes: bool = True
    submitted: int = 0

    @property
    def exit_code(self) -> int:
        """0 all ok or in the queue, 1 a cell failed or did not get to run, 130 after Ctrl-C."""
        if self.interrupted:
            return 130
        return 1 if self.failed or self.expired or not (self.ok or self.submitted) else 0


def bench(
    matrix: Matrix,
    cluster: Cluster,
    runs: Path,
    *,
    engine: Engine,
    only: Sequence[str] = (),
    again: bool = False,
    failed: bool = False,
    retry: int = 0,
    limit_s: float | None = None,
    submit: bool = False,
    view: View,
    source: RunSource | None = None,
) -> Tally:
    """Run what is unfinished. Raises UserError for bad input.

    `source` says which runs come next, if the matrix alone does not decide.
    `again`: run all selected cells again; `failed`: also those that did not end ok.

    `submit`: hand the runs to a queue and leave them there; the next bench goes on with them.

    A run that does not end well is retried up to `retry` times. After `limit_s` seconds the
    running cell is ended and no further one starts; the next bench goes on there.
    """
    campaign = Campaign(runs / campaign_name(matrix, cluster))
    # Refuse bad input before anything is touched.
    grown_matrix = campaign.grown(matrix, cluster).matrix
    cells = select(grown_matrix, only)
    checks.check_cells(
        [first_repeat(grown_matrix, cell) for cell in cells], cluster, matrix.warmup_iters
    )
    interrupts = Interrupts(limit_s)
    source = source or Repeating(matrix.time_limit_s, until=matrix.until_percent is not None)
    with campaign.locked(cluster.group), interrupts.handled(), kept_if_begun(campaign):
        growth = campaign.open(matrix, cluster)
        grown_matrix = growth.matrix
        cells = select(grown_matrix, only)
        repeats = source.begun(campaign, grown_matrix, cells)
        record_abandoned(engine, campaign, repeats)
        keep_what_reads_otherwise(campaign, repeats)
        finished_repeats = left_alone(finished(campaign, repeats, view.unreadable), again, failed)
        view.hidden(hidden_of(campaign.path, growth.settings).words)
        todo = [
            (cell, repeat) for cell, repeat in repeats if (cell.id, repeat) not in finished_repeats
        ]
        todo = todo or source.more(campaign, grown_matrix, cells)
        repeats += [repeat for repeat in todo if repeat not in repeats]
        view.begin(campaign, len(repeats), uses(cells, cluster), finished_repeats, todo)
        ended = list(finished_repeats.values())
        submitted = 0
        if todo:
            claimed, wanted = source.wanted(todo, cells)
            launcher = Launcher(engine, cluster, campaign, view, interrupts, source.watching)
            claim = claimed, campaign.path, lambda: interrupts.over
            try:
                with engine.claimed(*claim):
                    sizes = inspection.inspect(
                        engine, campaign, cluster, wanted, interrupts.once, matrix.text
                    )
                    campaign.adopt(growth)
                    rounds = Rounds(launcher, grown_matrix, sizes, retry, ended)
                    if submit:
                        submitted, todo = rounds.hand_over(todo), []
                    while todo:
                        rounds.go(todo)
                        todo = [] if interrupts.over else source.more(campaign, grown_matrix, cells)
                        repeats += todo
                        view.more(todo, source.said(todo))
            except KeyboardInterrupt:  # where it waited for nodes
                if not interrupts.expired:
                    raise
        else:
            campaign.adopt(growth)
        good = sum(outcome.status in WELL for outcome in ended)
        tally = Tally(
            good,
            len(ended) - good,
            len(finished_repeats),
            interrupted=interrupts.count > 0,
            expired=interrupts.expired
            and (good < len(repeats) or bool(source.more(campaign, grown_matrix, cells))),
            limit_s=limit_s,
            resumes=not again,
            submitted=submitted,
        )
        for cell, judged in known(campaign, grown_matrix, cells):
            view.known(cell, judged, grown_matrix.until_percent)
        view.end(tally)
        return tally


def keep_what_reads_otherwise(campaign: Campaign, repeats: Sequence[tuple[Cell, int]]) -> None:
    """Write how runs ended by the matrix's patterns of today, so that all commands say the same."""
    for cell, repeat in repeats:
        for attempt in campaign.attempts(cell.id, repeat)[-1:]:
            ended = outcome_of(attempt, cell)
            if ended is not None and ended != attempt.outcome:
                write_json(attempt.path / names.OUTCOME, ended.to_json())


def left_alone(ended: Mapping[Repeat, Outcome], again: bool, failed: bool) -> dict[Repeat, Outcome]:
    """Return the finished repeats that do not run once more."""
    return {
        repeat: outcome
        for repeat, outcome in ended.items()
        if not again and not (failed and outcome.status != "ok")
    }


@contextmanager
def kept_if_begun(campaign: Campaign) -> Iterator[None]:
    """Leave no folder of a campaign whose first run was never planned."""
    try:
        yield
    finally:
        campaign.forget()


def finished(
    campaign: Campaign,
    repeats: Sequence[tuple[Cell, int]],
    unreadable: Callable[[Attempt, Outcome], None] = lambda *_: None,
) -> dict[tuple[str, int], Outcome]:
    """Return the repeats whose last attempt is finished, with how it ended.

    Calls `unreadable` for a run whose outcome cannot be read.
    """
    outcomes = {}
    for cell, repeat in repeats:
        attempts = campaign.attempts(cell.id, repeat)
        ended = outcome_of(attempts[-1], cell) if attempts else None
        if ended is not None and is_finished(ended):
            outcomes[cell.id, repeat] = ended
        elif ended is not None and ended.status == UNREADABLE:
            unreadable(attempts[-1], ended)
    return outcomes

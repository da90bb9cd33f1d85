"""Does a run that failed and went on learn what an unbroken one learns? Pure.

A trainer that loses the optimizer's state, begins its data again or leaves a step out when it goes
on has a curve that is a little off, which no speed shows. So each loss that it logged is compared
with that of the campaign's unbroken run of the same cell and seed, iteration by iteration: steps
that were done again, too. The two may differ by TOLERANCE of the loss, which is what other layouts
make of fp32, or by NOISE times what they differed by before the first failure, if that is more (on
GPUs, and in half precision, no two runs are the same).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner.terms.record import Record
from runner.terms.story import TrainedSession

TOLERANCE = 2e-4
NOISE = 4.0
CHECKPOINTS = ("checkpoint_interval", "checkpoint_async", "checkpoint_keep")


@dataclass(frozen=True)
class Resumed:
    """Whether a run goes on as if nothing had been.

    The losses of `compared` iterations after the first failure; the largest difference is `by`, of
    the loss, at iteration `at`, where `tolerance` was allowed. `same` is None where nothing could
    be compared, for the reason `why_not`.
    """

    same: bool | None
    compared: int = 0
    at: int = 0
    by: float = 0.0
    tolerance: float = TOLERANCE
    why_not: str = ""

    @property
    def sentence(self) -> str:
        """For a note: one clause."""
        if self.same is None:
            return self.why_not
        if self.same:
            equal = "equal" if self.by == 0 else f"within {self.by:.1g}"
            return f"{self.compared} losses after a failure as in the unbroken run ({equal})"
        return (
            f"after a failure the loss is not the unbroken run's: at iteration {self.at} by"
            f" {100 * self.by:.2g} % (allowed {100 * self.tolerance:.2g} %)"
        )


def resumed(runs: Sequence[Record], candidates: Sequence[Record]) -> Resumed | None:
    """Judge a cell's runs that went on after a failure; None where none did.

    `candidates` are the campaign's runs, of which some may be unbroken.
    """
    judged = [verdict for run in runs if (verdict := _resumed(run, candidates)) is not None]
    wrong = [verdict for verdict in judged if verdict.same is False]
    if wrong:
        return max(wrong, key=lambda verdict: verdict.by)
    equal_runs = [verdict for verdict in judged if verdict.same]
    if equal_runs:
        worst = max(equal_runs, key=lambda verdict: verdict.by)
        return Resumed(True, sum(verdict.compared for verdict in equal_runs), worst.at, worst.by)
    return judged[0] if judged else None


def _resumed(run: Record, candidates: Sequence[Record]) -> Resumed | None:
    first, *others = _trained(run) or [TrainedSession()]
    if not others:
        return None
    unbroken = next(
        (other for other in candidates if _unbroken(other) and _alike(run, other)), None
    )
    if unbroken is None:
        why_not = "the campaign has no unbroken run of the same cell: add faults: none"
        return Resumed(None, why_not=why_not)
    curve = _losses(_trained(unbroken)[0])
    noise = max((difference for difference, _ in _apart(first, curve)), default=0.0)
    tolerance = max(TOLERANCE, NOISE * noise)
    apart = [found for session in others for found in _apart(session, curve)]
    if not apart:
        return Resumed(None, why_not="the two logged no loss of the same iteration")
    by, at = max(apart)
    return Resumed(by <= tolerance, len(apart), at, by, tolerance)


def _trained(run: Record) -> list[TrainedSession]:
    return [session for session in run.story.sessions if session.steps] if run.story else []


def _unbroken(run: Record) -> bool:
    sessions = _trained(run)
    return run.status == "ok" and len(sessions) == 1 and not sessions[0].iteration


def _alike(run: Record, candidate: Record) -> bool:
    """Whether the two do the same, on however many nodes: all parameters, the seed too."""
    facts, theirs = (
        {key: value for key, value in record.parameters.items() if key not in CHECKPOINTS}
        for record in (run, candidate)
    )
    return run is not candidate and run.system == candidate.system and facts == theirs


def _losses(session: TrainedSession) -> dict[int, float]:
    return {step.iteration: step.loss for step in session.steps if step.loss is not None}


def _apart(session: TrainedSession, curve: Mapping[int, float]) -> list[tuple[float, int]]:
    """Return by how much of the curve's loss each loss of a session differs, and where."""
    return [
        (abs(loss - curve[at]) / max(abs(curve[at]), 1e-12), at)
        for at, loss in _losses(session).items()
        if at in curve
    ]

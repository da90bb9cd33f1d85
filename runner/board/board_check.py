"""Bundles of a board together: each by itself, then against the others; who reran whose."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runner.base.errors import UserError
from runner.board.every_check import CheckedBundle, checked
from runner.board.refusal import Refusal
from runner.compare.quantity import Measure
from runner.compare.verdicts import CampaignComparison, compare_campaigns, thresholds

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Rerun:
    """A bundle whose runs repeat those of another, by somebody else."""

    of: CheckedBundle
    by: CheckedBundle
    comparison: CampaignComparison | None  # None: no cell of both has a figure

    @property
    def sentence(self) -> str:
        """Say who reran it, and what became of the speed of each cell."""
        cells = self.comparison.cells if self.comparison else ()
        speeds = [
            f"{cell.name}: samples/s {speed.difference_percent:+.1f} %"
            + (
                ""
                if speed.noise_percent is None
                else f" (95 % interval ±{speed.noise_percent:.1f})"
            )
            for cell in cells
            if (speed := cell.measures.get("samples_per_s")) is not None
        ]
        return f"rerun by {self.by.entity}" + (f": {'; '.join(speeds)}" if speeds else "")


def _percent(speed: Measure) -> str:
    interval = speed.noise_percent
    interval_words = "" if interval is None else f" (95 % interval ±{interval:.1f})"
    return f"{speed.difference_percent:+.1f} %{interval_words}"


def check_all(
    new: Sequence[Path], there: Sequence[Path], progress: Progress
) -> tuple[list[CheckedBundle], list[CheckedBundle]]:
    """Check new bundles, and those that a board has; each against all others."""
    count = len(new) + len(there)
    old: list[CheckedBundle] = []
    fresh: list[CheckedBundle] = []
    for number, path in enumerate(there):
        progress(path.name, number, count)
        old.append(_unlike(checked(path, new=False), old))
    for number, path in enumerate(new, len(there)):
        progress(path.name, number, count)
        fresh.append(_unlike(checked(path), [*old, *fresh]))
    progress("", count, count)
    return fresh, old


def _unlike(bundle: CheckedBundle, bundles: Sequence[CheckedBundle]) -> CheckedBundle:
    """Add a reason where another bundle has the same runs."""
    for earlier in filter(lambda b: b.accepted, bundles):
        same = bundle.sha256 and bundle.sha256 == earlier.sha256
        shared = len(bundle.fingerprints & earlier.fingerprints)
        if same or shared:
            overlap = "the same file" if same else f"{shared} of its runs, step by step,"
            why = f"{earlier.path.name} has {overlap} already"
            return replace(bundle, refusals=(*bundle.refusals, Refusal("duplicate", why)))
    return bundle


def reruns(bundles: Sequence[CheckedBundle]) -> list[Rerun]:
    """Find the accepted bundles that somebody else reran.

    Somebody else is another entity. Several bundles may have a run of the same id: then nobody can
    tell which was rerun, and none is marked.
    """
    accepted = [bundle for bundle in bundles if bundle.accepted]
    marks = []
    for by in accepted:
        of = [
            candidate
            for candidate in accepted
            if candidate is not by
            and candidate.runs & by.reruns
            and candidate.entity.casefold() != by.entity.casefold()
        ]
        if len(of) == 1:
            marks.append(Rerun(of[0], by, _compared(of[0], by)))
    return marks


def _compared(of: CheckedBundle, by: CheckedBundle) -> CampaignComparison | None:
    if of.side is None or by.side is None:
        return None
    try:
        return compare_campaigns(of.side, by.side, thresholds([]), allow_missing=True)
    except UserError:
        return None

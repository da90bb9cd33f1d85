"""All checks of one bundle, in the order in which they are told; what later steps need of it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from node.printable import printable
from runner.base.errors import UserError
from runner.board import derived_files, physics, run_checks
from runner.board.bundle_file import OpenBundle, RefusedError, opened
from runner.board.refusal import Refusal
from runner.compare.side import Side, side
from runner.publish.fitness import refused
from runner.tables.row import Row

Check = Callable[[OpenBundle], Iterator[Refusal]]


@dataclass(frozen=True)
class CheckedBundle:
    """A bundle that was read: reasons against it, and what tells it from others.

    `runs` are the ids of its runs, `reruns` those that its runs repeat (run.json, rerun_of);
    `fingerprints` tell runs by their steps' times. Empty where it could not be read.
    """

    path: Path
    refusals: tuple[Refusal, ...]
    campaign: str = ""
    entity: str = ""
    sha256: str = ""
    runs: frozenset[str] = frozenset()
    reruns: frozenset[str] = frozenset()
    fingerprints: frozenset[str] = frozenset()
    side: Side | None = None

    @property
    def accepted(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.refusals


def not_publishable(bundle: OpenBundle) -> Iterator[Refusal]:
    """Yield cells that are not publishable by what the logs say."""
    rows: Sequence[Row] = bundle.document.rows
    if not rows:
        yield Refusal("incomplete", "the campaign has no cells")
    for cell in refused(rows):
        yield Refusal("not_publishable", cell.words)


def unknown_entity(bundle: OpenBundle) -> Iterator[Refusal]:
    """Yield a bundle of nobody."""
    if not derived_files.entity_of(bundle):
        yield Refusal("unknown_entity", "publication.json names no entity; publish with --entity")


# What holds of a bundle whatever version of TrainBench wrote it.
LASTING: Sequence[Check] = (
    run_checks.incomplete,
    run_checks.redacted,
    run_checks.other_outcomes,
    run_checks.other_work,
    physics.impossible_speed,
    physics.impossible_time,
    physics.impossible_memory,
    physics.impossible_loss,
    run_checks.copied_runs,
    run_checks.chosen_runs,
    run_checks.future,
    unknown_entity,
    not_publishable,
)
# What is compared with what this version writes: of a new bundle alone.
OF_NEW: Sequence[Check] = (derived_files.wrong_figures, derived_files.edited_files)


def checked(path: Path, *, new: bool = True) -> CheckedBundle:
    """Check a bundle by itself. Raises UserError where there is no such file.

    A bundle that the board has accepted is not `new`: another version may write other tables.
    """
    try:
        with opened(path) as bundle:
            checks = (*LASTING, *(OF_NEW if new else ()))
            refusals = [refusal for check in checks for refusal in _refusals(check, bundle)]
            return _described(bundle, tuple(dict.fromkeys(refusals)))
    except RefusedError as error:
        return CheckedBundle(path, (error.refusal,))


def _refusals(check: Check, bundle: OpenBundle) -> list[Refusal]:
    """Ask one check; what it cannot read is a reason, too."""
    try:
        return list(check(bundle))
    except UserError as error:
        return [Refusal("incomplete", printable(str(error)))]
    except Exception as error:  # whatever is in a bundle, the others are checked
        return [Refusal("damaged", printable(f"{type(error).__name__}: {error}")[:300])]


def _described(bundle: OpenBundle, refusals: tuple[Refusal, ...]) -> CheckedBundle:
    runs: set[str] = set()
    reruns: set[str] = set()
    fingerprints: set[str] = set()
    for record, attempt in run_checks.attempts(bundle):
        fingerprints.add(run_checks.fingerprint(record))
        if (run := attempt.run) is not None:
            runs.add(run.id)
            reruns.add(run.rerun_of or "")
    return CheckedBundle(
        path=bundle.path,
        refusals=refusals,
        campaign=printable(bundle.campaign.name),
        entity=derived_files.entity_of(bundle),
        sha256=bundle.sha256,
        runs=frozenset(runs),
        reruns=frozenset(reruns - {""}),
        fingerprints=frozenset(fingerprints - {""}),
        side=side(printable(bundle.campaign.name), bundle.document),
    )

"""A board's site: the site of its accepted bundles, who published and who reran each."""

from collections.abc import Sequence
from pathlib import Path

from runner.base.errors import UserError
from runner.board.board_check import Progress, Rerun, check_all, reruns
from runner.board.board_folder import bundles_of
from runner.board.every_check import CheckedBundle
from runner.board.refusal import NOT_DETECTED
from runner.site.front_matter import BoardEntry, FrontMatter
from runner.site.site_making import make_site
from runner.site.site_model import WholeSite

LOG_BYTES = 256 << 10


def make_board_site(
    folder: Path, target: Path, progress: Progress
) -> tuple[WholeSite, list[CheckedBundle]]:
    """Write the site of a board's bundles; also return those that are not part of it.

    Raises UserError where no bundle can be shown.
    """
    _, bundles = check_all((), bundles_of(folder), progress)
    accepted = [bundle for bundle in bundles if bundle.accepted]
    if not accepted:
        why = f": {bundles[0].refusals[0].why}" if bundles else ""
        raise UserError(f"{folder} has no bundle that can be shown{why}")
    site = make_site(
        [bundle.path for bundle in accepted],
        target,
        log_bytes=LOG_BYTES,
        report_progress=progress,
        front=_front(bundles, reruns(bundles)),
    )
    return site, [bundle for bundle in bundles if not bundle.accepted]


def _front(bundles: Sequence[CheckedBundle], rerun_list: Sequence[Rerun]) -> FrontMatter:
    listed = {}
    for bundle in bundles:
        if not bundle.accepted:
            continue
        marks = [rerun.sentence for rerun in rerun_list if rerun.of is bundle]
        also = [
            f"itself a rerun of {rerun.of.path.name}" for rerun in rerun_list if rerun.by is bundle
        ]
        listed[bundle.path.name] = BoardEntry(
            entity=bundle.entity,
            sha256=bundle.sha256,
            reruns=tuple(marks),
            notes=tuple(also),
        )
    return FrontMatter(
        listed=listed,
        refused=tuple(
            (bundle.path.name, "; ".join(f"{r.code}: {r.why}" for r in bundle.refusals))
            for bundle in bundles
            if not bundle.accepted
        ),
        limits=NOT_DETECTED,
    )

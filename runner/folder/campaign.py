"""The campaign's folder: what it began with, its runs. docs/runs.md."""

import math
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner import __version__
from runner.base.dataclass_schema import shape
from runner.base.errors import UserError
from runner.base.escapes import plain
from runner.base.exclusive import make_private
from runner.base.suggest import nearest
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.hidden import Hidden, hidden_of, ran
from runner.folder.lock import HeldFolder
from runner.folder.machines import changes
from runner.folder.relied import changed_files, record_files, relied_files
from runner.folder.stored import OfThisVersion, UnreadableError, load, write_json
from runner.matrix.growth import Growth, changeable, grown
from runner.terms.cell import AskedCell, Matrix
from runner.terms.cluster import Cluster
from runner.terms.inspected import Inspected
from runner.terms.record import UNREADABLE
from runner.terms.settings import Settings

SETTINGS = OfThisVersion(shape(Settings))  # the kind of campaign.json


class Campaign(HeldFolder):
    """One matrix on one inventory, as a folder."""

    @property
    def inspected(self) -> Path:
        """Folder with one JSON file per host: what it is and has."""
        return self.path / names.INSPECTED

    @property
    def _file(self) -> Path:
        return self.path / names.CAMPAIGN

    def inspections(self) -> dict[str, Inspected]:
        """Map hosts to what they were at the last inspection.

        Of one whose file cannot be read, `problem` says why.
        """
        if self.inspected.is_symlink():
            raise UserError(f"{self.inspected} is a link; put the folder itself there")
        return {
            path.stem: self.inspection(path.stem) or Inspected()
            for path in sorted(self.inspected.glob("*.json"))
        }

    def inspection(self, host: str) -> Inspected | None:
        """Return what a host was at the last inspection; None before the first."""
        where = f"{names.INSPECTED}/{names.of_host(host)}"
        try:
            inspected: Inspected | None = load(self.path / where, shape(Inspected), where)
        except UnreadableError as error:
            return Inspected(problem=str(error))
        return inspected

    @property
    def recorded(self) -> Settings | None:
        """campaign.json, or None. Raises UnreadableError that names the cure."""
        try:
            settings: Settings | None = load(self._file, SETTINGS)
        except UnreadableError as error:
            raise UnreadableError(
                f"{error}; put back the campaign.json that bench wrote, or move {self.path} away"
                " to start again"
            ) from None
        return settings

    @property
    def settings(self) -> Settings:
        """campaign.json. Raises UserError if it is missing or unreadable."""
        settings = self.recorded
        if settings is None:
            raise UserError(f"{self.path} holds no {names.CAMPAIGN}; it is not a campaign's folder")
        return settings

    def write(self, settings: Settings) -> None:
        """Write campaign.json."""
        write_json(self._file, settings.to_json())

    @property
    def begun(self) -> bool:
        """Whether any run of it was ever planned."""
        return any(self.path.glob(names.ATTEMPTS))

    def grown(self, matrix: Matrix, cluster: Cluster) -> Growth:
        """Return the campaign with this matrix: a new one, or what is kept, new and hidden.

        Writes nothing. Raises UserError where it cannot go on with the matrix or the inventory.
        """
        now = begun_with(matrix, cluster)
        was = self.recorded
        if was is not None and any(cell.repeats is not None for cell in was.cells):
            raise UserError(
                f"campaign {self.name} has runs that no matrix asked for, as `import` makes, so"
                " bench cannot go on with it; give the matrix another `name:`"
            )
        if was is None and self.begun:
            raise UserError(
                f"{self.path} has runs and no {names.CAMPAIGN}, which says what they were made"
                " with; put it back, or move the folder away to start again"
            )
        if was is None or not self.begun:
            return Growth(now, matrix)
        growth = grown(was, matrix, ran(self.path))
        self._refuse_other_machines(growth, cluster)
        machines = plain(cluster.facts) if was.machines else was.machines
        return replace(growth, settings=replace(growth.settings, machines=machines))

    def _refuse_other_machines(self, growth: Growth, cluster: Cluster) -> None:
        """Refuse an inventory in which nodes that ran are others by now."""
        was = growth.settings
        if was.inventory_digest == cluster.digest:
            return
        there = ran(self.path)
        used = max((c.nodes for c in (*was.cells, *was.hidden) if c.id in there), default=0)
        differs = "addresses, devices, root or cluster_env"  # of a campaign that recorded a digest
        if was.machines:
            differs = changes(was.machines, plain(cluster.facts), used)
        if differs:
            raise UserError(
                f"the inventory {cluster.name} differs from the one that campaign {self.name}"
                f" began with ({differs}); to start again give the matrix another `name:`, or move"
                f" {self.path} away; to go on restore what changed"
            )

    def open(self, matrix: Matrix, cluster: Cluster) -> Growth:
        """Do as `grown`; a campaign in which nothing ran is written. Another waits for `adopt`."""
        growth = self.grown(matrix, cluster)
        if not self.begun:
            self.write(growth.settings)
        return growth

    def adopt(self, growth: Growth) -> None:
        """Let the campaign be what `open` has returned, with the pins and datasets of by now.

        What changes no run, as a comment does, is not written.
        """
        was = self.settings
        now = replace(growth.settings, environment=was.environment)
        if replace(now, matrix=was.matrix) != was:
            self.write(now)

    @property
    def hidden(self) -> Hidden:
        """What ran and the matrix no longer names."""
        return hidden_of(self.path, self.settings)

    def forget(self) -> None:
        """Remove the folder where nothing ran, and nobody left anything else in it.

        Call with the lock held; a process that waits for the lock creates the file again.
        """
        ours = {names.CAMPAIGN, names.HAPPENED, names.LOCK, names.INSPECTED, names.PROGRAMS}
        ours |= {names.LINES, names.RELIED, names.WINNER, names.ANSWER}
        if {path.name for path in self.path.glob("*")} <= ours:
            shutil.rmtree(self.path, ignore_errors=True)

    def fix_environment(
        self, facts: Mapping[str, Any], files: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        """Record pins and datasets at the first run; refuse others once a run ended ok.

        So figures of two versions are never mixed. `files` are those of folders among the facts.
        """
        was, recorded_files = self.settings, relied_files(self.path)
        recorded = was.environment or {}
        fixed = self.succeeded
        for name, value in facts.items():
            if name in recorded and recorded[name] != value and fixed:
                comparable = name in recorded_files and name in (files or {})
                changed = (
                    changed_files(recorded_files[name], (files or {})[name]) if comparable else ""
                )
                difference = _what_differs(recorded[name], value, changed)
                raise UserError(
                    f"{name} on the nodes is not what campaign {self.name} began with"
                    f"{difference}, so new figures would not be comparable; start another campaign"
                    " with `bench --name NAME`, or set the nodes back"
                )
        if was.environment is None or any(recorded.get(name) != facts[name] for name in facts):
            self.write(replace(was, environment={**recorded, **facts}))
        if any(recorded_files.get(name) != file_sums for name, file_sums in (files or {}).items()):
            record_files(self.path, {**recorded_files, **(files or {})})

    @property
    def succeeded(self) -> bool:
        """Whether any attempt ended ok, or may have: its outcome cannot be read."""
        outcomes = (Attempt(path, "", 1, 1).outcome for path in self.path.glob(names.ATTEMPTS))
        return any(ended is not None and ended.status in ("ok", UNREADABLE) for ended in outcomes)

    @property
    def refusal(self) -> str:
        """What a second bench is told."""
        return f"another bench runs campaign {self.name}{self.by_whom}"

    def attempts(self, cell_id: str, repeat: int) -> list[Attempt]:
        """List the attempts of one repeat of a cell, oldest first."""
        folder = self.path / cell_id / f"repeat{repeat}"
        attempts = []
        for path in folder.glob("attempt*"):
            if match := re.fullmatch(r"attempt(\d+)", path.name):
                attempts.append(Attempt(path, cell_id, repeat, int(match[1])))
        return sorted(attempts, key=lambda attempt: attempt.number)

    def running(self) -> list[Attempt]:
        """Return what runs now or is queued, as planned: of a living bench, or handed over.

        A bench that was killed leaves runs without an outcome, which do not run any more.
        """
        held_at = self.lock.stat().st_mtime if self.is_locked() else math.inf
        last_attempts = [
            self.attempts(cell.id, repeat)[-1:] for cell, repeat in self._may_have_run()
        ]
        unended = [attempt for attempts in last_attempts for attempt in attempts if attempt.unended]
        now = [run for run in unended if run.queue_has_it or run.planned_at >= held_at]
        return sorted(now, key=lambda attempt: attempt.planned_at)

    def attempt_path(self, cell_id: str, repeat: int = 1, number: int = 1) -> Path:
        """Return the folder of an attempt, whether there is one or not."""
        return self.path / cell_id / names.attempt(repeat, number)

    def asked(self) -> Iterator[tuple[AskedCell, int]]:
        """Yield each repeat of each cell that runs whatever comes out, or that did run."""
        settings = self.settings
        for cell, repeat in self._may_have_run():
            if not settings.if_needed(cell, repeat) or self.attempts(cell.id, repeat):
                yield cell, repeat

    def _may_have_run(self) -> Iterator[tuple[AskedCell, int]]:
        """Yield each repeat of each cell; of thousands of candidates only those that ran."""
        settings = self.settings
        there = ran(self.path) if settings.tuned else None
        for cell, repeat in settings.asked():
            if there is None or repeat <= there.get(cell.id, 0):
                yield cell, repeat

    def new_attempt(self, cell_id: str, repeat: int) -> Attempt:
        """Make the next attempt's folder (0700)."""
        before = self.attempts(cell_id, repeat)
        number = before[-1].number + 1 if before else 1
        path = self.attempt_path(cell_id, repeat, number)
        make_private(path)
        return Attempt(path, cell_id, repeat, number)


def begun_with(matrix: Matrix, cluster: Cluster) -> Settings:
    """Return what a new campaign's campaign.json holds."""
    return Settings(
        **changeable(matrix),
        matrix_name=matrix.name,
        repeats=matrix.repeats,
        seeds=matrix.seeds,
        cells=tuple(AskedCell(**vars(cell)) for cell in matrix.cells),
        inventory=cluster.name,
        inventory_digest=cluster.digest,
        machines=plain(cluster.facts),
        trainbench=__version__,
        created_at=time.time(),
    )


def _what_differs(was: Any, now: Any, changed: str = "") -> str:
    """Say ` (commit changed from a to b)` of two mappings; nothing of other values.

    Where it is known which files `changed`, they are named in place of their checksum.
    """
    if not isinstance(was, dict) or not isinstance(now, dict):
        return ""
    keys = [key for key in {**was, **now} if was.get(key) != now.get(key)]
    if changed:
        keys = [key for key in keys if key not in ("checksum", "edits")]
    changes = [
        f"{key} changed from {str(was.get(key, 'not set'))[:40]}"
        f" to {str(now.get(key, 'not set'))[:40]}"
        for key in keys[:3]
    ]
    changes += [changed] if changed else []
    return f" ({'; '.join(changes)})" if changes else ""


def campaigns(runs: Path) -> list[Campaign]:
    """List the campaigns under a folder of runs that have a run, the one run last first."""
    begun = [Campaign(path.parent) for path in runs.glob(f"*/{names.CAMPAIGN}")]
    begun = [campaign for campaign in begun if campaign.begun]
    return sorted(begun, key=_last_used, reverse=True)


def _last_used(campaign: Campaign) -> float:
    try:
        return campaign.lock.stat().st_mtime
    except OSError:
        return (campaign.path / names.CAMPAIGN).stat().st_mtime


def find_campaign(runs: Path, name: str | None) -> Campaign:
    """Find the campaign of that name, or the newest. Raises UserError naming the nearest one."""
    there = campaigns(runs)
    if not there:
        raise UserError(
            f"there are no campaigns under {runs}; `python -m runner bench matrix.yaml` makes"
            " one, --runs names another folder"
        )
    if name is None:
        return there[0]
    for campaign in there:
        if campaign.name == name:
            return campaign
    names = ", ".join(campaign.name for campaign in there[:8])
    hint = nearest(name, (campaign.name for campaign in there))
    raise UserError(f"there is no campaign {name!r} under {runs}{hint}; there are {names}")

"""The campaign's folder: what it began with, its runs. docs/runs.md."""

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runner import __version__
from runner.base.errors import UserError
from runner.base.suggest import nearest
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.lock import HeldFolder
from runner.folder.stored import SCHEMA, read_json, write_json
from runner.terms.cell import Matrix
from runner.terms.cluster import Cluster

ENV = "env"  # name of a node's env.json among the files that were inspected


class Campaign(HeldFolder):
    """One matrix on one inventory, as a folder."""

    @property
    def inspected(self) -> Path:
        """Folder with one JSON file a host: what it is and has."""
        return self.path / names.INSPECTED

    @property
    def _file(self) -> Path:
        return self.path / names.CAMPAIGN

    def envs(self) -> dict[str, dict[str, Any]]:
        """Map hosts to their env.json as it was at the last inspection; none where verify
        never ran.
        """
        envs = {}
        for path in sorted(self.inspected.glob("*.json")):
            env = ((read_json(path) or {}).get("files") or {}).get(ENV)
            if isinstance(env, dict):
                envs[path.stem] = env
        return envs

    @property
    def settings(self) -> dict[str, Any] | None:
        """campaign.json; None where there is none that this version can read."""
        content = read_json(self._file)
        return content if content and content.get("schema") == SCHEMA else None

    def write(self, settings: dict[str, Any]) -> None:
        """Write campaign.json."""
        write_json(self._file, settings)

    @property
    def begun(self) -> bool:
        """Whether any run of it was ever planned."""
        return any(self.path.glob(names.ATTEMPTS))

    def open(self, matrix: Matrix, cluster: Cluster) -> None:
        """Create the campaign, or check that it is this matrix on this inventory.

        Raises UserError that says what differs.
        """
        facts: dict[str, Any] = {
            "matrix": matrix.text,
            "matrix_name": matrix.name,
            "baseline": matrix.baseline,
            "warmup_iters": matrix.warmup_iters,
            "table": dict(matrix.layout),
            "published": list(matrix.published),
            "repeats": matrix.repeats,
            "cells": [cell.to_json() for cell in matrix.cells],
            "inventory": cluster.name,
            "inventory_digest": cluster.digest,
            "trainbench": __version__,
        }
        was = self.settings
        if was is None or not self.begun:
            self.write({**facts, "created_at": time.time()})
            return
        cure = (
            f"; to start anew give the matrix another `name:`, or move {self.path} away;"
            " to go on restore what changed"
        )
        if was.get("inventory_digest") != cluster.digest:
            raise UserError(
                f"the inventory {cluster.name} differs from the one that campaign {self.name}"
                f" began with (addresses, devices, root or cluster_env){cure}"
            )
        before = {cell["id"]: cell["name"] for cell in was["cells"]}
        now = {cell["id"]: cell["name"] for cell in facts["cells"]}
        keys = ("baseline", "warmup_iters", "repeats")
        changed = [key for key in keys if was.get(key) != facts[key]]
        gone = [name for key, name in before.items() if key not in now]
        new = [name for key, name in now.items() if key not in before]
        if changed or gone or new:
            what = [f"{key} was {was.get(key)}" for key in changed]
            what += [f"{len(gone)} cells gone, such as {gone[0]}"] if gone else []
            what += [f"{len(new)} cells new, such as {new[0]}"] if new else []
            raise UserError(
                f"the matrix differs from the one that campaign {self.name} began with"
                f" ({'; '.join(what)}){cure}"
            )
        # How figures are shown changes none of them.
        shown = {key: facts[key] for key in ("table", "published")}
        if any(was.get(key) != value for key, value in shown.items()):
            self.write({**was, **shown})

    def fix_environment(self, facts: dict[str, Any]) -> None:
        """Record pins and datasets at the first run; refuse others later, so none are mixed."""
        was = self.settings or {}
        recorded = was.get("environment")
        if recorded is None:
            self.write({**was, "environment": facts})
            return
        for name, value in facts.items():
            if name in recorded and recorded[name] != value:
                raise UserError(
                    f"{name} on the nodes is not what campaign {self.name} began with"
                    f"{_what_differs(recorded[name], value)}; its figures would not compare: set"
                    " the nodes back, or give the matrix another `name:`"
                )
        if set(facts) - set(recorded):
            self.write({**was, "environment": {**recorded, **facts}})

    @property
    def refusal(self) -> str:
        """What a second bench is told."""
        return f"another bench runs campaign {self.name}"

    def attempts(self, cell_id: str, repeat: int) -> list[Attempt]:
        """List the attempts of one repeat of a cell, oldest first."""
        folder = self.path / cell_id / f"repeat{repeat}"
        attempts = []
        for path in folder.glob("attempt*"):
            if match := re.fullmatch(r"attempt(\d+)", path.name):
                attempts.append(Attempt(path, cell_id, repeat, int(match[1])))
        return sorted(attempts, key=lambda attempt: attempt.number)

    def running(self) -> Attempt | None:
        """Return what a living bench runs now: the last that was planned, where it has no
        outcome.
        """
        asked = repeats_of(self.settings or {}) if self.is_locked() else ()
        attempts = (a for cell, repeat in asked for a in self.attempts(cell["id"], repeat))
        planned = [attempt for attempt in attempts if (attempt.path / names.RUN).exists()]
        last = max(planned, key=lambda attempt: attempt.planned_at, default=None)
        return last if last is not None and last.outcome is None else None

    def new_attempt(self, cell_id: str, repeat: int) -> Attempt:
        """Make the next attempt's folder (0700)."""
        before = self.attempts(cell_id, repeat)
        number = before[-1].number + 1 if before else 1
        path = self.path / cell_id / names.attempt(repeat, number)
        path.mkdir(mode=0o700, parents=True)
        return Attempt(path, cell_id, repeat, number)


def repeats_of(settings: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield each repeat of each cell of a campaign's settings, in the matrix's order, from 1.

    In a campaign of reruns each cell has as many as were asked for.
    """
    for cell in settings.get("cells", ()):
        for repeat in range(1, int(cell.get("repeats", settings["repeats"])) + 1):
            yield cell, repeat


def _what_differs(was: Any, now: Any) -> str:
    """Say ` (commit was a, is b)` of two mappings; nothing where they are none."""
    if not isinstance(was, dict) or not isinstance(now, dict):
        return ""
    keys = [key for key in {**was, **now} if was.get(key) != now.get(key)]
    changes = [
        f"{key} was {str(was.get(key))[:40]}, is {str(now.get(key))[:40]}" for key in keys[:3]
    ]
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
            f"there are no campaigns under {runs}; `python -m runner bench --matrix matrix.yaml`"
            " makes one, --runs names another folder"
        )
    if name is None:
        return there[0]
    for campaign in there:
        if campaign.name == name:
            return campaign
    names = ", ".join(campaign.name for campaign in there[:8])
    hint = nearest(name, (campaign.name for campaign in there))
    raise UserError(f"there is no campaign {name!r} under {runs}{hint}; there are {names}")

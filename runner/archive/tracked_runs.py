"""A campaign's runs as experiment trackers hold them: settings, figures, curves, tags."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.archive.archive import evidence_sha256
from runner.base.clock import day, second
from runner.base.errors import UserError
from runner.base.masking import Masks
from runner.document.campaign_document import CampaignDocument
from runner.document.machine_document import CURVES, values
from runner.figures.run_curves import Points
from runner.tables.row import Row
from runner.terms.record import NOT_ENDED, Record

_OF_RUN = ("samples_per_s", "step_time_ms", "memory_rss_mib")


@dataclass(frozen=True)
class TrackedRun:
    """One repeat of a cell, as it ended."""

    key: str  # <cell's id>/repeat<K>/attempt<N>: by which a store knows that it has the run
    name: str
    cell: str  # its name: what its repeats are grouped by
    status: str
    began: float  # epoch seconds, 0.0 where nobody knows
    wall_s: float
    settings: Mapping[str, Any]  # system, axis.<name> and the cell's parameters
    tags: Mapping[str, str]  # status, reason, verdict, evidence_sha256 and what it ran on
    figures: Mapping[str, float]  # run/<column>, and cell/<column> over all repeats, with units
    curves: Mapping[str, Points]  # all points of loss, validation_loss, step_time_ms

    def points(self) -> dict[int, dict[str, float]]:
        """Return what is known of each iteration, in order."""
        by_iteration: dict[int, dict[str, float]] = {}
        for name, curve in self.curves.items():
            for iteration, value in curve:
                by_iteration.setdefault(int(iteration), {})[name] = value
        return dict(sorted(by_iteration.items()))


def tracked_runs(document: CampaignDocument) -> list[TrackedRun]:
    """Return each run that ended, with the values of secrets masked, as `export --redact` does.

    Raises UserError where none has ended.
    """
    masks = Masks(
        value
        for evidence in document.evidence.values()
        for node in evidence.nodes
        for value in node.log.secrets
    )
    table = values(document)["rows"]
    masks.learn(table)
    runs = [
        _tracked(document, row, record, masks.content(written), masks.content(run))
        for row, written in zip(document.rows, table, strict=True)
        for record, run in zip(row.records, written["runs"], strict=True)
        if record.status not in NOT_ENDED
    ]
    if not runs:
        raise UserError("no run of the campaign has ended: there is nothing to export")
    return runs


def as_text(value: Any) -> str:
    """Write a setting as text: JSON unless it is text."""
    return value if isinstance(value, str) else json.dumps(value)


def _tracked(
    document: CampaignDocument,
    row: Row,
    record: Record,
    cell: Mapping[str, Any],
    run: Mapping[str, Any],
) -> TrackedRun:
    evidence = document.evidence.get((record.cell_id, record.repeat))
    figures = {f"run/{key}": run[key] for key in _OF_RUN} | {"run/wall_s": record.wall_s}
    figures |= {f"cell/{key}": value for key, value in cell.items()}
    axes = {f"axis.{name}": value for name, value in cell["axes"].items()}
    settings = {"system": record.system, **axes, **cell["parameters"]}
    repeat = f" repeat {record.repeat}" if len(row.records) > 1 else ""
    texts = {
        **{key: run[key] for key in ("status", "reason")},
        "verdict": ";".join(cell["verdict_reasons"]) or "publishable",
        **{f"verdict.{code}": why for code, why in cell["verdict_reasons"].items()},
        "campaign": record.campaign,
        "began_utc": f"{day(record.began)} {second(record.began)}" if record.began else "",
        "hosts": " ".join(run["hosts"]),
        "device": cell["device"],
        "evidence_sha256": evidence_sha256(evidence.folder) if evidence else "",
    }
    return TrackedRun(
        key=f"{record.cell_id}/repeat{record.repeat}/attempt{record.attempt}",
        name=f"{cell['cell']}{repeat}",
        cell=cell["cell"],
        status=record.status,
        began=record.began or 0.0,
        wall_s=record.wall_s,
        settings={name: value for name, value in settings.items() if value is not None},
        tags={name: str(text) for name, text in texts.items() if text},
        figures={name: value for name, value in figures.items() if _is_figure(value)},
        curves={name: of(record) for name, of in CURVES.items()},
    )


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def missing_extra(error: ModuleNotFoundError, extra: str) -> UserError:
    """Return what to say where a tracker's library is not installed."""
    return UserError(
        f"the Python package {error.name} is not installed: pip install"
        f" 'trainbench-cluster[{extra}]'"
    )


Runs = Sequence[TrackedRun]

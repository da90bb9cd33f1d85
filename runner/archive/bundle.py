"""A publication as one archive."""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.archive import archive
from runner.archive.environments import installed, texts
from runner.archive.export import Gathered, gathered
from runner.archive.publication import Publication, Refused, readme, refused
from runner.base.clock import day
from runner.base.errors import UserError
from runner.base.escapes import plain
from runner.figures.measured_cell import MeasuredCell
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.folder.stored import UnreadableError
from runner.tables.row import PUBLISHABLE
from runner.terms.run import Run

README, FACTS = "README.md", names.PUBLISHED


class UnfitToPublishError(UserError):
    """Cells are not publishable; `lines` says each, why, and the cure."""

    def __init__(self, refused: Sequence[Refused], cells: int) -> None:
        self.refused = refused
        self.lines = lines = [refusal.words for refusal in refused]
        super().__init__(
            f"{len(lines)} of {cells} cells are not publishable; cure them, or publish them with"
            " --anyway, which marks each"
        )


@dataclass(frozen=True)
class Bundle:
    """What is published, and the texts that are made of it, by their names in the archive."""

    publication: Publication
    texts: dict[str, str]


def bundle_of(content: Gathered, entity: str, *, redacted: bool, anyway: bool) -> Bundle:
    """Make it. Raises UnfitToPublishError unless all cells are publishable, or it is `anyway`."""
    settings = content.campaign.settings
    table, cells = content.document.rows, content.document.cells
    not_fit = refused(table)
    if not table:
        raise UserError(
            f"campaign {content.campaign.name} has no cells; there is nothing to publish"
        )
    if not_fit and not anyway:
        raise UnfitToPublishError(not_fit, len(table))
    nodes = content.campaign.inspections()
    publication = Publication(
        name=content.campaign.name,
        settings=settings,
        table=table,
        cells=cells,
        runs=_runs(content.campaign, cells),
        nodes=nodes,
        pins=installed(settings, nodes),
        refused=not_fit,
        entity=entity,
        day=_day(cells),
        redacted=redacted,
    )
    texts_by_name = {
        README: readme(publication),
        FACTS: json.dumps(plain(_facts(publication)), indent=1) + "\n",
    }
    for pin in publication.pins:
        texts_by_name |= {f"{pin.folder}/{name}": text for name, text in texts(pin)}
    return Bundle(publication, texts_by_name)


def publish(campaign: Campaign, target: Path, entity: str, *, redact: bool, anyway: bool) -> Bundle:
    """Write `target`, a .tar.gz. Raises UserError, UnfitToPublishError."""
    with gathered(campaign, redact=redact) as content:
        bundle = bundle_of(content, entity, redacted=redact, anyway=anyway)
        files = dict(content.files)
        for name, text in bundle.texts.items():
            path = content.folder / "publication" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            files[name] = path
        for pin in bundle.publication.pins:
            files |= {f"{pin.folder}/{name}": path for name, path in pin.patches.items()}
        archive.pack(content.campaign.name, files, target)
    return bundle


def readme_alone(campaign: Campaign, entity: str, *, redact: bool, anyway: bool) -> str:
    """Return the bundle's README.md. Raises UserError, UnfitToPublishError."""
    with gathered(campaign, redact=redact) as content:
        return bundle_of(content, entity, redacted=redact, anyway=anyway).texts[README]


def _runs(campaign: Campaign, cells: Sequence[MeasuredCell]) -> dict[str, Run]:
    """Return the run that describes each cell; none of a cell that has none that can be read."""
    runs = {}
    for cell in cells:
        record = cell.record
        path = campaign.attempt_path(record.cell_id, record.repeat, record.attempt)
        with contextlib.suppress(UnreadableError):
            run = Attempt(path, record.cell_id, record.repeat, record.attempt).run
            if run is not None:
                runs[record.cell_id] = run
    return runs


def _day(cells: Sequence[MeasuredCell]) -> str:
    """Return the day of the last run's end, as the control node's clock had it."""
    runs = [run for cell in cells for run in cell.records]
    ends = [run.began + run.wall_s for run in runs if run.began]
    return day(max(ends)) if ends else ""


def _facts(publication: Publication) -> dict[str, Any]:
    """Return publication.json: who, what, each cell's verdict, each environment."""
    return {
        "schema": 1,
        "campaign": publication.name,
        "entity": publication.entity,
        "day": publication.day,
        "trainbench": publication.settings.trainbench,
        "redacted": publication.redacted,
        "imported": publication.settings.imported,
        "cells": [
            {
                "cell": row["cell"],
                "id": row["cell_id"],
                "publishable": row["verdict"] == PUBLISHABLE,
                "verdict": row["verdict_reasons"],
            }
            for row in publication.table
        ],
        "needs": [
            {
                "cell": cell.record.cell,
                "nodes": cell.record.nodes,
                "devices_per_node": cell.record.devices_per_node,
                "device": cell.record.device or cell.record.device_kind,
            }
            for cell in publication.cells
        ],
        "environments": [
            {
                "system": pin.system,
                "pin": pin.name,
                "identity": dict(pin.identity),
                "packages": dict(pin.lock.packages),
                "not_known": pin.lock.missing,
                "patches": sorted(pin.patches),
                "note": pin.other,
            }
            for pin in publication.pins
        ],
        "environment": dict(publication.settings.environment or {}),
    }

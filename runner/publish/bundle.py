"""A publication as one archive."""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.archive import archive
from runner.archive.export import Gathered, gathered
from runner.base.clock import day
from runner.base.errors import UserError
from runner.base.escapes import plain
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.folder.stored import UnreadableError
from runner.publish.environments import installed, texts
from runner.publish.fitness import Refused, refused
from runner.publish.publication import Publication
from runner.publish.readme import readme
from runner.tables.row import Row
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
    table = content.document.rows
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
        runs=_runs(content.campaign, table),
        nodes=nodes,
        pins=installed(settings, nodes),
        refused=not_fit,
        entity=entity,
        day=_day(table),
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


def _runs(campaign: Campaign, table: Sequence[Row]) -> dict[str, Run]:
    """Return the run that describes each cell; none of a cell that has none that can be read."""
    runs = {}
    for row in table:
        record = row.record
        path = campaign.attempt_path(record.cell_id, record.repeat, record.attempt)
        with contextlib.suppress(UnreadableError):
            run = Attempt(path, record.cell_id, record.repeat, record.attempt).run
            if run is not None:
                runs[record.cell_id] = run
    return runs


def _day(table: Sequence[Row]) -> str:
    """Return the day of the last run's end, as the control node's clock had it."""
    ends = [record.began + record.wall_s for row in table for record in row.records if record.began]
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
                "cell": row.cell,
                "id": row.record.cell_id,
                "publishable": row.publishable,
                "verdict": dict(row.verdict),
            }
            for row in publication.table
        ],
        "needs": [
            {
                "cell": row.cell,
                "nodes": row.record.nodes,
                "devices_per_node": row.record.devices_per_node,
                "device": row.record.device or row.record.device_kind,
            }
            for row in publication.table
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

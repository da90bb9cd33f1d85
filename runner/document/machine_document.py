"""The document as JSON: each column of each cell, and what each of its runs was and did."""

from collections.abc import Sequence
from typing import Any

from runner.base.escapes import json_text, plain
from runner.document.campaign_document import CampaignDocument
from runner.figures.run_curves import Points, loss_curve, step_times, thinned, validation_curve
from runner.tables.machine import table_values
from runner.terms.record import Record
from runner.terms.run_evidence import Evidence, NodeEvidence

MOST_POINTS = 300  # of a run's curve
CURVES = {
    "loss": loss_curve,
    "validation_loss": validation_curve,
    "step_time_ms": step_times,
}


def values(document: CampaignDocument) -> dict[str, Any]:
    """Return what `compare` and `history` read of a campaign: the JSON without curves and
    evidence.
    """
    table = table_values(document.rows, document.published, document.hidden)
    texts = {"title": document.title, "description": document.description}
    content: dict[str, Any] = plain({"schema": table.pop("schema"), **texts, **table})
    return content


def to_json(document: CampaignDocument) -> str:
    """Write the document as one JSON object, indented.

    That of `tables.machine.table_values`, and in each of a row's `runs`:

        {"began": epoch seconds by the control node's clock, "wall_s": how long it took,
         "curves": {"loss"|"validation_loss"|"step_time_ms": [[iteration, value], ...]}, each of at
                   most MOST_POINTS points: medians of neighbours,
         "nodes": [{"rank", "host", "commands": an argv for each process that the node started,
                    "env", "cwd", "files", "note", "traces": a profiler's, in the run's folder,
                    "log": {"path", "bytes", "missing"}}],
         "evidence_missing": why it has no commands; empty where it has}

    `docs table.json` prints all of it as a JSON schema.
    """
    content = values(document)
    for row, written in zip(document.rows, content["rows"], strict=True):
        for record, run in zip(row.records, written["runs"], strict=True):
            run |= _run(record, document.evidence.get((record.cell_id, record.repeat)))
    return json_text(content) + "\n"


def _run(record: Record, evidence: Evidence | None) -> dict[str, Any]:
    return {
        "began": record.began,
        "wall_s": record.wall_s,
        "curves": {name: _points(of(record)) for name, of in CURVES.items()},
        "nodes": [_node(node, evidence) for node in evidence.nodes] if evidence else [],
        "evidence_missing": evidence.missing if evidence else "it has not run",
    }


def _points(points: Points) -> Sequence[tuple[float, float]]:
    return thinned(points, MOST_POINTS)


def _node(node: NodeEvidence, run: Evidence) -> dict[str, Any]:
    log = {"path": run.href(node.log.path), "bytes": node.log.bytes, "missing": node.log.missing}
    names = ("rank", "host", "commands", "env", "cwd", "files", "note", "traces")
    return {name: getattr(node, name) for name in names} | {"log": log}

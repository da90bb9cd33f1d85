"""The document as JSON: each row, and what each of its runs was and did."""

from typing import Any

from runner.base.escapes import json_text, plain
from runner.figures.curves import loss_curve, step_times, thinned, validation_curve
from runner.tables.campaign_document import CampaignDocument
from runner.tables.environment_facts import environment_section, facts_as_text
from runner.tables.row import RowRun
from runner.terms.record import Record
from runner.terms.run_evidence import Evidence, NodeEvidence

MOST_POINTS = 300  # of a run's curve
CURVES = {
    "loss": loss_curve,
    "validation_loss": validation_curve,
    "step_time_ms": step_times,
}


def values(document: CampaignDocument) -> dict[str, Any]:
    """Return the campaign as one object, as JSON has it.

        {"schema": 1,
         "title", "description": the matrix's words on it,
         "campaign": the campaign's name, a list when there are several, null without one,
         "hidden": what ran and the matrix no longer names, in a sentence; empty where nothing is,
         "environment": {fact: text} of what the runs ran on, as `compare` tells two of them apart,
         "rows": [runner.tables.row.Row],
         "published": [{"source", "hardware", "cell", "labels", "figures"}] of the documents}

    Times are in ms, memory in MiB, rates of the whole job unless the name says per_device.
    `docs table.json` prints it as a JSON schema; docs/measures.md says how each figure is computed.
    """
    campaigns = list(dict.fromkeys(row["campaign"] for row in document.rows))
    names = ("source", "hardware", "cell", "labels", "figures")
    content: dict[str, Any] = {
        "schema": 1,
        "title": document.title,
        "description": document.description,
        "campaign": campaigns[0] if len(campaigns) == 1 else campaigns or None,
        "hidden": document.hidden,
        "environment": facts_as_text(environment_section(document.records)),
        "rows": list(document.rows),
        "published": [
            plain({name: getattr(row, name) for name in names}) for row in document.published
        ],
    }
    return content


def to_json(document: CampaignDocument) -> str:
    """Write the document as one JSON object, indented; each run with its curves and its commands.

    A curve has (iteration, value) at most MOST_POINTS times: medians of neighbours. Of each node:
    {"rank", "host", "commands": an argv for each process that it started, "env", "cwd", "files",
    "note", "traces": a profiler's, in the run's folder, "log": {"path", "bytes", "missing"}};
    "evidence_missing" says why a run has none.
    """
    rows = [
        {
            **row,
            "runs": [
                _run(run, record, document.evidence.get((record.cell_id, record.repeat)))
                for run, record in zip(row["runs"], cell.records, strict=True)
            ],
        }
        for row, cell in zip(document.rows, document.cells, strict=True)
    ]
    return json_text({**values(document), "rows": rows}) + "\n"


def _run(run: RowRun, record: Record, evidence: Evidence | None) -> dict[str, Any]:
    return {
        **run,
        "began": record.began,
        "wall_s": record.wall_s,
        "curves": {name: thinned(of(record), MOST_POINTS) for name, of in CURVES.items()},
        "nodes": [_node(node, evidence) for node in evidence.nodes] if evidence else [],
        "evidence_missing": evidence.missing if evidence else "it has not run",
    }


def _node(node: NodeEvidence, run: Evidence) -> dict[str, Any]:
    log = {"path": run.href(node.log.path), "bytes": node.log.bytes, "missing": node.log.missing}
    names = ("rank", "host", "commands", "env", "cwd", "files", "note", "traces")
    return {name: getattr(node, name) for name in names} | {"log": log}

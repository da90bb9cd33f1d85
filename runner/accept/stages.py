"""The stages of an acceptance, in order of growing scale."""

import time
from dataclasses import replace

from runner.accept.acceptance import NodeFault, StageReport
from runner.accept.remedies import remedy
from runner.accept.session import Session, Stages, unreachable
from runner.accept.training import training
from runner.doctor.answer import Answer
from runner.doctor.items import SPOILS


def alike(session: Session) -> StageReport:
    """Compare what all nodes are: doctor's items, and each role's verify entry."""
    began_at, began = time.time(), time.monotonic()
    answer = session.survey()
    faults = alike_faults(answer)
    notes = tuple(
        f"{', '.join(finding.nodes)}: {finding.words}"
        for finding in answer.comparison.findings
        if finding.severity != SPOILS
    )
    return StageReport(
        "alike",
        began_at,
        time.monotonic() - began,
        tuple(faults),
        notes,
        (),
        (),
        (),
        tuple(answer.unreachable),
        (f"verify.yml: {len(answer.roles)} roles checked", "node/facts: all items of doctor"),
    )


def alike_faults(answer: Answer) -> list[NodeFault]:
    """Return what doctor would call a fault, each with its cure."""
    faults = unreachable("alike", answer)
    for host, entries in answer.failures.items():
        for entry in entries:
            description = f"{entry['role']}: {' '.join(entry['message'].split())}"
            faults.append(NodeFault("alike", "system", (host,), description, remedy("system")))
    for finding in answer.comparison.findings:
        if finding.severity == SPOILS:
            description = finding.words
            nodes = tuple(finding.nodes)
            if len(answer.envs) == 2:
                description += "; of two nodes it cannot be said which is right"
            faults.append(
                NodeFault("alike", finding.item, nodes, description, remedy(finding.item))
            )
    return faults


def devices(session: Session) -> StageReport:
    """Measure each device: products, sustained and checked, memory, copies."""
    return session.probe(["devices", "products", "copies"], "devices")


def links(session: Session) -> StageReport:
    """Measure links within nodes, between pairs and between all nodes."""
    report = session.probe(["network", "collectives"], "links")
    is_pair = len(session.hosts) == 2
    reason = "a slow link of two nodes: there is no other to compare it with"
    return replace(report, untested=(*report.untested, reason)) if is_pair else report


def storage(session: Session) -> StageReport:
    """Measure what checkpoints do to each node's disk."""
    return session.probe(["storage"], "storage")


STAGES: Stages = (
    ("alike", "drivers, versions, clocks, limits of all nodes compared", alike),
    ("devices", "each device: products, sustained and checked; memory; copies", devices),
    ("links", "all-reduce and other collectives within nodes, of pairs, of all", links),
    ("storage", "write, sync, read and small files on each node", storage),
    ("training", "each node alone, then 2, 4, ... and all; losses and scaling", training),
)

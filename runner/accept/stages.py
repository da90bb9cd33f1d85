"""The stages of an acceptance, in order of growing scale."""

import time
from collections.abc import Sequence
from dataclasses import replace

from node.probe_deep import ALL_REDUCE
from runner.accept.acceptance import NodeFault, StageReport
from runner.accept.remedies import remedy
from runner.accept.session import Session, Stages, unreachable
from runner.accept.training import training
from runner.base.text import listing
from runner.doctor.answer import Answer
from runner.doctor.items import SPOILS
from runner.doctor.probe_tests import NCCL_TESTS, SWITCH

HOSTS_SHOWN = 4


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
    devices_each = min(node.devices for node in session.cluster.nodes)
    on_gpus = session.cluster.device == "cuda" and devices_each > 1
    checks = ["network", "switches", "collectives", *[NCCL_TESTS] * on_gpus]
    report = session.probe(checks, "links")
    untested = list(report.untested)
    if len(session.hosts) == 2:
        untested.append("a slow link of two nodes: there is no other to compare it with")
    if report.tests:
        expected = {SWITCH: len(session.hosts) > 3, NCCL_TESTS: on_gpus}
        untested += [
            reason
            for test, is_expected in expected.items()
            if is_expected and test not in session.options.left_out
            for reason in without_figure(test, report, session.hosts)
        ]
    return replace(report, untested=tuple(untested))


def without_figure(test: str, report: StageReport, hosts: Sequence[str]) -> list[str]:
    """Say which nodes have no figure of a test that is made where it can be."""
    figures = [figure for row in report.tests if row["test"] == test for figure in row["figures"]]
    measured = {host for figure in figures for host in figure["nodes"]}
    remaining = [host for host in hosts if host not in measured and host not in report.lost]
    if not remaining or any(row["test"] == test and row["reason"] for row in report.tests):
        return []
    hosts_text = listing(remaining, HOSTS_SHOWN) if figures else "all nodes"
    if test == SWITCH:
        reason = "it needs two known switches with as many nodes each"
        return [f"comparison by switch, {hosts_text}: {reason}"]
    return [f"nccl-tests, {hosts_text}: no {ALL_REDUCE} was found (docs/how-to/accept.md)"]


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

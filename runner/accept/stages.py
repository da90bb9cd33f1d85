"""The stages of an acceptance, in order of growing scale: one after the other, on from where it
stopped; and what it leaves once all of them have ended.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from node.probe_deep import ALL_REDUCE
from node.time_words import lasts
from runner.accept.acceptance import (
    AcceptState,
    NodeFault,
    StageReport,
    acceptances,
    current,
    timed,
)
from runner.accept.answer import answered, junit
from runner.accept.marks import against_earlier, against_marks
from runner.accept.provider_page import page
from runner.accept.remedies import remedy
from runner.accept.scope import AcceptOptions
from runner.accept.session import Session
from runner.accept.training import training
from runner.base.console import one_line
from runner.base.files import write_text
from runner.base.text import counted, listing
from runner.doctor.answer import Answer, gather
from runner.doctor.items import SPOILS
from runner.doctor.probe_tests import NCCL_TESTS, SWITCH
from runner.folder import names
from runner.folder.stored import UnreadableError, write_json
from runner.inventory.inventory import load_inventory, refuse_unedited
from runner.launch.engines import engine_of
from runner.study.study import Answer as Answered

HOSTS_SHOWN = 4


def alike(session: Session) -> StageReport:
    """Compare what all nodes are: doctor's items, and each role's verify entry."""
    answer = session.survey()
    findings = answer.comparison.findings
    return StageReport(
        "alike",
        faults=tuple(alike_faults(answer)),
        notes=tuple(
            f"{', '.join(finding.nodes)}: {finding.words}"
            for finding in findings
            if finding.severity != SPOILS
        ),
        lost=tuple(answer.unreachable),
        commands=(
            f"verify.yml: {len(answer.roles)} roles checked",
            "node/facts: all items of doctor",
        ),
    )


def alike_faults(answer: Answer) -> list[NodeFault]:
    """Return what doctor would call a fault, each with its cure."""
    faults = unreachable("alike", answer)
    for host, entries in answer.failures.items():
        for entry in entries:
            words = f"{entry['role']}: {' '.join(entry['message'].split())}"
            faults.append(NodeFault("alike", "system", (host,), words, remedy("system")))
    of_two = "; of two nodes it cannot be said which is right" if len(answer.envs) == 2 else ""
    return faults + [
        NodeFault("alike", one.item, tuple(one.nodes), f"{one.words}{of_two}", remedy(one.item))
        for one in answer.comparison.findings
        if one.severity == SPOILS
    ]


def unreachable(stage: str, answer: Answer) -> list[NodeFault]:
    """Say which nodes could not be asked."""
    cure = remedy("unreachable")
    return [
        NodeFault(stage, "unreachable", (host,), f"cannot be asked: {why}", cure)
        for host, why in answer.unreachable.items()
    ]


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
    expected = {SWITCH: len(session.hosts) > 3, NCCL_TESTS: on_gpus} if report.tests else {}
    for test, is_expected in expected.items():
        if is_expected and test not in session.options.left_out:
            untested += without_figure(test, report, session.hosts)
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


STAGES: Mapping[str, tuple[Callable[[Session], StageReport], str]] = {
    "alike": (alike, "drivers, versions, clocks, limits of all nodes compared"),
    "devices": (devices, "each device: products, sustained and checked; memory; copies"),
    "links": (links, "all-reduce and other collectives within nodes, of pairs, of all"),
    "storage": (storage, "write, sync, read and small files on each node"),
    "training": (training, "each node alone, then 2, 4, ... and all; losses and scaling"),
}


def accept(inventory: Path, runs: Path, options: AcceptOptions, *, new: bool = False) -> Session:
    """Do what is left of an acceptance. Raises UserError where no node could be asked."""
    cluster = load_inventory(inventory)
    refuse_unedited(cluster)
    label = cluster.label
    if options.node:
        alone = tuple(node for node in cluster.nodes if node.host == options.node)
        cluster, label = replace(cluster, nodes=alone), f"{label}-{options.node}"
    options = options.measuring(cluster.device)
    acceptance = current(runs / names.ACCEPT / label, options.to_json(), new=new)
    expected = options.expected_s(len(cluster.nodes), cluster.device)
    begun = AcceptState(time.time(), options.to_json(), sum(expected.values()))
    session = Session(acceptance, cluster, engine_of(cluster, runs), options=options, state=begun)
    with session.held():
        session.save(acceptance.state or begun)
        if session.state.stages:
            asked = gather(acceptance, inventory=str(cluster.path))
            session.answer = replace(asked, engine=cluster.engine)
            finished = ", ".join(report.stage for report in session.state.stages)
            session.console.print(one_line(f"going on with {acceptance.path}: {finished} done"))
        for stage in options.stages:
            if session.state.report(stage) is None:
                about = f"{STAGES[stage][1]}, about {lasts(expected[stage])}"
                session.console.print(one_line(f"{stage}: {about}"))
                report = timed(partial(do, stage, session))
                session.save(session.state.with_stage(report))
                session.console.print(one_line(ended(report)))
                session.stop_if_asked()
    return session


def do(stage: str, session: Session) -> StageReport:
    """Do one stage; every node may be lost before it, or in use by others."""
    silent: list[NodeFault] = []
    if stage != "alike" and not session.answer.envs:
        silent = unreachable(stage, session.survey(roles=False))
    if stage == "alike" or session.hosts or session.state.rounds:
        report = STAGES[stage][0](session)
    else:
        reason = f"stage {stage}: no node is left to test"
        report = StageReport(stage, unanswered=(reason,))
    return replace(report, faults=(*silent, *report.faults))


def ended(report: StageReport) -> str:
    """Return a stage's line once it has ended."""
    nodes = sorted({host for fault in report.faults for host in fault.nodes})
    fault_text = f"{counted(len(report.faults), 'fault')} on {', '.join(nodes) or 'unknown nodes'}"
    result = fault_text if report.faults else "not all tested" if report.unanswered else "passed"
    return f"{report.stage}: {result}, {lasts(report.took_s)}"


def finish(session: Session, marks: Mapping[str, Mapping[str, Any]]) -> Answered:
    """End an acceptance: judge its figures by marks and history, and write its files."""
    folder, cluster, nodes = session.checkup.path, session.cluster, session.answer.nodes
    state = replace(session.state, ended_at=time.time())
    faults = against_marks(state, marks) + against_earlier(state, _earlier(folder))
    answer = answered(cluster.name, nodes, state, faults, cluster.engine)
    texts = {
        "healthy.txt": "".join(f"{host}\n" for host in answer.detail["healthy"]),
        "failing.txt": "".join(f"{host}\n" for host in answer.detail["failing"]),
        "junit.xml": junit(answer, nodes) + "\n",
        "report.html": page(answer, session.answer),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    write_json(folder / names.ANSWER, answer.to_json())
    session.save(state)  # once all files are there: killed before, the same command writes them
    return answer


def _earlier(folder: Path) -> list[AcceptState]:
    """Return the acceptances before this one that ended, without those of a damaged state."""
    states = []
    for acceptance in acceptances(folder.parent):
        if acceptance.path != folder:
            with suppress(UnreadableError):
                states.append(acceptance.state)
    return [state for state in states if state is not None and state.ended_at is not None]

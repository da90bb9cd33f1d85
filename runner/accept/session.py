"""One acceptance: its stages one after the other, and on from where it stopped."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from node.causes import Cause
from node.time_words import lasts
from runner.accept.acceptance import Acceptance, AcceptState, NodeFault, StageReport, current
from runner.accept.remedies import remedy
from runner.accept.scope import AcceptOptions
from runner.base.console import Screen, one_line
from runner.base.errors import UserError
from runner.base.text import counted, listing
from runner.doctor import asking
from runner.doctor.answer import Answer, gather
from runner.doctor.effort import Effort
from runner.doctor.judgement import Judgement, with_tries
from runner.doctor.probe_tests import ONE_TRY, TESTS, check_of, needed_checks
from runner.doctor.slow_figures import ProbeResult
from runner.folder import names
from runner.inventory.inventory import load_inventory, refuse_unedited
from runner.launch.engine import Surveyor
from runner.launch.engines import engine_of
from runner.launch.interrupts import Interrupts
from runner.terms.cluster import Cluster, Node

MORE_TRIES = 2
LOSSES = 3  # nodes that a stage may lose, one after the other, before it gives up
TESTS_SHOWN = 4  # by name in a line of those without a result


@dataclass(frozen=True)
class EarlyEnd:
    """Which nodes ended a run for all, why, and that cause's code; empty where it ended well."""

    hosts: tuple[str, ...] = ()
    reason: str = ""
    cause: str = ""

    @property
    def busy(self) -> bool:
        """Whether others use a device: its node was not tested, and is not at fault."""
        return self.cause == Cause.DEVICE_BUSY

    def untested(self, stage: str) -> list[str]:
        """Return why a node was not tested in a stage."""
        return [f"stage {stage}: {self.reason}"] if self.busy else []

    def faults(self, stage: str) -> list[NodeFault]:
        """Return what is wrong with the nodes; of no node where nobody can say which ended it."""
        if not self.reason or self.busy:
            return []
        cure = remedy("lost")
        if not self.hosts:
            sentence = f"stage {stage} did not end, and it cannot be said which node ended it"
            return [NodeFault(stage, "lost", (), f"{sentence}: {self.reason}", cure)]
        sentence = f"ended stage {stage} for all: {self.reason}"
        return [
            NodeFault(stage, "lost", (host,), f"{host} {sentence}", cure) for host in self.hosts
        ]


@dataclass
class Session:
    """What the stages work with. `state` is what they found so far."""

    acceptance: Acceptance
    cluster: Cluster
    engine: Surveyor
    options: AcceptOptions
    interrupts: Interrupts
    console: Screen
    state: AcceptState
    answer: Answer = field(default_factory=lambda: Answer("", 0.0, ()))

    @property
    def hosts(self) -> list[str]:
        """The nodes that could be asked and were not lost since."""
        lost = set(self.state.lost)
        return [host for host in self.answer.nodes if host in self.answer.envs and host not in lost]

    @property
    def nodes(self) -> list[Node]:
        """The same as nodes of the cluster; of a job all, whose names only it knows."""
        if self.cluster.engine.in_jobs:
            return list(self.cluster.nodes[: len(self.answer.nodes)])
        hosts = self.hosts
        return [node for node in self.cluster.nodes if node.host in hosts]

    def survey(self, *, roles: bool = True) -> Answer:
        """Ask the nodes what they are, and with `roles` what each role's verify entry says."""
        args = (self.acceptance, self.cluster, self.engine, roles, self.interrupts, self.console)
        self.answer = asking.survey(*args)
        return self.answer

    def measured(self, checks: Sequence[str], title: str, without: Sequence[str]) -> Judgement:
        """Measure the nodes; again what noise hid, for longer, and what seems slow in one try."""
        effort = self.options.effort(len(self.hosts) - len(without))
        judgement = self._measured(checks, title, without, effort)
        for again in range(MORE_TRIES):
            hidden = [row.test for row in judgement.rows if row.noisy]
            slow = [part.test for part in judgement.slow if part.test in ONE_TRY]
            slow += [row.test for row in judgement.rows if row.suspected]
            tests = list(dict.fromkeys(slow or hidden))
            if not tests or judgement.failed or (judgement.slow and not slow):
                break
            needed = [check for check in checks if check in map(check_of, tests)]
            left_out = [test for test in TESTS if test not in tests]
            longer = effort.seconds if slow else effort.seconds * (again + 2)
            effort_again = replace(effort, seconds=longer, left_out=tuple(left_out))
            title_again = f"{title}, {'slow' if slow else 'noisy'} tests again"
            more = self._measured(needed, title_again, without, effort_again)
            if not slow:
                judgement = judgement.with_rows(more)
            elif not more.failed:
                judgement = with_tries(judgement, more, tests, self.cluster.device)
            else:
                judgement = judgement.ended_as(more)
        return judgement

    def _measured(
        self, checks: Sequence[str], title: str, without: Sequence[str], effort: Effort
    ) -> Judgement:
        judged = asking.measure(
            self.acceptance,
            self.cluster,
            self.answer,
            checks,
            self.engine,
            self.interrupts,
            self.console,
            effort=effort,
            without=[*self.state.lost, *without],
            title=title,
        )
        if self.interrupts.count:
            raise KeyboardInterrupt
        return judged

    def probe(self, checks: Sequence[str], stage: str) -> StageReport:
        """Measure the nodes, again without those that were lost meanwhile; what was found."""
        began_at, began = time.time(), time.monotonic()
        checks = needed_checks(checks, self.options.left_out)
        lost: list[str] = []
        faults: list[NodeFault] = []
        unanswered: list[str] = []
        busy: set[str] = set()  # reasons
        while True:
            judged = self.measured(checks, stage, lost)
            if not judged.failed:
                break
            end = EarlyEnd(judged.held_up, judged.failed, judged.cause)
            faults += end.faults(stage)
            unanswered += end.untested(stage)
            busy |= {judged.failed} if end.busy else set()
            lost += judged.held_up
            remaining = len(self.hosts) - len(lost)
            if not judged.held_up or not remaining or len(faults) > LOSSES or self.in_jobs:
                break
        alone = {slow_part.nodes[0] for slow_part in judged.slow if len(slow_part.nodes) == 1}
        for slow_part in judged.slow:  # a pair with a node that is slow by itself is that node's
            nodes = tuple(host for host in slow_part.nodes if host in alone) or slow_part.nodes
            cure = remedy(slow_part.test, self.cluster.device)
            faults.append(NodeFault(stage, slow_part.test, nodes, slow_part.words, cure))
        unanswered += without_result(judged.rows, busy)
        if judged.failed:
            unanswered.append(f"stage {stage} was not finished")
        if judged.reason:
            unanswered.append(judged.reason)
        return StageReport(
            stage,
            began_at,
            time.monotonic() - began,
            faults=tuple(faults),
            notes=judged.notes,
            unanswered=tuple(dict.fromkeys(unanswered)),
            tests=tuple(judged.as_json()["tests"]),
            lost=tuple(lost),
            measured=not judged.failed,
            commands=(f"node/probe.py with {judged.torch}: {', '.join(checks)}",)
            if judged.torch
            else (),
        )

    @property
    def in_jobs(self) -> bool:
        """Whether nodes come with a job, which has all of them or none."""
        return self.cluster.engine.in_jobs

    def save(self, state: AcceptState) -> None:
        """Keep what was found."""
        self.state = state
        self.acceptance.save(state)


def without_result(rows: Sequence[ProbeResult], reasons: Collection[str]) -> list[str]:
    """Return why tests have no result, a line for each reason but those given."""
    tests: dict[str, list[str]] = {}
    for row in rows:
        if row.reason and row.reason not in reasons:
            tests.setdefault(row.reason, []).append(row.name)
    return [f"{listing(names, TESTS_SHOWN)}: {reason}" for reason, names in tests.items()]


def unreachable(stage: str, answer: Answer) -> list[NodeFault]:
    """Say which nodes could not be asked."""
    cure = remedy("unreachable")
    return [
        NodeFault(stage, "unreachable", (host,), f"cannot be asked: {why}", cure)
        for host, why in answer.unreachable.items()
    ]


Stages = Sequence[tuple[str, str, Callable[[Session], StageReport]]]


def limited(cluster: Cluster, host: str) -> Cluster:
    """Return the cluster of one node alone. Raises UserError where it has no such node."""
    if not host:
        return cluster
    nodes = tuple(node for node in cluster.nodes if node.host == host)
    if not nodes:
        hosts = ", ".join(node.host for node in cluster.nodes[:8])
        raise UserError(f"the inventory {cluster.path} has no node {host}; it has {hosts}")
    return replace(cluster, nodes=nodes)


def accept(
    inventory: Path, runs: Path, options: AcceptOptions, stages: Stages, *, new: bool = False
) -> Session:
    """Do what is left of an acceptance. Raises UserError where no node could be asked."""
    cluster = load_inventory(inventory)
    refuse_unedited(cluster)
    cluster = limited(cluster, options.node)
    options = options.measuring(cluster.device)
    label = f"{cluster.label}-{options.node}" if options.node else cluster.label
    acceptance = current(runs / names.ACCEPT / label, options.to_json(), new=new)
    engine, interrupts = engine_of(cluster, runs), Interrupts()
    console = Screen(stderr=True, soft_wrap=True)
    with (
        acceptance.locked(cluster.group),
        interrupts.handled(),
        engine.gathered(acceptance.path, interrupts.once),
    ):
        expected = options.expected_s(len(cluster.nodes), cluster.device)
        state = acceptance.state or AcceptState(
            time.time(), options.to_json(), sum(expected.values())
        )
        session = Session(acceptance, cluster, engine, options, interrupts, console, state)
        session.save(state)
        if state.stages:
            session.answer = gather(acceptance, inventory=str(cluster.path))
            session.answer = replace(session.answer, engine=cluster.engine)
            finished = ", ".join(stage_report.stage for stage_report in state.stages)
            console.print(one_line(f"going on with {acceptance.path}: {finished} done"))
        for key, title, do in stages:
            if key in options.stages and session.state.report(key) is None:
                silent: list[NodeFault] = []
                if key != "alike" and not session.answer.envs:
                    silent = unreachable(key, session.survey(roles=False))
                about = lasts(expected[key])
                console.print(one_line(f"{key}: {title}, about {about}"))
                is_ready = key == "alike" or session.hosts or session.state.rounds
                report = do(session) if is_ready else not_begun(key)
                report = replace(report, faults=(*silent, *report.faults))
                session.save(session.state.with_stage(report))
                console.print(one_line(ended(report)))
                if interrupts.count:
                    raise KeyboardInterrupt
    return session


def not_begun(stage: str) -> StageReport:
    """Return the report of a stage before which every node was lost, or in use by others."""
    reason = f"stage {stage}: no node is left to test"
    return StageReport(stage, time.time(), 0.0, unanswered=(reason,))


def ended(report: StageReport) -> str:
    """Return a stage's line once it has ended."""
    nodes = sorted({host for fault in report.faults for host in fault.nodes})
    fault_text = f"{counted(len(report.faults), 'fault')} on {', '.join(nodes) or 'unknown nodes'}"
    result = fault_text if report.faults else "not all tested" if report.unanswered else "passed"
    return f"{report.stage}: {result}, {lasts(report.took_s)}"

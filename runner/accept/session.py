"""What the stages of an acceptance work with, and how a run that a node ended is made again."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from node.causes import Cause
from runner.accept.acceptance import Acceptance, AcceptState, NodeFault, StageReport, merged
from runner.accept.remedies import remedy
from runner.accept.scope import AcceptOptions
from runner.base.text import listing
from runner.doctor.asking import Asking
from runner.doctor.judgement import Judgement, with_tries
from runner.doctor.probe_tests import ONE_TRY, TESTS, check_of, needed_checks
from runner.doctor.slow_figures import ProbeResult
from runner.terms.cluster import Node

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

    def report(self, stage: str) -> StageReport:
        """Return what it says of a stage: of no node where nobody can say which ended it."""
        if not self.reason:
            return StageReport(stage)
        if self.busy:
            reason = f"stage {stage}: {self.reason}"
            return StageReport(stage, unanswered=(reason,), lost=self.hosts)
        why = f"ended stage {stage} for all: {self.reason}"
        blamed: list[tuple[tuple[str, ...], str]] = [((h,), f"{h} {why}") for h in self.hosts]
        if not blamed:
            nobody = f"stage {stage} did not end, and it cannot be said which node ended it"
            blamed = [((), f"{nobody}: {self.reason}")]
        faults = (NodeFault(stage, "lost", nodes, words, remedy("lost")) for nodes, words in blamed)
        return StageReport(stage, faults=tuple(faults), lost=self.hosts)


@dataclass(kw_only=True)
class Session(Asking):
    """What the stages work with. `state` is what they found so far, which `checkup` keeps."""

    options: AcceptOptions
    state: AcceptState

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

    def save(self, state: AcceptState) -> None:
        """Keep what was found."""
        self.state = state
        Acceptance(self.checkup.path).save(state)

    def may_repeat(self, end: EarlyEnd, found: StageReport) -> bool:
        """Whether a run is made again without the nodes that ended it; a job's are all or none."""
        remaining = len(self.hosts) > len(found.lost)
        few = len(found.faults) <= LOSSES
        return bool(end.hosts) and remaining and few and not self.cluster.engine.in_jobs

    def measured(self, checks: Sequence[str], title: str, without: Sequence[str]) -> Judgement:
        """Measure the nodes; again what noise hid, for longer, and what seems slow in one try."""
        effort = self.options.effort(len(self.hosts) - len(without))
        out = [*self.state.lost, *without]
        judgement = self.measure(checks, effort=effort, without=out, title=title)
        for again in range(MORE_TRIES):
            hidden = [row.test for row in judgement.rows if row.noisy]
            slow = [part.test for part in judgement.slow if part.test in ONE_TRY]
            slow += [row.test for row in judgement.rows if row.suspected]
            tests = list(dict.fromkeys(slow or hidden))
            if not tests or judgement.failed or (judgement.slow and not slow):
                break
            needed = [check for check in checks if check in map(check_of, tests)]
            left_out = tuple(test for test in TESTS if test not in tests)
            longer = effort.seconds if slow else effort.seconds * (again + 2)
            effort_again = replace(effort, seconds=longer, left_out=left_out)
            title_again = f"{title}, {'slow' if slow else 'noisy'} tests again"
            more = self.measure(needed, effort=effort_again, without=out, title=title_again)
            if not slow:
                judgement = judgement.with_rows(more)
            elif not more.failed:
                judgement = with_tries(judgement, more, tests, self.cluster.device)
            else:
                judgement = judgement.ended_as(more)
        return judgement

    def probe(self, checks: Sequence[str], stage: str) -> StageReport:
        """Measure the nodes, again without those that were lost meanwhile; what was found."""
        checks = needed_checks(checks, self.options.left_out)
        found = StageReport(stage)
        busy: set[str] = set()  # reasons
        while (judged := self.measured(checks, stage, found.lost)).failed:
            end = EarlyEnd(judged.held_up, judged.failed, judged.cause)
            found = merged(stage, (found, end.report(stage)))
            busy |= {judged.failed} if end.busy else set()
            if not self.may_repeat(end, found):
                break
        alone = {part.nodes[0] for part in judged.slow if len(part.nodes) == 1}
        faults = []
        for part in judged.slow:  # a pair with a node that is slow by itself is that node's
            nodes = tuple(host for host in part.nodes if host in alone) or part.nodes
            cure = remedy(part.test, self.cluster.device)
            faults.append(NodeFault(stage, part.test, nodes, part.words, cure))
        unanswered = without_result(judged.rows, busy)
        unanswered += [f"stage {stage} was not finished"] * bool(judged.failed)
        found = found.adding(
            faults=faults,
            notes=judged.notes,
            unanswered=[*unanswered, *filter(None, [judged.reason])],
            tests=judged.as_json()["tests"],
            commands=[f"node/probe.py with {judged.torch}: {', '.join(checks)}"]
            * bool(judged.torch),
        )
        return replace(found, measured=not judged.failed)


def without_result(rows: Sequence[ProbeResult], reasons: Collection[str]) -> list[str]:
    """Return why tests have no result, a line for each reason but those given."""
    tests: dict[str, list[str]] = {}
    for row in rows:
        if row.reason and row.reason not in reasons:
            tests.setdefault(row.reason, []).append(row.name)
    return [f"{listing(names, TESTS_SHOWN)}: {reason}" for reason, names in tests.items()]

"""What accept answers: pass or fail of the cluster and of each node, with cause and cure. Pure."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from node.printable import printable
from node.time_words import lasts
from runner.accept.acceptance import AcceptState, NodeFault
from runner.accept.scope import AcceptOptions
from runner.base.text import counted
from runner.doctor.differences import short
from runner.doctor.slow_figures import rounded
from runner.study.study import Answer, AnswerTable
from runner.terms.engines.engine_settings import EngineSettings
from runner.terms.engines.ssh import Ssh

PASSED, FAILED, UNANSWERED = 0, 1, 2
WORDS = {PASSED: "pass", FAILED: "fail", UNANSWERED: "not proved"}
COLUMNS = {
    name: name for name in ("stage", "test", "unit", "of", "usual", "lowest", "where", "noise")
}
SIZES = (64, 1024)  # clusters that a plan is calculated for, too
MOST_ROWS = 100  # in a terminal


@dataclass(frozen=True)
class Found:
    """What one acceptance found. `nodes` are all that were asked; `marks` judge their figures."""

    inventory: str
    nodes: tuple[str, ...]
    state: AcceptState
    marks: tuple[NodeFault, ...] = ()
    engine: EngineSettings = field(default_factory=Ssh)

    @property
    def faults(self) -> list[NodeFault]:
        """All that is wrong, in the order of the stages."""
        return [*(fault for report in self.state.stages for fault in report.faults), *self.marks]

    @property
    def failing(self) -> Mapping[str, list[NodeFault]]:
        """Each node with faults, and these."""
        by_host = {host: [one for one in self.faults if host in one.nodes] for host in self.nodes}
        return {host: faults for host, faults in by_host.items() if faults}

    @property
    def healthy(self) -> list[str]:
        """The nodes that every stage measured and of which none has a fault."""
        if not all(report.measured for report in self.state.stages):
            return []
        out = {*self.failing, *self.state.lost}
        return [host for host in self.nodes if host not in out]

    @property
    def unanswered(self) -> list[str]:
        """What was to be tested and was not."""
        requested = self.state.options.get("stages") or ()
        missing = [f"stage {key} has not ended" for key in requested if not self.state.report(key)]
        return [*missing, *(why for report in self.state.stages for why in report.unanswered)]

    @property
    def untested(self) -> list[str]:
        """What this acceptance does not say."""
        left_out = [f"{test} (--leave-out)" for test in self.state.options.get("left_out") or ()]
        reasons = [reason for report in self.state.stages for reason in report.untested]
        return [*self.unanswered, *reasons, *left_out]

    @property
    def exit_code(self) -> int:
        """1 with a fault, else 2 where something could not be tested."""
        return FAILED if self.faults else UNANSWERED if self.unanswered else PASSED

    @property
    def exclusion(self) -> Mapping[str, str]:
        """The inventory's key that leaves out the failing nodes, and its value."""
        failing = list(self.failing)
        if not 0 < len(failing) < len(self.nodes):
            return {}
        without = {"--limit": f"all:{':'.join('!' + host for host in failing)}"}
        return self.engine.without(failing) or without

    @property
    def figures(self) -> list[dict[str, str]]:
        """A row for each test: its stage, figures, the lowest, and where that was."""
        reports = self.state.stages
        return [_figures(report.stage, test) for report in reports for test in report.tests]


def answered(found: Found) -> Answer:
    """Return the answer that docs/how-to/accept.md describes."""
    reports, result = found.state.stages, WORDS[found.exit_code]
    notes: list[str] = []
    for where, words, cure in grouped(found.faults):
        notes += [f"fault: {', '.join(filter(None, (where, words)))}", f"cure: {cure}"]
    notes += [f"note: {report.stage}: {note}" for report in reports for note in report.notes]
    notes += [f"not tested: {reason}" for reason in found.untested]
    notes += [f"to leave out failing nodes: {key} {to}" for key, to in found.exclusion.items()]
    took_s = sum(report.took_s for report in reports)
    each = ", ".join(f"{report.stage} {lasts(report.took_s)}" for report in reports)
    passed = f"{len(found.healthy)} of {len(found.nodes)} nodes pass"
    failing = found.failing.items()
    return Answer(
        "accept",
        result,
        found.exit_code,
        f"{found.inventory}: {result}: {passed}; {lasts(took_s)} ({each})",
        (AnswerTable("Figures", COLUMNS, tuple(found.figures), MOST_ROWS),),
        tuple(notes),
        took_s * len(found.nodes) / 3600,
        {
            "inventory": found.inventory,
            "healthy": found.healthy,
            "failing": {host: [asdict(fault) for fault in faults] for host, faults in failing},
            "faults": [asdict(fault) for fault in found.faults],
            "untested": found.untested,
            "leave_out": dict(found.exclusion),
            **asdict(found.state),
        },
    )


def planned(options: AcceptOptions, nodes: int, device: str) -> Answer:
    """Return how long each stage takes, here and on larger clusters."""
    counts = [nodes, *(size for size in SIZES if size > nodes and not options.node)]
    each = {f"{count}": options.expected_s(count, device) for count in counts}
    columns = {"stage": "stage", **{key: counted(int(key), "node") for key in each}}
    rows = [
        {"stage": stage, **{key: lasts(expected[stage]) for key, expected in each.items()}}
        for stage in each[f"{nodes}"]
    ]
    whole = {key: lasts(sum(expected.values())) for key, expected in each.items()}
    sentence = f"acceptance of {counted(nodes, 'node')}: about {whole[f'{nodes}']}"
    table = AnswerTable("", columns, (*rows, {"stage": "all", **whole}))
    return Answer("accept", "plan", PASSED, sentence, (table,), detail={"expected_s": each})


def junit(found: Found) -> str:
    """Return JUnit XML: a test case for each stage and node, and one for the whole."""
    suite = ElementTree.Element("testsuite", name=f"accept {found.inventory}")
    for report, host, faults, reason in _cases(found):
        case = ElementTree.SubElement(suite, "testcase", classname=report, name=host)
        for fault in faults:
            failure = ElementTree.SubElement(case, "failure", message=printable(fault.words))
            failure.text = printable(f"{fault.words}; {fault.cure}")
        if reason and not faults:
            ElementTree.SubElement(case, "skipped", message=printable(reason))
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def _cases(found: Found) -> Iterator[tuple[str, str, list[NodeFault], str]]:
    """Yield each stage with each node, and with the whole: faults, and why it was not tested."""
    lost: set[str] = set()
    for report in found.state.stages:
        lost |= set(report.lost)
        marks = (fault for fault in found.marks if fault.stage == report.stage)
        faults = [*report.faults, *marks]  # of the soak, too, which is a part of training
        reason = (*report.unanswered, "the node was left out")[0]
        for host in found.nodes:
            mine = [fault for fault in faults if host in fault.nodes]
            yield report.stage, host, mine, reason if host in lost else ""
        whole = [fault for fault in faults if not fault.nodes]
        yield report.stage, "cluster", whole, reason if report.unanswered else ""


def grouped(faults: Sequence[NodeFault]) -> list[tuple[str, str, str]]:
    """Return each fault once: on which nodes, unless its words begin with that; words; cure."""
    hosts_by_fault: dict[tuple[str, str], list[str]] = {}
    for fault in faults:
        hosts_by_fault.setdefault((fault.words, fault.cure), []).extend(fault.nodes)
    return [
        ("" if words.startswith(tuple(nodes)) else short(list(dict.fromkeys(nodes))), words, cure)
        for (words, cure), nodes in hosts_by_fault.items()
    ]


def _figures(stage: str, test: Mapping[str, Any]) -> dict[str, str]:
    figures, usual = test["figures"], test["reference"]
    name = f"training on {test['nodes']} nodes" if test.get("nodes", 1) > 1 else test["name"]
    row = {**dict.fromkeys(COLUMNS, ""), "stage": stage, "test": name, "unit": test["unit"]}
    if not figures:
        return {**row, "of": "0"}
    lowest = min(figures, key=lambda figure: figure["value"])
    hosts = lowest["nodes"]
    where = f"{len(hosts)} nodes" if len(hosts) > 2 else " with ".join(hosts)
    where += "" if lowest["device"] is None else f" device {lowest['device']}"
    less = lowest["value"] / usual - 1 if usual else 0.0
    noise = sorted(figure["noise"] for figure in figures)[len(figures) // 2]
    return row | {
        "of": str(len(figures)),
        "usual": rounded(usual),
        "lowest": rounded(lowest["value"]) + (f" ({less:+.0%})" if len(figures) > 1 else ""),
        "where": where,
        "noise": f"{noise:.1%}",
    }

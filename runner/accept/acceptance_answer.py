"""What accept answers: pass or fail of the cluster and of each node, with cause and cure. Pure."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table
from rich.text import Text

from node.printable import printable
from node.time_words import lasts
from runner.accept.acceptance import AcceptState, NodeFault
from runner.base.console import one_line
from runner.base.grid import ruled
from runner.doctor.differences import short
from runner.doctor.slow_figures import rounded
from runner.folder.stored import SCHEMA
from runner.terms.engines.engine_settings import EngineSettings
from runner.terms.engines.ssh import Ssh

PASSED, FAILED, UNANSWERED = 0, 1, 2
WORDS = {PASSED: "pass", FAILED: "fail", UNANSWERED: "not proved"}
_TITLES = ("stage", "test", "unit", "of", "usual", "lowest", "where", "noise")


@dataclass(frozen=True)
class AcceptAnswer:
    """The answer of one acceptance. `nodes` are all of the inventory that were asked."""

    inventory: str
    nodes: tuple[str, ...]
    state: AcceptState
    marks: tuple[NodeFault, ...] = ()
    engine: EngineSettings = field(default_factory=Ssh)

    @property
    def faults(self) -> list[NodeFault]:
        """All that is wrong, in the order of the stages."""
        return [
            *(fault for stage_report in self.state.stages for fault in stage_report.faults),
            *self.marks,
        ]

    @property
    def failing(self) -> Mapping[str, list[NodeFault]]:
        """Each node with faults, and these."""
        by_host = {
            host: [fault for fault in self.faults if host in fault.nodes] for host in self.nodes
        }
        return {host: faults for host, faults in by_host.items() if faults}

    @property
    def healthy(self) -> list[str]:
        """The nodes that every stage measured and of which none has a fault."""
        if not all(stage_report.measured for stage_report in self.state.stages):
            return []
        out = {*self.failing, *self.state.lost}
        return [host for host in self.nodes if host not in out]

    @property
    def unanswered(self) -> list[str]:
        """What was to be tested and was not."""
        requested = self.state.options.get("stages") or ()
        missing = [f"stage {key} has not ended" for key in requested if not self.state.report(key)]
        return [
            *missing,
            *(reason for stage_report in self.state.stages for reason in stage_report.unanswered),
        ]

    @property
    def untested(self) -> list[str]:
        """What this acceptance does not say."""
        left_out = [f"{test} (--leave-out)" for test in self.state.options.get("left_out") or ()]
        reasons = [reason for stage_report in self.state.stages for reason in stage_report.untested]
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
        return self.engine.without(failing) or {
            "--limit": f"all:{':'.join('!' + h for h in failing)}"
        }

    @property
    def rows(self) -> list[Mapping[str, Any]]:
        """All figures, a row for each test, with the stage that measured it."""
        return [
            {**test, "stage": stage_report.stage}
            for stage_report in self.state.stages
            for test in stage_report.tests
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the object that docs/how-to/accept.md describes."""
        return {
            "schema": SCHEMA,
            "inventory": self.inventory,
            "exit_code": self.exit_code,
            "result": WORDS[self.exit_code],
            "healthy": self.healthy,
            "failing": {host: [asdict(f) for f in faults] for host, faults in self.failing.items()},
            "faults": [asdict(fault) for fault in self.faults],
            "untested": self.untested,
            "leave_out": dict(self.exclusion),
            **asdict(self.state),
        }

    def junit(self) -> str:
        """Return JUnit XML: a test case for each stage and node, and one for the whole."""
        suite = ElementTree.Element("testsuite", name=f"accept {self.inventory}")
        lost: set[str] = set()
        for stage_report in self.state.stages:
            lost |= set(stage_report.lost)
            for host in (*self.nodes, "cluster"):
                case = ElementTree.SubElement(
                    suite, "testcase", classname=stage_report.stage, name=host
                )
                for fault in self.faults:
                    mine = host in fault.nodes or (host == "cluster" and not fault.nodes)
                    if fault.stage == stage_report.stage and mine:
                        text = printable(f"{fault.words}; {fault.cure}")
                        ElementTree.SubElement(
                            case, "failure", message=printable(fault.words)
                        ).text = text
                is_untested = host in lost or (host == "cluster" and stage_report.unanswered)
                if is_untested and case.find("failure") is None:
                    reason = (*stage_report.unanswered, "the node was left out")[0]
                    ElementTree.SubElement(case, "skipped", message=printable(reason))
        suite.set("tests", str(len(suite)))
        suite.set("failures", str(len(suite.findall("testcase/failure"))))
        suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
        return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)

    def parts(self, width: int) -> list[Table | Text | str]:
        """Return what a person reads."""
        parts: list[Table | Text | str] = []
        if self.rows:
            rows = [figure_cells(row) for row in self.rows]
            parts.append(
                ruled(_TITLES, rows, unbroken=len(_TITLES), right={"of", "usual", "noise"})
            )
        for where, description, cure in grouped(self.faults):
            parts.append(
                one_line(f"fault: {': '.join(filter(None, (where, description)))}", "bold red")
            )
            parts.append(one_line(f"       cure: {cure}"))
        for report in self.state.stages:
            parts += [one_line(f"note: {report.stage}: {note}") for note in report.notes]
        parts += [one_line(f"not tested: {reason}") for reason in self.untested]
        for key, value in self.exclusion.items():
            parts.append(one_line(f"to leave out failing nodes: {key} {value}"))
        parts.append(self._summary())
        return parts

    def _summary(self) -> Text:
        took = lasts(sum(stage_report.took_s for stage_report in self.state.stages))
        stages = ", ".join(
            f"{stage_report.stage} {lasts(stage_report.took_s)}"
            for stage_report in self.state.stages
        )
        result = WORDS[self.exit_code]
        count = f"{len(self.healthy)} of {len(self.nodes)} nodes pass"
        style = {PASSED: "green", FAILED: "bold red"}.get(self.exit_code, "yellow")
        return one_line(f"{self.inventory}: {result}: {count}; {took} ({stages})", style)


def grouped(faults: Sequence[NodeFault]) -> list[tuple[str, str, str]]:
    """Return each fault once: on which nodes, unless its words begin with that; words; cure."""
    hosts_by_fault: dict[tuple[str, str], list[str]] = {}
    for fault in faults:
        hosts_by_fault.setdefault((fault.words, fault.cure), []).extend(fault.nodes)
    return [
        (
            ""
            if any(description.startswith(host) for host in nodes)
            else short(list(dict.fromkeys(nodes))),
            description,
            cure,
        )
        for (description, cure), nodes in hosts_by_fault.items()
    ]


def figure_cells(row: Mapping[str, Any]) -> list[str]:
    """Return a test's row: its figures, the lowest, and where that was."""
    figures = row["figures"]
    name = row["name"]
    if row.get("nodes", 1) > 1:
        name = f"training on {row['nodes']} nodes"
    if not figures:
        return [row["stage"], name, row["unit"], "0", "", "", "", ""]
    lowest = min(figures, key=lambda figure: figure["value"])
    is_group = len(lowest["nodes"]) > 2
    where = f"{len(lowest['nodes'])} nodes" if is_group else " with ".join(lowest["nodes"])
    device = lowest["device"]
    where += "" if device is None else f" device {device}"
    less = lowest["value"] / row["reference"] - 1 if row["reference"] else 0.0
    low = rounded(lowest["value"]) + (f" ({less:+.0%})" if len(figures) > 1 else "")
    noise = sorted(figure["noise"] for figure in figures)[len(figures) // 2]
    usual = rounded(row["reference"])
    return [row["stage"], name, row["unit"], str(len(figures)), usual, low, where, f"{noise:.1%}"]

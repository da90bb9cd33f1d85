"""What accept answers: pass or fail of the cluster and of each node, with cause and cure. Pure."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import asdict
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
WHOLE = "cluster"  # where no node can be named


def answered(
    inventory: str,
    nodes: Sequence[str],
    state: AcceptState,
    marks: Sequence[NodeFault] = (),
    engine: EngineSettings | None = None,
) -> Answer:
    """Return the answer that docs/how-to/accept.md describes.

    `nodes` are all that were asked; `marks` judge their figures. A node is healthy if every stage
    measured it and none found a fault. The exit code is 1 with a fault, else 2 where something was
    to be tested and was not. `leave_out` is the inventory's key that does so, and its value.
    """
    reports, options = state.stages, state.options
    faults = [*(fault for report in reports for fault in report.faults), *marks]
    by_host = {host: [fault for fault in faults if host in fault.nodes] for host in nodes}
    failing = {host: mine for host, mine in by_host.items() if mine}
    out = {*failing, *state.lost}
    measured = all(report.measured for report in reports)
    healthy = [host for host in nodes if measured and host not in out]
    stages = [stage for stage in options.get("stages") or () if not state.report(stage)]
    untested = [f"stage {stage} has not ended" for stage in stages]
    untested += [reason for report in reports for reason in report.unanswered]
    code = FAILED if faults else UNANSWERED if untested else PASSED
    untested += [reason for report in reports for reason in report.untested]
    untested += [f"{test} (--leave-out)" for test in options.get("left_out") or ()]
    leave_out: Mapping[str, str] = {}
    if 0 < len(failing) < len(nodes):
        limit = {"--limit": f"all:{':'.join('!' + host for host in failing)}"}
        leave_out = (engine or Ssh()).without(list(failing)) or limit
    notes: list[str] = []
    for where, words, cure in grouped(faults):
        notes += [f"fault: {': '.join(filter(None, (where, words)))}", f"cure: {cure}"]
    notes += [f"note: {report.stage}: {note}" for report in reports for note in report.notes]
    notes += [f"not tested: {reason}" for reason in untested]
    notes += [f"to leave out failing nodes: {key} {value}" for key, value in leave_out.items()]
    took_s = sum(report.took_s for report in reports)
    each = ", ".join(f"{report.stage} {lasts(report.took_s)}" for report in reports)
    passed = f"{len(healthy)} of {len(nodes)} nodes pass"
    figures = tuple(_figures(report.stage, test) for report in reports for test in report.tests)
    return Answer(
        "accept",
        WORDS[code],
        code,
        f"{inventory}: {WORDS[code]}: {passed}; {lasts(took_s)} ({each})",
        (AnswerTable("Figures", COLUMNS, figures, MOST_ROWS),),
        tuple(notes),
        took_s * len(nodes) / 3600,
        {
            "inventory": inventory,
            "healthy": healthy,
            "failing": {host: [asdict(fault) for fault in mine] for host, mine in failing.items()},
            "faults": [asdict(fault) for fault in faults],
            "untested": untested,
            "leave_out": dict(leave_out),
            **asdict(state),
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


def junit(answer: Answer, nodes: Sequence[str]) -> str:
    """Return JUnit XML: a test case for each stage and node, and one for the whole."""
    detail = answer.detail
    suite = ElementTree.Element("testsuite", name=f"accept {detail['inventory']}")
    of_stages = [fault for report in detail["stages"] for fault in report["faults"]]
    marks = detail["faults"][len(of_stages) :]
    lost: set[str] = set()
    for report in detail["stages"]:
        stage, unanswered = report["stage"], report["unanswered"]
        lost |= set(report["lost"])
        out = lost | ({WHOLE} if unanswered else set())
        reason = printable((*unanswered, "the node was left out")[0])
        # Faults of the soak, too, which is a part of stage training.
        faults = [*report["faults"], *(mark for mark in marks if mark["stage"] == stage)]
        for host in (*nodes, WHOLE):
            case = ElementTree.SubElement(suite, "testcase", classname=stage, name=host)
            mine = [fault for fault in faults if host in (fault["nodes"] or (WHOLE,))]
            for fault in mine:
                words, cure = printable(fault["words"]), printable(fault["cure"])
                failure = ElementTree.SubElement(case, "failure", message=words)
                failure.text = f"{words}; {cure}"
            if host in out and not mine:
                ElementTree.SubElement(case, "skipped", message=reason)
    counts = {"tests": "testcase", "failures": "testcase/failure", "skipped": "testcase/skipped"}
    for name, path in counts.items():
        suite.set(name, str(len(suite.findall(path))))
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


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

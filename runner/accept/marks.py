"""Figures against what a person wrote, and against earlier acceptances of the same nodes.

    # marks.yaml: the lowest figure of a test that passes, and where that is from
    matmul_bf16: {at_least: 600, source: "contract of 2026-05, table 2"}
    pair: {at_least: 40}

Keys are tests, as answer.json has them. Nothing is shipped: a mark needs a source.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from node.schema import Fields, Number, Text, UnfitError
from runner.accept.acceptance import AcceptState, NodeFault
from runner.accept.remedies import remedy
from runner.accept.scope import AcceptOptions
from runner.base.errors import UserError
from runner.doctor.outliers import is_low
from runner.doctor.probe_tests import TESTS, floor_of
from runner.doctor.slow_figures import location, rounded
from runner.matrix.dialect import read_file, read_yaml

MARK = Fields({"at_least": Number(0)}, {"source": (Text(most=500), "")})
MEANWHILE = "; other work had the node's cores meanwhile: it says nothing of the node"
KEPT = 5  # earlier acceptances that are compared with


def load_marks(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """Read a file of marks. Raises UserError that names the key."""
    content = read_yaml(read_file(path, "a file of marks"), str(path))
    if not isinstance(content, dict):
        raise UserError(f"{path} holds no marks; write one as `pair: {{at_least: 40}}`")
    marks = {}
    for test, mark in content.items():
        if test not in TESTS:
            raise UserError(f"{path}: unknown test {test!r}; tests are {', '.join(TESTS)}")
        try:
            marks[test] = MARK.check(mark, f"{path}: {test}")
        except UnfitError as error:
            raise UserError(str(error)) from None
    return marks


def figures_of(state: AcceptState) -> Iterator[tuple[str, str, Mapping[str, Any], Any]]:
    """Yield each figure with its stage, what it is, and its test: of training with the size."""
    for report in state.stages:
        for test in report.tests:
            for figure in test["figures"]:
                size = f" on {test['nodes']} nodes" if "nodes" in test else ""
                where = location(figure["nodes"], figure["device"])
                yield report.stage, f"{test['test']}{size}", figure, where


def measured(test: str, figure: Mapping[str, Any]) -> tuple[object, ...]:
    """Return what was measured: the test, and all of its nodes, of which a label names a few."""
    return test, tuple(figure["nodes"]), figure["device"]


def accused(figure: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the node whose own figure it is, unless other work had its cores."""
    own = len(figure["nodes"]) == 1 and not figure.get("busy")
    return tuple(figure["nodes"]) if own else ()


def against_marks(state: AcceptState, marks: Mapping[str, Mapping[str, Any]]) -> list[NodeFault]:
    """Return figures below what a person asks for."""
    faults = []
    for stage, test, figure, where in figures_of(state):
        mark = marks.get(test.split()[0])
        if mark is None or figure["value"] >= mark["at_least"]:
            continue
        name, unit = TESTS[test.split()[0]]
        source = f" ({mark['source']})" if mark.get("source") else ""
        description = f"{where}: {name} {rounded(figure['value'])} {unit}, the mark is"
        description += f" {rounded(mark['at_least'])}{source}"
        description += MEANWHILE if figure.get("busy") else ""
        faults.append(NodeFault(stage, "mark", accused(figure), description, remedy("mark")))
    return faults


def against_earlier(state: AcceptState, earlier: Sequence[AcceptState]) -> list[NodeFault]:
    """Return figures that are lower than those of the same place in earlier acceptances.

    By more than healthy figures differ, and by more than noise explains. Acceptances with other
    options do not count; what is no option any more is passed over.
    """
    known = AcceptOptions.__dataclass_fields__.keys()
    alike = [
        state_before
        for state_before in earlier
        if {key: value for key, value in state_before.options.items() if key in known}
        == dict(state.options)
    ][-KEPT:]
    values: dict[tuple[object, ...], list[float]] = {}
    for state_before in alike:
        for _, test, figure, _ in figures_of(state_before):
            if not figure["slow"]:
                values.setdefault(measured(test, figure), []).append(figure["value"])
    count = len(values)
    faults = []
    for stage, test, figure, where in figures_of(state):
        before = values.get(measured(test, figure))
        if before is None or figure["slow"]:
            continue
        usual = statistics.median(before)
        device = str(state.options.get("device") or "cpu")
        apart = (max(before) - min(before)) / usual if usual else 0.0
        floor = floor_of(test.split()[0], device)
        if is_low(figure["value"], usual, figure["noise"], 0.0, max(floor, apart), count):
            name, unit = TESTS[test.split()[0]]
            description = (
                f"{where}: {name} {rounded(figure['value'])} {unit}, in earlier acceptances"
            )
            description += f" {rounded(usual)}{MEANWHILE if figure.get('busy') else ''}"
            cure = remedy("regression")
            faults.append(NodeFault(stage, "regression", accused(figure), description, cure))
    return faults

"""Figures against what a person wrote, and against earlier acceptances of the same nodes.

    # marks.yaml: the lowest figure of a test that passes, and where that is from
    matmul_bf16: {at_least: 600, source: "contract of 2026-05, table 2"}
    pair: {at_least: 40}

Keys are tests, as answer.json has them. Nothing is shipped: a mark needs a source.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
Marks = Mapping[str, Mapping[str, Any]]


def load_marks(path: Path) -> Marks:
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


@dataclass(frozen=True)
class Measured:
    """A figure as answer.json has it, and whose it is: `nodes` are a group's that trained."""

    stage: str
    test: str
    nodes: int | None
    figure: Mapping[str, Any]

    @property
    def place(self) -> tuple[object, ...]:
        """What was measured, with all of its nodes, of which a label names a few."""
        return self.test, self.nodes, tuple(self.figure["nodes"]), self.figure["device"]

    def fault(self, kind: str, words: str) -> NodeFault:
        """Return it as a fault: of the node whose own it is, unless other work had its cores."""
        hosts, busy = tuple(self.figure["nodes"]), self.figure.get("busy")
        name, unit = TESTS[self.test]
        where = location(hosts, self.figure["device"])
        words = f"{where}: {name} {rounded(self.figure['value'])} {unit}, {words}"
        words += MEANWHILE if busy else ""
        own = hosts if len(hosts) == 1 and not busy else ()
        return NodeFault(self.stage, kind, own, words, remedy(kind))


def measured(state: AcceptState) -> Iterator[Measured]:
    """Yield each figure of an acceptance."""
    for report in state.stages:
        for test in report.tests:
            for figure in test["figures"]:
                yield Measured(report.stage, test["test"], test.get("nodes"), figure)


def against_marks(state: AcceptState, marks: Marks) -> list[NodeFault]:
    """Return figures below what a person asks for."""
    faults = []
    for one in measured(state):
        mark = marks.get(one.test)
        if mark is not None and one.figure["value"] < mark["at_least"]:
            source = f" ({mark['source']})" if mark.get("source") else ""
            faults.append(one.fault("mark", f"the mark is {rounded(mark['at_least'])}{source}"))
    return faults


def against_earlier(state: AcceptState, earlier: Sequence[AcceptState]) -> list[NodeFault]:
    """Return figures that are lower than those of the same place in earlier acceptances.

    By more than healthy figures differ, and by more than noise explains. Acceptances with other
    options do not count; what is no option any more is passed over.
    """
    known, options = AcceptOptions.__dataclass_fields__.keys(), dict(state.options)
    alike = [
        before
        for before in earlier
        if {key: value for key, value in before.options.items() if key in known} == options
    ]
    values: dict[tuple[object, ...], list[float]] = {}
    for before in alike[-KEPT:]:
        for one in measured(before):
            if not one.figure["slow"]:
                values.setdefault(one.place, []).append(one.figure["value"])
    device = str(options.get("device") or "cpu")
    faults = []
    for one in measured(state):
        known_values = values.get(one.place)
        if known_values is None or one.figure["slow"]:
            continue
        usual = statistics.median(known_values)
        apart = (max(known_values) - min(known_values)) / usual if usual else 0.0
        floor, noise = max(floor_of(one.test, device), apart), one.figure["noise"]
        if is_low(one.figure["value"], usual, noise, 0.0, floor, len(values)):
            faults.append(one.fault("regression", f"in earlier acceptances {rounded(usual)}"))
    return faults

"""What the searches of pretended nodes decide, run by run: tests/golden/decisions.txt holds it.

Each line is a scenario: what ran, in this order, then what came out. A change of the policy is
recorded anew by `python -m tests.runner.study.test_decisions`.
"""

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.runner.tune.pretended import Behaviour, Tuning, steady, tune_matrix
from tests.runner.tune.test_search_on_nodes import plain
from tests.runner.versions.test_bisect import Bisection
from tests.runner.versions.test_ci import NEW, Ci

GOLDEN = ROOT / "tests" / "golden" / "decisions.txt"


def equal(values: Mapping[str, Any], number: int) -> Behaviour:
    return steady(0.5, memory_mib=80 if values["zero_stage"] == 1 else 100)


def losing(values: Mapping[str, Any], number: int) -> Behaviour:
    if (values["micro_batch_size"], values["zero_stage"], number) == (8, 0, 0):
        return steady(9.0, iterations=3, halt={"cause": "node_lost", "message": "n1: gone"})
    return plain(values, number)


SEARCHES: Mapping[str, tuple[Callable[[Mapping[str, Any], int], Behaviour], dict[str, Any]]] = {
    "tune": (plain, {}),
    "tune, a lost node": (losing, {}),
    "tune, a budget": (plain, {"budget": 1e-9}),
    "tune, equals": (equal, {"matrix": tune_matrix({"zero_stage": [0, 1]})}),
}


def ran(words: Iterable[object]) -> str:
    return " ".join(map(str, words))


def scenarios(folder: Path) -> Iterator[str]:
    """Search, and yield what was decided."""
    for name, (behave, options) in SEARCHES.items():
        tuning = Tuning(folder / name, behave, **options)
        tuned = tuning.go().detail
        runs = ("/".join(map(str, axes.values())) for axes in tuning.runs)
        yield f"{name}: {ran(runs)} -> {tuned['why']} {tuned['winner']}"
    for name, slow, broken, fails in (
        ("bisect", 7, set(), set()),
        ("bisect, no change", None, set(), set()),
        ("bisect, broken ones", 7, {6, 7}, {5}),
        ("bisect, a broken end", 7, {12}, set()),
    ):
        (folder / name).mkdir()
        bisection = Bisection(folder / name, slow)
        bisection.broken, bisection.fails = broken, fails
        found = bisection.go().detail
        pairs = (str(bisection.place(pin)) for pin in bisection.nodes.ran)
        named = f"{found['earliest']} to {found['final']} {found['probability']:.4f}"
        ends = found["ends"] and f"{found['ends']['percent']:.3f}"
        yield f"{name}: {ran(pairs)} -> {named} {found['no_change']:.4f} {ends}"
    for name, slower, pairs_asked, failing in (
        ("ci, slower", 1.1, 4, set()),
        ("ci, equal", 1.0, 8, set()),
        ("ci, failing", 1.0, 2, {NEW[:12]}),
    ):
        ci = Ci(folder / name)
        ci.slower, ci.fails = slower, failing
        result = ci.go(pairs=pairs_asked)
        cells = (result.detail["comparison"] or {"cells": []})["cells"]
        measures = [cell["measures"]["samples_per_s"] for cell in cells]
        figures = (f"{m['difference_percent']:.3f} {m['noise_percent'] or 0:.3f}" for m in measures)
        yield f"{name}: {ran(pin[-1] for pin in ci.nodes.ran)} -> {result.verdict} {ran(figures)}"


def test_the_same_searches_decide_the_same(tmp_path: Path) -> None:
    held = GOLDEN.read_text(encoding="utf-8").splitlines()
    assert [line.rstrip() for line in scenarios(tmp_path)] == held


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        lines = [line.rstrip() for line in scenarios(Path(name))]
    sys.stdout.write("".join(f"{line}\n" for line in lines))

"""Bars of throughput: samples/s with their interval, and why there is none."""

from dataclasses import replace
from typing import Any

from runner.figures.between_runs import ONE_RUN
from runner.report.groups import Group
from runner.report.page import to_html
from runner.report.plots import shared_in_title, throughput_bars
from runner.terms.record import Interval, Measurement, Record
from tests.runner.documents import document_of, rows
from tests.runner.report.test_conclusion import thrice
from tests.runner.report.test_report import failed, record


def bars(*records: Record) -> list[dict[str, Any]]:
    (group,) = throughput_bars(rows(records, None)) or []
    return list(group["bars"])


def test_the_line_spans_the_interval_and_the_title_says_it() -> None:
    noisy = tuple(Interval(n, 1, None, 230.0 + n % 7 - 3, 9.0, 1.0) for n in range(1, 41))
    (bar,) = bars(*thrice([record(measurement=Measurement(noisy))]))
    low = float(bar["low"])
    assert low < float(bar["length"]) < low + float(bar["span"]) + 0.01 <= 100.01
    assert "samples/s (95 % interval 2" in bar["title"]
    assert bar["lacks"] == ""


def test_a_single_run_has_no_interval_and_the_page_says_so() -> None:
    (bar, other) = bars(record("single"), *thrice([record("three")]))
    assert (bar["low"], bar["span"], bar["lacks"]) == (None, None, ONE_RUN)
    assert other["low"] is not None
    assert to_html(document_of([record("single")])).count(f"no interval: {ONE_RUN}") == 2


def test_a_cell_without_a_number_says_its_status_and_none_at_all_draws_nothing() -> None:
    bar, _ = bars(failed(record("bad")), record())
    assert (bar["rate"], bar["status"]) == (None, "did_not_run")
    assert throughput_bars(rows([failed(record("bad"))], None)) is None
    assert throughput_bars(rows([replace(record(), status="pending")], None)) is None


def test_what_all_names_of_a_group_have_stands_in_its_title() -> None:
    names = ("nodes 1, lr 0.1, model a", "nodes 2, lr 0.1, model a")
    group = shared_in_title(Group("zero_stage 0", (0, 1), names))
    assert group == Group("zero_stage 0, lr 0.1, model a", (0, 1), ("nodes 1", "nodes 2"))
    for kept in (("nodes 1", "nodes 2"), ("nodes 1",), ("nodes 1, lr 2", "lr 2")):
        group = Group("zero_stage 0", tuple(range(len(kept))), kept)
        assert shared_in_title(group) == group

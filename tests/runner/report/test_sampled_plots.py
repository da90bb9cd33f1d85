"""Utilisation, power and memory over time: drawn where they were sampled, and no empty axes."""

from dataclasses import replace

from runner.terms.record import Record
from tests.runner.documents import render
from tests.runner.report.test_report import record

RISES = ((0.0, 10.0), (1.0, 60.0), (2.0, 70.0))


def with_samples(**curves: object) -> Record:
    base = record()
    return replace(base, measurement=replace(base.measurement, **curves))  # type: ignore[arg-type]


def test_each_quantity_that_was_sampled_has_its_plot_and_no_other() -> None:
    page = render([with_samples(power_w={0: RISES, 1: RISES})], "html")
    assert 'aria-label="power, W over s, one line per node"' in page
    assert page.count("<title>n1-zero0: node ") == 2
    for words in ("busy, %", "memory, MiB over s", "<h3>Utilisation", "<h3>Memory in use"):
        assert words not in page


def test_all_three() -> None:
    all_of_them = {"busy": {0: RISES}, "power_w": {0: RISES}, "memory_mib": {0: RISES}}
    page = render([with_samples(**all_of_them)], "html")
    for title in ("Utilisation", "Power", "Memory in use"):
        assert f"<h3>{title}</h3>" in page
    none = {name: {0: ()} for name in all_of_them}
    assert " over s," not in render([with_samples(**none)], "html")

"""The report's section on goodput: energy lost or why it is missing, predictions with chance."""

from dataclasses import replace

from runner.terms.record import Record
from runner.terms.story import LostEnergy
from tests.runner.documents import render
from tests.runner.report.test_conclusion import faulted
from tests.runner.report.test_report import Page


def with_energy(runs: list[Record], lost: LostEnergy) -> list[Record]:
    return [replace(run, story=run.story and replace(run.story, lost_energy=lost)) for run in runs]


def words(records: list[Record]) -> str:
    return " ".join(" ".join(Page(render(records, "html")).text).split())


def test_energy_lost_has_its_joules_or_its_reason() -> None:
    told = with_energy(faulted("a", "restart", (2.0, 2.1)), LostEnergy(1234.0, 12.5, 100.0))
    untold = with_energy(faulted("b", "spare", (2.0, 2.1)), LostEnergy(missing="no sensor"))
    text = words([*told, *untold])
    assert "a : 1234.0 ±0.0 J of a run, 12.5 % of what its devices took" in text
    assert "b : no result: no sensor" in text
    assert "is the fastest" not in text
    assert "Recovery restart (83.0 % ± 4.4) and spare (83.0 % ± 4.4) have the same goodput" in text


def test_a_prediction_says_what_its_interval_is() -> None:
    text = words(faulted("a", "restart", (2.0, 2.1)))
    assert "± the 95 % range that chance alone gives the mean of that many runs" in text

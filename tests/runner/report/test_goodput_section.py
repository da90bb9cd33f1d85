"""The report's section on goodput compares recovery policies."""

from tests.runner.documents import render
from tests.runner.report.test_conclusion import faulted
from tests.runner.report.test_report import Page


def test_two_policies_alike_in_goodput_are_called_the_same_and_none_the_fastest() -> None:
    records = [*faulted("a", "restart", (2.0, 2.1)), *faulted("b", "spare", (2.0, 2.1))]
    text = " ".join(" ".join(Page(render(records, "html")).text).split())
    assert "is the fastest" not in text
    assert "Recovery restart (83.0 % ± 4.4) and spare (83.0 % ± 4.4) have the same goodput" in text

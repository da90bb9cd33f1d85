"""The page's section on goodput."""

import re

from tests.runner.documents import render
from tests.runner.report.test_conclusion import faulted
from tests.runner.report.test_report import Page


def test_each_cell_with_a_fault_has_its_share_and_none_is_called_the_fastest() -> None:
    records = [*faulted("a", "restart", (2.0, 2.1)), *faulted("b", "spare", (2.0, 2.1))]
    text = " ".join(" ".join(Page(render(records, "html")).text).split())
    assert "is the fastest" not in text
    section = text.partition("Where the time of a run went")[2].partition("Attempts")[0]
    assert len(re.findall(r"83\.0 % of 12 s", section)) == 2

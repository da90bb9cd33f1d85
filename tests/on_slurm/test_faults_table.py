"""The table of faults on Slurm in docs/reliability.md has the suite's faults, all of them."""

import re

from runner.base.paths import PROJECT
from tests.on_slurm.faults import FAULTS


def test_the_documents_table_has_the_suites_faults_and_how_they_must_end() -> None:
    text = (PROJECT / "docs" / "reliability.md").read_text()
    section = text.partition("## On Slurm\n")[2].partition("\n## ")[0]
    rows = [re.split(r"\s*\|\s*", line)[1:4] for line in section.splitlines() if line[:2] == "| "]
    named = [(name, (status, cause)) for name, status, cause in rows[2:]]
    assert [name for name, _ in named] == [fault.name for fault in FAULTS]
    odd = [name for (name, end), fault in zip(named, FAULTS, strict=True) if end not in fault.ends]
    assert odd == []

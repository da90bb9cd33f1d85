"""A profiler's trace is linked where it lies: from a campaign's report, and from no site."""

from pathlib import Path

import pytest

from runner.__main__ import main
from runner.folder.names import ATTEMPTS
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, torch_gpt, write

TRACE = "profile/rank0.json.gz"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    matrix = small_matrix({"profile": ["none", "torch"]})
    made = write(tmp_path / "runs", matrix, small_cluster(), lambda *_: Story({0: torch_gpt(50)}))
    for attempt in made.path.glob(ATTEMPTS):
        trace = attempt / "nodes" / "0000-n1" / TRACE
        trace.parent.mkdir()
        trace.write_bytes(b"\x1f\x8b")
    return tmp_path / "runs"


def test_a_traced_cells_report_links_it(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.html"
    assert main(["collect", "--runs", str(runs), "--format", "html", "--output", str(report)]) == 0
    assert report.read_text().count(f'{TRACE}">') == 1
    capsys.readouterr()
    assert main(["collect", "--runs", str(runs), "--strict"]) == 1
    refused = capsys.readouterr().err.splitlines()
    assert sum("profiled" in line and "profile=torch" in line for line in refused) == 1

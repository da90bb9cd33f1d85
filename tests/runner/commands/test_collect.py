"""`collect --strict`, and the verdict in every format."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.__main__ import main
from runner.folder import names
from runner.folder.stored import write_json
from runner.terms.cell import Cell
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import OUT_OF_MEMORY, Story, torch_gpt, write

Written = Callable[[Callable[[Cell, int], Story]], Path]


@pytest.fixture
def campaign(tmp_path: Path) -> Written:
    def of(story: Callable[[Cell, int], Story]) -> Path:
        matrix = small_matrix({"zero_stage": [0, 1]}, {"nodes": 2}, repeats=3)
        return write(tmp_path, matrix, small_cluster(), story).path

    return of


def collect(path: Path, *more: str) -> int:
    return main(["collect", "--campaign", str(path), *more])


def test_a_campaign_that_may_be_published_passes(
    campaign: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    path = campaign(lambda cell, repeat: Story({0: torch_gpt(50)}))
    assert collect(path, "--strict") == 0
    shown = capsys.readouterr()
    assert "verdict publishable" in shown.out
    assert "Publishable:" not in shown.out
    assert shown.err == ""


def test_what_a_failed_cell_does_not_have_is_not_common_to_all(
    campaign: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    """`common: verdict publishable` stood above a table with a cell that had failed."""

    def story(cell: Cell, repeat: int) -> Story:
        if cell.parameters["zero_stage"] == 0:
            return Story({0: torch_gpt(50)})
        halt = {"cause": "exit", "host": "n2", "message": "n2: exit code 1"}
        return Story({0: torch_gpt(3, of=50), 1: OUT_OF_MEMORY}, halt)

    assert collect(campaign(story), "--notes") == 0
    shown = capsys.readouterr().out
    assert "verdict publishable" not in " ".join(shown.split())
    assert "Publishable: 1 of 2 cells" in shown


def test_strict_says_which_cells_may_not_and_why(
    campaign: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    def story(cell: Cell, repeat: int) -> Story:
        if cell.parameters["zero_stage"] == 0:
            return Story({0: torch_gpt(50)})
        if repeat == 3:
            halt = {"cause": "exit", "host": "n2", "message": "n2: exit code 1"}
            return Story({0: torch_gpt(3, of=50), 1: OUT_OF_MEMORY}, halt)
        return Story({0: torch_gpt(50, rate=100.0 + 10 * repeat)})

    path = campaign(story)
    assert collect(path) == 0
    capsys.readouterr()
    assert collect(path, "--strict") == 1
    shown = capsys.readouterr()
    assert shown.err.splitlines() == [
        "not publishable: zero_stage=1: not_ok: 2 of 3 repeats ended ok; wide_spread: the repeats"
        " span 8.7 % (more than 5 %); few_repeats: 2 repeats"
    ]
    assert "failed: n2: exit code 1" in shown.out
    assert re.search(r"114\.8 ± [\d.]+§", shown.out)
    for format in (["table", "--notes"], ["markdown"], ["html"]):
        assert collect(path, "--format", *format) == 0
        text = " ".join(capsys.readouterr().out.replace("&#39;", "'").split())
        assert "Publishable: 1 of 2 cells" in text
        assert "few_repeats: 2 repeats (zero_stage=1). Set repeats to 3 or more." in text
    assert collect(path, "--format", "csv") == 0
    verdicts = [row["verdict"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))]
    assert verdicts == ["publishable", "not_ok;wide_spread;few_repeats"]
    assert collect(path, "--format", "json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["verdict"] for row in rows] == verdicts
    assert rows[1]["verdict_reasons"]["few_repeats"] == "2 repeats"


def test_runs_side_by_side_and_on_other_nodes_are_read_from_the_folder(
    campaign: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    path = campaign(lambda cell, repeat: Story({0: torch_gpt(50)}))
    last = next(path.glob("zero_stage=1*/repeat3/attempt1"))
    run = (last / names.RUN).read_text()
    (last / names.RUN).write_text(run.replace('"n1"', '"n7"'))
    (last / "nodes/0000-n1").rename(last / "nodes/0000-n7")
    ended = json.loads((last / names.OUTCOME).read_text())
    first = next(path.glob("zero_stage=0*/repeat1/attempt1"))
    began = json.loads((first / names.OUTCOME).read_text())["started_at"]
    (last / names.OUTCOME).write_text(json.dumps({**ended, "started_at": began + 5}))
    assert collect(path, "--format", "json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert rows[0]["verdict"] == "shared_nodes;other_nodes"
    assert rows[1]["verdict_reasons"] == {
        "shared_nodes": "zero_stage=0 ran on one of its nodes at the same time",
        "other_nodes": "ran on n1, n2, repeat 3 on n7, n2",
    }


def test_nodes_that_only_the_job_knew_stand_in_the_table(
    campaign: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Slurm gave them; the second cell ran beside the first, on others."""
    path = campaign(lambda cell, repeat: Story({0: torch_gpt(50)}))
    for place in path.glob(f"*/*/*/{names.RUN}"):
        last = place.parents[2].name.startswith("zero_stage=1")
        hosts = ["gpu7", "gpu8"] if last else ["gpu1", "gpu2"]
        content = {"host": hosts, "address": hosts, "devices": [[0], [0]], "cpus": [1, 1]}
        write_json(place.with_name(names.PLACEMENT), {**content, "port": 20_000})
    ended = [next(path.glob(f"zero_stage={n}*/repeat1/attempt1/{names.OUTCOME}")) for n in (0, 1)]
    began = json.loads(ended[0].read_text())["started_at"]
    write_json(ended[1], {**json.loads(ended[1].read_text()), "started_at": began})
    assert collect(path, "--format", "json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["hosts"] for row in rows] == [[["gpu1", "gpu2"]], [["gpu7", "gpu8"]]]
    assert rows[1]["runs"][0]["hosts"] == ["gpu7", "gpu8"]
    beside = "zero_stage=0 ran at the same time on other nodes of the cluster"
    assert rows[1]["verdict_reasons"]["side_by_side"] == beside
    assert rows[1]["verdict_reasons"]["other_nodes"].startswith("ran on gpu7, gpu8, zero_stage=0")
    assert collect(path, "--wide") == 0
    assert "gpu7, gpu8" in capsys.readouterr().out


def test_a_documents_figures_cannot_be_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", "--published", "x.yaml", "--shape", "osdi", "--strict"]) == 2
    assert "no --format html or --strict" in capsys.readouterr().err


def test_a_page_has_whole_logs_up_to_a_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix = small_matrix({"zero_stage": [0, 1]}, {"nodes": 2})
    write(tmp_path, matrix, small_cluster(), lambda cell, repeat: Story({0: torch_gpt(20)}))

    def page(*words: str) -> str:
        target = tmp_path / "report.html"
        words = ("--runs", str(tmp_path), "--format", "html", "--output", str(target), *words)
        assert main(["collect", *words]) == 0
        return target.read_text(encoding="utf-8")

    assert page().count("<template ") == 2
    assert page("--logs", "0").count("<template ") == 0
    tiny = page("--logs", "0.0001")
    assert tiny.count("<template ") == 0
    assert tiny.count("Logs that did not fit into this page") == 1
    for words in (["--logs", "-1", "--format", "html"], ["--logs", "much", "--format", "html"]):
        with pytest.raises(SystemExit):
            main(["collect", *words])
        assert "is not a size in MiB" in capsys.readouterr().err
    assert main(["collect", "--runs", str(tmp_path), "--logs", "1"]) == 2
    assert "it needs --format html" in capsys.readouterr().err

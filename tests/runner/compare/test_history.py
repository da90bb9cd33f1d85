"""Campaigns of many nights: series, changes with what changed there, regressions, the command."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from runner.__main__ import main
from runner.archive.export import export
from runner.base.errors import UserError
from runner.compare.quantity import standard_error_percent
from runner.compare.reading import (
    IMPORTED,
    REDACTED,
    CampaignPoints,
    Series,
    all_series,
    read_all,
    sources,
)
from runner.compare.regressions import Regression, counts, regressions
from runner.folder import names
from runner.folder.campaign import Campaign
from runner.tables.row import finished
from runner.terms.cell import Cell
from tests.runner.many_campaigns import nights, steady, stepping
from tests.runner.rows import row_of, runs_of, with_more

NIGHTS = 9
STEP = 6


def second(cell: Cell) -> bool:
    return bool(cell.parameters["zero_stage"] == 1)


def kernel(night: int) -> str:
    return "Linux 6.5.0" if night >= STEP else "Linux 6.1.0"


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine nights of two cells; from the seventh on one is a tenth slower, on another kernel."""
    runs = tmp_path_factory.mktemp("slower")
    nights(runs, NIGHTS, stepping(STEP, -10, second), kernel=kernel)
    return runs


def read(*given: Path) -> tuple[list[CampaignPoints], list[Series], list[Regression]]:
    campaigns, _ = read_all(sources(given))
    every = all_series(campaigns)
    return campaigns, every, regressions(every, campaigns)


def test_a_planted_regression_is_found_with_what_changed_there(slower: Path) -> None:
    campaigns, every, found = read(slower)
    assert [campaign.name for campaign in campaigns] == [f"speed-{n:02d}-rack" for n in range(9)]
    assert [len(series) for series in every] == [NIGHTS, NIGHTS]
    (one,) = found
    assert (one.word, one.quantity, one.open) == ("slower", "samples_per_s", True)
    assert one.cell == "zero_stage=1"
    assert one.first.campaign == campaigns[STEP].id
    assert one.last.campaign == campaigns[STEP - 1].id
    assert one.as_data()["change_percent"] == pytest.approx(-10, abs=1)
    assert one.differs == (("node kernel", "Linux 6.1.0", "Linux 6.5.0"),)


def test_planted_noise_is_no_regression(tmp_path: Path) -> None:
    nights(tmp_path, NIGHTS, steady(sigma=1.5))
    assert read(tmp_path)[2] == []


def test_one_that_recovered_is_no_longer_open_and_its_id_stays(
    tmp_path: Path, slower: Path
) -> None:
    for path in slower.iterdir():
        shutil.copytree(path, tmp_path / path.name)
    (before,) = read(tmp_path)[2]

    def back(night: int, cell: Cell) -> float:
        return steady()(night, cell) * (0.9 if STEP <= night < NIGHTS and second(cell) else 1)

    nights(tmp_path / "more", 13, back)
    for path in sorted((tmp_path / "more").iterdir())[NIGHTS:]:
        shutil.move(path, tmp_path / path.name)
    shutil.rmtree(tmp_path / "more")
    _, _, (after,) = read(tmp_path)
    assert (before.open, after.open) == (True, False)
    assert before.id == after.id


def test_a_cell_that_broke_is_one_until_it_ends_ok_again(tmp_path: Path) -> None:
    nights(tmp_path, 4, steady(), fails=lambda night, cell: night == 2 and second(cell))
    _, every, (broke,) = read(tmp_path)
    assert (broke.word, broke.open, broke.quantity) == ("broke", False, None)
    assert "memory ran out" in broke.reason
    assert [counts(point, "samples_per_s") for point in every[1]] == [True, True, False, True]


def test_imports_are_shown_and_not_judged(tmp_path: Path) -> None:
    for campaign in nights(tmp_path, NIGHTS, stepping(STEP, -10, second)):
        path = campaign.path / names.CAMPAIGN
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "imported": True}))
    campaigns, every, found = read(tmp_path)
    assert found == []
    assert campaigns[0].marks == (IMPORTED,)
    assert not any(counts(point, "samples_per_s") for point in every[0])


def test_a_redacted_export_is_marked_counts_and_has_no_names_to_compare(
    slower: Path, tmp_path: Path
) -> None:
    for path in sorted(slower.iterdir()):
        export(Campaign(path), tmp_path / f"{path.name}.tar.gz", redact=True)
    campaigns, every, (one,) = read(tmp_path)
    assert {campaign.marks for campaign in campaigns} == {(REDACTED,)}
    assert all("nodes" not in point.facts for series in every for point in series)
    assert one.differs == (("node kernel", "Linux 6.1.0", "Linux 6.5.0"),)


def test_what_cannot_be_read_and_what_is_there_twice_is_left_out(
    slower: Path, tmp_path: Path
) -> None:
    shutil.copytree(slower / "speed-00-rack", tmp_path / "a")
    shutil.copytree(slower / "speed-00-rack", tmp_path / "b")
    shutil.copytree(slower / "speed-01-rack", tmp_path / "bad")
    (tmp_path / "bad" / names.CAMPAIGN).write_text("{")
    (tmp_path / "no.tar.gz").write_bytes(b"\x1f\x8bno")
    campaigns, left_out = read_all(sources([tmp_path]))
    # A copy under another name is another campaign's name, and so another campaign.
    assert [campaign.name for campaign in campaigns] == ["a", "b"]
    reasons = dict(left_out)
    assert set(reasons) == {"bad", "no.tar.gz"}
    assert "is not JSON" in reasons["bad"]
    assert str(tmp_path) not in " ".join(reasons.values())
    export(Campaign(tmp_path / "a"), tmp_path / "a.tar.gz", redact=False)
    _, left_out = read_all(sources([tmp_path]))
    assert "the same campaign as a" in dict(left_out)["a.tar.gz"]


def test_sources_that_hold_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no file or folder"):
        sources([tmp_path / "nowhere"])
    with pytest.raises(UserError, match="holds no campaign in which anything ran"):
        sources([tmp_path])


def test_the_command_lists_and_strict_fails(
    slower: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["history", str(slower)]) == 0
    shown = capsys.readouterr().out
    assert "slower (samples/s)" in shown
    assert "node kernel: Linux 6.1.0, then Linux 6.5.0" in shown
    assert "1 regression, 1 open: 9 campaigns, 2 cells" in shown
    assert main(["history", str(slower), "--strict", "--format", "markdown"]) == 1
    assert "| slower (samples/s) |" in capsys.readouterr().out
    assert main(["history", str(slower), "--strict", "--cell", "zero_stage=0"]) == 0
    assert "no regression" in capsys.readouterr().out
    assert main(["history", str(slower), "--cell", "zero_stage=9"]) == 2
    assert "--cell zero_stage=9 matches no cell" in capsys.readouterr().err
    assert main(["history", str(slower), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["regressions"][0]["verdict"] == "slower"


def test_a_run_that_cannot_be_read_or_began_never_stays_in_its_series(
    slower: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(slower, runs)
    (last,) = runs.glob(f"speed-{NIGHTS - 1:02d}-*")
    (record,) = last.glob("zero_stage=1*/repeat1/attempt1/run.json")
    record.write_text("{")
    campaigns, _ = read_all(sources([runs]))
    every = all_series(campaigns)
    assert len(every) == 2
    assert {each.word for each in regressions(every, campaigns)} == {"slower", "broke"}


def test_a_cell_of_which_one_repeat_fails_broke(tmp_path: Path) -> None:
    nights(tmp_path, 3, steady())
    campaigns, _ = read_all(sources([tmp_path]))
    newest = campaigns[-1]
    points = [replace(each, row={**each.row, "status": "failed"}) for each in newest.points]
    assert all(finished(point.row) for point in points)  # by its other repeats
    campaigns[-1] = replace(newest, points=tuple(points))
    found = regressions(all_series(campaigns), campaigns)
    assert [(each.word, each.open) for each in found] == [("broke", True)] * 2


def test_a_cell_that_a_person_stopped_did_not_break(tmp_path: Path) -> None:
    nights(tmp_path, 3, steady())
    campaigns, _ = read_all(sources([tmp_path]))
    newest = campaigns[-1]
    points = [replace(each, row={**each.row, "status": "interrupted"}) for each in newest.points]
    campaigns[-1] = replace(newest, points=tuple(points))
    assert regressions(all_series(campaigns), campaigns) == []


def test_where_nothing_can_be_read_nothing_is_said_to_be_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / names.CAMPAIGN).write_text("{")
    assert main(["history", "--strict", str(tmp_path / "one")]) == 2
    assert "none of 1 can be read" in capsys.readouterr().err


def test_a_points_noise_is_the_standard_error_of_its_runs() -> None:
    """It was half of a widened interval over 1.96: 6.4 times too large with two repeats."""
    row = row_of("a", 99.98, runs=runs_of(98.0, 100.0, 102.0, 100.0), memory_used_mib=5.0)
    expected = 100 * (8 / 3) ** 0.5 / 4**0.5 / 100
    assert standard_error_percent(row, "samples_per_s") == pytest.approx(expected, rel=0.01)
    assert standard_error_percent(with_more(row, runs=row["runs"][:1]), "samples_per_s") == 0
    assert standard_error_percent(row, "memory_used_mib") == 0


# --- the page -------------------------------------------------------------------------------------

TAGS = "<img src=x onerror=alert(1)><script>alert(1)</script>\"'</title></style>]]>-->"
HOSTILE = f"\x1b[2J\x1b]0;x\x07\u202e{TAGS}"


def test_the_page_has_what_got_worse_all_campaigns_and_links_to_their_reports(
    slower: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, page = tmp_path / "runs", tmp_path / "pages/index.html"
    shutil.copytree(slower, runs)
    shutil.copytree(slower / "speed-00-rack", runs / "bad")
    (runs / "bad" / names.CAMPAIGN).write_text(f'{{"a": "{TAGS}')
    page.parent.mkdir()
    report = ["--format", "html", "--output", str(runs / f"speed-0{STEP}-rack.html")]
    assert main(["collect", "--campaign", str(runs / f"speed-0{STEP}-rack"), *report]) == 0
    asked = ["history", str(runs), "--format", "html", "--output", str(page)]
    assert main([*asked, "--strict"]) == 1
    assert f"wrote {page}" in capsys.readouterr().err
    text = page.read_text(encoding="utf-8")
    assert "1 regression, 1 of them open" in text
    assert "node kernel: Linux 6.1.0, then Linux 6.5.0" in text
    assert "<b>bad</b>: " in text
    cell, campaign = re.findall(r'<th scope="row"><a href="([^"]*)">', text)
    assert campaign == f"../runs/speed-0{STEP}-rack.html"
    file, _, anchor = cell.partition("#")
    assert f'id="{anchor}"' in (page.parent / file).read_text(encoding="utf-8")
    listed = text.partition("<h2>Campaigns</h2>")[2]
    shown = re.findall(r">(speed-0\d-rack)(?:</a>)?</th>", listed)
    assert shown == [f"speed-0{night}-rack" for night in range(NIGHTS - 1, -1, -1)]
    assert main([*asked, "--cell", "zero_stage=0"]) == 0
    assert "Nothing: no cell changed" in page.read_text(encoding="utf-8")


def poisoned(content: object, file: str) -> object:
    planned = file in (names.CAMPAIGN, names.RUN)  # whose lines have no control character
    free = {"name", "matrix"} if planned else {"reason", "kernel", "system", "cpu", "hostname"}
    if isinstance(content, dict):
        return {
            key: value + (TAGS if planned else HOSTILE)
            if isinstance(value, str) and key in free
            else poisoned(value, file)
            for key, value in content.items()
        }
    return [poisoned(one, file) for one in content] if isinstance(content, list) else content


def test_hostile_names_and_texts_are_shown_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six nights whose every field holds tags and escapes; names are what a file may be called."""
    runs = tmp_path / "runs"
    for campaign in nights(runs, 6, stepping(3, -20, second, sigma=0.1), then=f"{HOSTILE}\n"):
        for path in campaign.path.rglob("*.json"):
            path.write_text(json.dumps(poisoned(json.loads(path.read_text()), path.name)))
        odd = campaign.path.with_name(f"..{campaign.name}<script>alert(1)<\x1b[2J")
        campaign.path.rename(odd)
        odd.with_name(f"{odd.name}.html").write_text("a report")
    page = tmp_path / "x.html"
    assert main(["history", str(runs), "--format", "html", "--output", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "<script" not in text
    assert "<img" not in text
    assert len(re.findall(r'href="runs/[^"<>]*%3Cscript%3E[^"<>]*\.html"', text)) == 6
    capsys.readouterr()
    assert main(["history", str(runs)]) == 0
    assert all(line.isprintable() for line in capsys.readouterr().out.split("\n"))

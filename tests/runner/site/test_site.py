"""Pages of many campaigns: their links, their bytes, and what no campaign does to them."""

import errno
import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from runner.__main__ import main
from runner.base.errors import UserError
from runner.folder import names
from runner.history import workers
from runner.history.cell_points import CampaignPoints
from runner.history.reading import OpenCampaign, points_of
from runner.history.sources import sources
from runner.site import site_making
from runner.site.site_making import make_site
from runner.terms.cell import Cell
from tests.runner.many_campaigns import nights, steady, stepping

STEP = 6
TAGS = "<img src=x onerror=alert(1)><script>alert(1)</script>\"'</title></style>]]>-->"
HOSTILE = f"\x1b[2J\x1b]0;x\x07\u202e{TAGS}"


def second(cell: Cell) -> bool:
    return bool(cell.parameters["zero_stage"] == 1)


def make(out: Path, *given: Path) -> Path:
    make_site(sources(given), out, lambda _: None)
    return out


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight nights of two cells: one grows slower, and is out of memory one night."""
    folder = tmp_path_factory.mktemp("runs")
    nights(
        folder,
        8,
        stepping(STEP, -10, second),
        fails=lambda night, cell: night == 3 and second(cell),
        kernel=lambda night: "Linux 6.5.0" if night >= STEP else "Linux 6.1.0",
    )
    return folder


@pytest.fixture(scope="module")
def site(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("site") / "out", runs)


class Links(HTMLParser):
    """What a page links to, holds and would run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("href", "src"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)


def pages(site: Path) -> Iterator[tuple[Path, Links]]:
    for path in site.rglob("*.html"):
        yield path, Links(path.read_text(encoding="utf-8"))


def test_every_link_is_relative_and_leads_somewhere(site: Path) -> None:
    read = dict(pages(site))
    assert len(read) == 1 + 8
    for path, page in read.items():
        for link in page.links:
            if link == "data:,":
                continue
            assert not link.startswith(("/", "http", "file")), link
            target, _, anchor = unquote(link).partition("#")
            at = (path.parent / target).resolve() if target else path
            assert at.is_file(), f"{path}: {link}"
            if anchor:
                assert anchor in read[at].ids, f"{path}: {link}"


def test_the_index_says_what_got_worse_and_what_changed_with_it(site: Path, runs: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    assert "2 regressions, 1 of them open" in index
    assert "-10.2%" in index
    assert "CUDA out of memory" in index
    assert "ok, failed" in index
    assert "Linux 6.1.0, then Linux 6.5.0" in index
    _, after = index.split("<h2>Campaigns</h2>")
    rows = re.findall(r'<a href="campaigns/[^"#]*">(.*?)</a>(.*?)</tr>', after, re.DOTALL)
    assert [name for name, _ in rows] == [f"speed-0{night}-rack" for night in range(7, -1, -1)]
    assert [re.findall(r">(\d)</td>", row)[1] for _, row in rows] == [*"2222", "1", *"222"]


def test_a_report_has_the_command_and_the_end_of_the_log(site: Path) -> None:
    (report,) = site.glob("campaigns/speed-05-rack-*.html")
    text = report.read_text(encoding="utf-8")
    assert 'class="words"' in text  # a command
    assert "Last lines of the log" in text
    assert "the campaign&#39;s folder has it" in text


def test_the_same_campaigns_give_the_same_bytes(site: Path, runs: Path, tmp_path: Path) -> None:
    again = make(tmp_path / "again", *sorted(runs.iterdir(), reverse=True))
    assert contents(again) == contents(site)


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


# --- written whole or not at all ------------------------------------------------------------------


def test_a_disk_that_is_full_is_no_campaign_that_cannot_be_read(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)  # one campaign is read in this process
    with pytest.raises(UserError, match="cannot be written: No space left"):
        make(tmp_path / "out", runs / "speed-00-rack")
    assert list(tmp_path.iterdir()) == []


def test_nothing_that_is_there_is_replaced(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/mine.txt").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for name in ("mine", "link", "mine/mine.txt"):
        with pytest.raises(UserError):
            make(tmp_path / name, runs / "speed-00-rack")
    assert contents(tmp_path) == {"mine/mine.txt": b"mine"}
    make(tmp_path / "empty", runs / "speed-00-rack")
    assert (tmp_path / "empty/index.html").is_file()


def test_what_is_interrupted_leaves_nothing(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "out", runs / "speed-01-rack")
    assert list(tmp_path.iterdir()) == []


def test_one_that_cannot_be_read_is_named_and_all_of_them_are_an_error(
    runs: Path, tmp_path: Path
) -> None:
    shutil.copytree(runs / "speed-00-rack", tmp_path / "runs/good")
    shutil.copytree(runs / "speed-00-rack", tmp_path / "runs/bad")
    (tmp_path / "runs/bad" / names.CAMPAIGN).write_text(f'{{"a": "{TAGS}')
    out = make(tmp_path / "out", tmp_path / "runs")
    assert "<b>bad</b>: " in (out / "index.html").read_text(encoding="utf-8")
    with pytest.raises(UserError, match="none of 1 can be read"):
        make(tmp_path / "none", tmp_path / "runs/bad")
    assert not (tmp_path / "none").exists()


def test_what_our_own_code_fails_on_is_left_out(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def odd(read: OpenCampaign) -> CampaignPoints:
        if read.name == "speed-00-rack":
            raise KeyError("odd")
        return points_of(read)

    monkeypatch.setattr(site_making, "points_of", odd)
    monkeypatch.setattr(workers, "MOST_PROCESSES", 1)
    out = make(tmp_path / "out", runs)
    text = (out / "index.html").read_text(encoding="utf-8")
    assert "<b>speed-00-rack</b>: it cannot be read: &#39;odd&#39;" in text
    assert len(list((out / "campaigns").iterdir())) == 7


def test_the_command_says_what_it_wrote(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["site", str(runs), "-o", str(out)]) == 0
    assert "8 campaigns, 2 cells, 1 open regression" in capsys.readouterr().err
    assert main(["site", str(runs), "-o", str(out)]) == 2
    assert "is not empty; remove it, or name a new folder" in capsys.readouterr().err


# --- nothing is believed --------------------------------------------------------------------------


def test_a_secret_of_a_plan_is_in_no_page(tmp_path: Path) -> None:
    (campaign,) = nights(tmp_path / "runs", 1, steady(), then="token hunter2-is-long\n")
    for path in campaign.path.glob(f"{names.ATTEMPTS}/{names.RUN}"):
        run = json.loads(path.read_text())
        for node in run["nodes"]:
            node["env"]["API_TOKEN"] = "hunter2-is-long"
        path.write_text(json.dumps(run))
    out = make(tmp_path / "out", tmp_path / "runs")
    assert not [path for path, text in contents(out).items() if b"hunter2" in text]
    assert any(b"token redacted" in text for text in contents(out).values())


def hostile(tmp_path: Path) -> Path:
    """Six nights whose every field holds tags and escapes; names are what a file may be called."""
    runs = tmp_path / "runs"
    for campaign in nights(runs, 6, stepping(3, -20, second, sigma=0.1), then=f"{HOSTILE}\n"):
        for path in campaign.path.rglob("*.json"):
            content = json.loads(path.read_text())
            path.write_text(json.dumps(poisoned(content, path.name)))
        odd = campaign.path.with_name(f"..{campaign.name}<script>alert(1)<" + "\x1b[2J")
        campaign.path.rename(odd)
    return runs


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
    runs = hostile(tmp_path)
    out = make(tmp_path / "out", runs)
    assert [path.name for path in tmp_path.iterdir() if path not in (runs, out)] == []
    for path in out.rglob("*"):
        assert re.fullmatch(r"[A-Za-z0-9_.,=+-]+", path.name), path.name
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text), path
    assert len(list((out / "campaigns").iterdir())) == 6
    for path, page in pages(out):
        assert "img" not in page.tags, path
        assert page.handlers == [], path
        text = path.read_text(encoding="utf-8")
        scripts = re.findall(r"<script[^>]*>", text)
        assert len(scripts) <= 2, path
        assert "alert(1)</script>" not in text, path
    assert main(["history", str(runs)]) == 0
    shown = capsys.readouterr().out
    assert all(line.isprintable() for line in shown.split("\n"))


def test_calm_campaigns_are_shared_without_a_regression(tmp_path: Path) -> None:
    nights(tmp_path / "runs", 6, steady())
    out = make(tmp_path / "out", tmp_path / "runs")
    assert "Nothing: no cell changed" in (out / "index.html").read_text(encoding="utf-8")

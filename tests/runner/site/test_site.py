"""A site of many campaigns: its files, its links, its bytes, and what no campaign does to it."""

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
from runner.history.cell_points import CampaignPoints, Point
from runner.history.reading import OpenCampaign, points_of
from runner.history.sources import sources
from runner.site import site_making
from runner.site.logs import log_text
from runner.site.sheets import with_interval
from runner.site.site_folder import MARK, new_site
from runner.site.site_making import make_site
from runner.terms.cell import Cell
from tests.documented_schemas import fits
from tests.runner.many_campaigns import nights, steady, stepping

STEP = 6
TAGS = "<img src=x onerror=alert(1)><script>alert(1)</script>\"'</title></style>]]>-->"
HOSTILE = f"\x1b[2J\x1b]0;x\x07\u202e{TAGS}"


def second(cell: Cell) -> bool:
    return bool(cell.parameters["zero_stage"] == 1)


def make(out: Path, *given: Path, log_bytes: int = 1 << 16) -> Path:
    make_site(sources(given), out, log_bytes=log_bytes, report_progress=lambda *_: None)
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
    assert len(read) == 1 + 8 + 2 + 7  # first; campaigns; cells; those that followed
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


def test_every_point_has_its_log_command_verdict_and_environment(site: Path) -> None:
    document = json.loads((site / "data/points.json").read_text())
    assert len(document["points"]) == 16
    for point in document["points"]:
        assert len(point["logs"]) == 2
        for path in point["logs"].values():
            assert (site / path).is_file()
        page, _, anchor = point["page"].partition("#")
        text = (site / page).read_text(encoding="utf-8")
        assert f'id="{anchor}"' in text
        assert point["facts"]["fingerprints / system / commit"] == "c0ffee"
    assert 'class="words"' in text  # a command
    assert "Last lines of the log" in text


def test_the_data_fit_their_schemas(site: Path) -> None:
    for name in ("points", "regressions"):
        fits(json.loads((site / f"data/{name}.json").read_text()), name)


def test_failures_stand_on_the_first_page_with_their_reason(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    assert "CUDA out of memory" in text
    assert "15</span>" not in text
    assert re.search(r'1 <span class="pill bad">failed</span>', text)


def test_a_cells_page_shows_the_change_and_what_changed(site: Path) -> None:
    (page,) = (site / "cells").glob("zero_stage=1-*.html")
    text = page.read_text(encoding="utf-8")
    assert "slower" in text
    assert "Linux 6.1.0</span>, then <strong>Linux 6.5.0" in text
    assert text.count('<circle class="point"') == 3 * 7
    assert text.count('<circle class="point hollow"') == 3  # the night that failed
    assert text.count('class="change"') == 1
    (calm,) = (site / "cells").glob("zero_stage=0-*.html")
    assert 'class="change"' not in calm.read_text(encoding="utf-8")


def test_the_same_campaigns_give_the_same_bytes(site: Path, runs: Path, tmp_path: Path) -> None:
    again = make(tmp_path / "again", *sorted(runs.iterdir(), reverse=True))
    assert contents(again) == contents(site)


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


# --- written whole or not at all ------------------------------------------------------------------


def test_a_site_is_replaced_and_nothing_else_is(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="did not write"):
        make(out, runs / "speed-00-rack")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    (out / "mine.txt").unlink()
    make(out, runs / "speed-00-rack")
    (out / "data/mine.html").write_text("mine")
    with pytest.raises(UserError, match=r"did not write \(data/mine.html\)"):
        make(out, runs / "speed-01-rack")
    (out / "data/mine.html").unlink()
    make(out, runs / "speed-01-rack")
    assert (out / MARK).is_file()
    (out / "CNAME").write_text("bench.example.org")
    with pytest.raises(UserError, match=r"did not write \(CNAME\)"):
        make(out, runs / "speed-01-rack")
    (out / "CNAME").unlink()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    (tmp_path / "link").symlink_to(out)
    with pytest.raises(UserError, match="is not a folder"):
        make(tmp_path / "link", runs / "speed-00-rack")


def test_a_campaign_is_never_in_the_way_of_its_own_site(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, out = tmp_path / "runs/one", tmp_path / "out"
    shutil.copytree(runs / "speed-00-rack", own)
    make(out, own)
    shutil.copytree(own, out / "data/one")
    with pytest.raises(UserError, match="are inside each other"):
        make(out, out / "data/one")
    with pytest.raises(UserError, match="are inside each other"):
        make(own / "site", own)
    monkeypatch.chdir(out)
    with pytest.raises(UserError, match="is the current folder"):
        make(out, own)
    assert (out / "data/one/campaign.json").is_file()


def test_ctrl_c_while_one_takes_the_others_place_leaves_the_old_one(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    make(out, runs / "speed-00-rack")
    before = (out / "index.html").read_bytes()
    rename = Path.replace

    def interrupted(path: Path, target: Path) -> Path:
        if target == out and ".old." not in path.name:
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(out, runs / "speed-01-rack")
    assert (out / "index.html").read_bytes() == before


def test_a_disk_that_is_full_is_no_campaign_that_cannot_be_read(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)  # one campaign is read in this process
    with pytest.raises(UserError, match="the site cannot be written: No space left"):
        make(tmp_path / "out", runs / "speed-00-rack")
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_a_campaign_shows_no_other_file(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "speed-00-rack", tmp_path / "runs/good")
    shutil.copytree(runs / "speed-01-rack", tmp_path / "runs/bad")
    log = next((tmp_path / "runs/bad").rglob("launcher.log"))
    (tmp_path / "secret").write_text("root:x")
    log.unlink()
    log.symlink_to(tmp_path / "secret")
    out = make(tmp_path / "out", tmp_path / "runs")
    (left_out,) = json.loads((out / "data/points.json").read_text())["left_out"]
    assert left_out["reason"].endswith("is a link; put the file itself there")
    assert not any("root:x" in path.read_text() for path in out.rglob("*.*"))


@pytest.mark.parametrize("at", range(0, 900, 7))
def test_a_secret_is_in_no_part_of_a_log(at: int, tmp_path: Path) -> None:
    secret = "hf_S3CR3TS3CR3T"
    inside = f"{secret[:5]}\x1b[31m{secret[5:9]}\x1b[0m{secret[9:]}"
    for text in (secret, inside):
        path = tmp_path / "log"
        path.write_text("x" * at + text + "y" * (900 - at))
        shown = log_text(path, 512, [secret])
        assert not any(secret[n : n + 10] in shown for n in range(len(secret) - 9)), text


def test_what_fails_or_is_interrupted_leaves_what_was(tmp_path: Path) -> None:
    def half() -> None:
        with new_site(tmp_path / "out") as folder:
            (folder / "half.html").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
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
    assert main(["site", str(runs), "-o", str(out), "--log-kib", "0"]) == 0
    assert "8 campaigns, 2 cells, 1 open regression" in capsys.readouterr().err
    assert list(out.rglob("*.txt")) == []
    assert main(["site", str(runs), "-o", str(out), "--log-kib", "-1"]) == 2


# --- nothing is believed --------------------------------------------------------------------------


def test_a_long_log_keeps_its_begin_and_end_and_says_so(tmp_path: Path) -> None:
    log = tmp_path / "launcher.log"
    lines = [f"line {number} \x1b[31mred\x1b[0m SECRETWORD" for number in range(1000)]
    log.write_text("\n".join(lines) + "\n")
    text = log_text(log, 4000, ["SECRETWORD"])
    assert "SECRETWORD" not in text
    assert "\x1b" not in text
    assert text.startswith("line 0 red redacted\n")
    assert text.endswith("line 999 red redacted\n")
    size = log.stat().st_size
    assert re.search(rf"\[the site leaves out \d+ of {size} bytes here", text)
    assert "leaves out" not in log_text(log, 1 << 20, [])


def test_a_secret_of_a_plan_is_in_no_page_and_log(tmp_path: Path) -> None:
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
    assert len(json.loads((out / "data/points.json").read_text())["campaigns"]) == 6
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
    assert json.loads((out / "data/regressions.json").read_text())["regressions"] == []
    assert "None was found" in (out / "index.html").read_text(encoding="utf-8")


def test_the_larger_half_of_a_lopsided_interval_stands_beside_a_figure() -> None:
    """Half of its width was: 100 ±6.0% of an interval from 99 to 111."""
    row = {"samples_per_s": 100.0, "samples_per_s_ci_low": 99.0, "samples_per_s_ci_high": 111.0}
    point = Point("c", "key", "machine", row, {})
    assert with_interval(point, "samples_per_s").text == "100.0 ±11.0%"

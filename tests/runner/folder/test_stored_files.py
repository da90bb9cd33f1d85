"""A stored file is opened in one way: no link is followed, plain files alone, and bounded."""

import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.__main__ import main
from runner.archive import archive
from runner.base import log_file
from runner.base.log_file import log_size, open_log, readers_end
from runner.base.text import blocks, tail
from runner.folder import names
from runner.folder.campaign import Campaign
from runner.launch.interrupts import Interrupts
from runner.results.diagnosis.log_end import find_evidence, find_last_step
from runner.results.records import records_of
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import OUT_OF_MEMORY, Story, torch_gpt, write

OUTSIDE = "OUTSIDEWORD"
TIB = 1 << 40


def campaign(runs: Path) -> Campaign:
    matrix = small_matrix({"zero_stage": [0, 1]}, {"nodes": 1}, name="kept")
    return write(runs, matrix, small_cluster(1), lambda *_: Story({0: torch_gpt(50)}))


def first_log(of: Campaign) -> Path:
    return sorted(of.path.glob(f"{names.ATTEMPTS}/nodes/*/{names.LOG}"))[0]


# --- links ----------------------------------------------------------------------------------------


def moved(path: Path, outside: Path) -> None:
    """Put a file or folder outside, with a word in its logs, and a link in its place."""
    if path.is_dir():
        shutil.copytree(path, outside)
        shutil.rmtree(path)
    else:
        shutil.copy(path, outside)
        path.unlink()
    for log in [outside] if outside.is_file() else outside.rglob(names.LOG):
        log.write_text(f"{log.read_text()}{OUTSIDE}\n")
    path.symlink_to(outside)


def event(log: Path, outside: Path) -> None:
    outside.write_text(OUTSIDE)
    (log.parent / "tensorboard").mkdir()
    (log.parent / "tensorboard" / "events.out.tfevents.1.x").symlink_to(outside)


LINKS: dict[str, Callable[[Path, Path], None]] = {
    "log": moved,
    "node": lambda log, outside: moved(log.parent, outside),
    "nodes": lambda log, outside: moved(log.parents[1], outside),
    "attempt": lambda log, outside: moved(log.parents[2], outside),
    "repeat": lambda log, outside: moved(log.parents[3], outside),
    "cell": lambda log, outside: moved(log.parents[4], outside),
    "event file": event,
}


def written(folder: Path) -> bytes:
    content = b""
    for path in (path for path in folder.rglob("*") if path.is_file()):
        if path.name.endswith(".gz"):
            with tarfile.open(path) as tar:
                streams = [tar.extractfile(member) for member in tar]
                content += b"".join(stream.read() for stream in streams if stream)
        content += path.read_bytes()
    return content


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(
    "words",
    ["collect --format html --output {}/x.html --campaign", "export -o {}/x.tar.gz",
     "export --redact -o {}/x.tar.gz", "publish --anyway -o {}/x.tar.gz"],
)  # fmt: skip
def test_nothing_that_a_link_leads_to_goes_out(
    words: str, link: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Issue 34, point 5: a folder that was a link was followed."""
    of, out = campaign(tmp_path / "runs"), tmp_path / "out"
    out.mkdir()
    LINKS[link](first_log(of), tmp_path / "outside")
    main([*words.format(out).split(), str(of.path)])
    assert OUTSIDE.encode() not in written(out)
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert "report it" not in said


@pytest.mark.parametrize("link", [link for link in LINKS if link != "event file"])
def test_the_run_alone_says_that_it_is_a_link(link: str, tmp_path: Path) -> None:
    of = campaign(tmp_path / "runs")
    LINKS[link](first_log(of), tmp_path / "outside")
    first, second = records_of(of, tmp_path)
    assert second.status == "ok"
    assert first.status in ("unreadable", "pending")
    assert "is a link" in first.reason or link == "cell"
    assert "report it" not in first.reason


@pytest.mark.parametrize("name", [f"{'d/' * 23}e", f"{'x' * 200}/" * 4 + "y" * 171])
def test_a_file_that_no_archive_can_hold_is_left_out_and_said(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = campaign(tmp_path / "runs")
    odd = first_log(of).parent / "tensorboard" / name
    odd.parent.mkdir(parents=True)
    odd.write_text("x")
    for more in ([], ["--redact"]):
        target = tmp_path / f"x{len(more)}.tar.gz"
        assert main(["export", str(of.path), "-o", str(target), *more]) == 0
        assert "1 file left out" in capsys.readouterr().err
        with archive.opened(tmp_path, str(target)) as source:
            assert len(records_of(source.campaign, tmp_path)) == 2


# --- holes ----------------------------------------------------------------------------------------


def hole(path: Path, *parts: str, size: int = 4 * TIB) -> Path:
    """A log of `size` bytes with text at even distances, and holes between."""
    with path.open("wb") as stream:
        for number, text in enumerate(parts):
            stream.seek(number * (size // len(parts)))
            stream.write(text.encode())
        stream.truncate(size)
    return path


@pytest.mark.parametrize(
    "parts",
    [
        ("",),
        (torch_gpt(50),),
        ("", torch_gpt(50)),
        (torch_gpt(25, of=50), OUT_OF_MEMORY),
        tuple(f"line {number}\n" for number in range(500)),
    ],
    ids=["nothing", "begin", "end", "both", "many"],
)
def test_the_holes_of_a_log_are_no_part_of_it(parts: tuple[str, ...], tmp_path: Path) -> None:
    """Issue 34, point 6."""
    path = hole(tmp_path / "x", *parts)
    text = b"".join(blocks(path)).replace(b"\0", b"").decode()
    assert text == "".join(parts)
    assert log_size(path) < 1 << 22
    find_last_step(path, ())
    find_evidence(path, 0)
    assert not parts[-1] or parts[-1].splitlines()[-1].encode() in tail(path, 1 << 16)


def test_a_stream_without_holes_is_read_from_any_place(tmp_path: Path) -> None:
    path = tmp_path / "x"
    content = os.urandom(3 << 20)
    path.write_bytes(content)
    with open_log(path) as stream:
        assert stream.read(10) == content[:10]
        stream.seek(2_000_000)
        assert stream.read() == content[2_000_000:]
        stream.seek(-5, 2)
        assert stream.read() == content[-5:]
        stream.seek(0)
        assert b"".join(stream) == content


def test_a_log_is_not_read_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x\n" * (1 << 20))
    monkeypatch.setattr(log_file, "MOST_READ", 1 << 20)
    with pytest.raises(OSError, match="it has more than 0 GiB; cut it"):
        open_log(path)
    monkeypatch.undo()
    monkeypatch.setattr(log_file, "MOST_S", -1.0)
    with pytest.raises(OSError, match="took longer than"), open_log(path) as stream:
        stream.read()
    monkeypatch.undo()
    monkeypatch.setattr(log_file, "MOST_PARTS", 3)
    with pytest.raises(OSError, match="more than 3 holes"):
        open_log(hole(tmp_path / "y", *"abcdef"))


def test_a_run_whose_log_has_a_hole_of_terabytes_is_read_and_shown(tmp_path: Path) -> None:
    of = campaign(tmp_path / "runs")
    hole(first_log(of), torch_gpt(50), "again")
    first, _ = records_of(of, tmp_path)
    assert first.status == "ok"
    assert len(first.measurement.intervals) == 50
    out = ["--format", "html", "--output", str(tmp_path / "x.html")]
    assert main(["collect", "--campaign", str(of.path), *out]) == 0
    assert main(["history", str(of.path)]) == 0
    assert (tmp_path / "x.html").stat().st_size < 1 << 22


def test_an_export_of_terabytes_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = campaign(tmp_path / "runs")
    hole(first_log(of), torch_gpt(50))
    assert main(["export", str(of.path), "-o", str(tmp_path / "x.tar.gz")]) == 2
    assert "more than 64 GiB, more than an export can have" in capsys.readouterr().err
    assert main(["export", str(of.path), "--redact", "-o", str(tmp_path / "x.tar.gz")]) == 0


# --- Ctrl-C ---------------------------------------------------------------------------------------


def test_a_reader_ends_when_a_command_is_to_end(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x\n" * (2 << 20))
    read: list[bytes] = []
    with readers_end(lambda: bool(read)), pytest.raises(KeyboardInterrupt):
        list(map(read.append, blocks(path)))
    assert len(b"".join(blocks(path))) == 4 << 20


def test_two_interrupts_of_bench_end_what_it_reads(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x\n" * (2 << 20))
    interrupts = Interrupts()
    with interrupts.handled():
        interrupts(signal.SIGINT, None)
        assert len(b"".join(blocks(path))) == 4 << 20
        interrupts(signal.SIGINT, None)
        with pytest.raises(KeyboardInterrupt):
            list(blocks(path))


@pytest.mark.parametrize("words", ["parse {log}", "collect --campaign {of}"])
def test_ctrl_c_ends_a_command_that_reads(words: str, tmp_path: Path) -> None:
    """Each block is read slowly, so that the command is within its log."""
    of = campaign(tmp_path / "runs")
    log = first_log(of)
    line = torch_gpt(1).encode() * 4096
    with log.open("ab") as stream:
        for _ in range((64 << 20) // len(line)):
            stream.write(line)
    argv = words.format(log=log, of=of.path, out=tmp_path / "out").split()
    code = (
        "import runner.base.log_file as f, sys, time, runner.__main__ as m;"
        "read = f._Data.readinto;"
        "slow = lambda s, b: (print('reads', flush=True), time.sleep(0.2), read(s, b))[2];"
        "f._Data.readinto = slow;"
        "sys.exit(m.main(sys.argv[1:]))"
    )
    begun = subprocess.Popen(
        [sys.executable, "-c", code, *argv], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert begun.stdout is not None
    while b"reads" not in begun.stdout.readline():
        assert begun.poll() is None
    begun.send_signal(signal.SIGINT)
    assert begun.wait(60) == 130

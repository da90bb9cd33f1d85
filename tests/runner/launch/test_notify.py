"""--notify: the user's own command, told of failures and the end, and never in the way."""

import argparse
import json
import sys
from pathlib import Path

import pytest

from runner.commands.bench import _argv
from runner.folder.events import CAMPAIGN_ENDED, RUN_BEGUN, RUN_ENDED, Event
from runner.launch import notify
from runner.launch.notify import Notifier

TELLING = """\
import json, os, sys
said = json.load(sys.stdin)
said["env"] = {k: v for k, v in os.environ.items() if k.startswith("TRAINBENCH_")}
print(json.dumps(said), file=open(sys.argv[1], "a"))
"""


def event(kind: str, **more: object) -> Event:
    return Event(event=kind, at=1.0, campaign="m", **more)  # type: ignore[arg-type]


def test_it_is_told_of_failures_and_of_the_end(tmp_path: Path) -> None:
    out, complaints = tmp_path / "out", list[str]()
    with Notifier([sys.executable, "-c", TELLING, str(out)], complaints.append) as tell:
        tell(event(RUN_BEGUN, cell="a"))
        tell(event(RUN_ENDED, cell="a", status="ok"))
        tell(event(RUN_ENDED, cell="b; $(id)", status="failed", reason="n1: \x1b[2J\0 exit code 3"))
        tell(event(CAMPAIGN_ENDED, ok=1, not_ok=1))
    failed, ended = map(json.loads, out.read_text().splitlines())
    assert complaints == []
    assert (failed["event"], failed["cell"], failed["status"]) == (RUN_ENDED, "b; $(id)", "failed")
    assert failed["env"]["TRAINBENCH_CELL"] == "b; $(id)"
    assert failed["env"]["TRAINBENCH_REASON"].isprintable()
    assert (ended["env"]["TRAINBENCH_EVENT"], ended["ok"]) == (CAMPAIGN_ENDED, 1)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (
            [sys.executable, "-c", "raise SystemExit('lost')"],
            "ended with exit code 1: lost",
        ),
        (["/nowhere/at-all"], "cannot be run: "),
        ([sys.executable, "-c", "import time; time.sleep(60)"], "took more than 0.3 s"),
    ],
)
def test_that_it_fails_is_a_line(
    argv: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "took" in words:
        monkeypatch.setattr(notify, "PATIENCE_S", 0.3)
    complaints: list[str] = []
    with Notifier(argv, complaints.append) as tell:
        tell(event(CAMPAIGN_ENDED))
    (said,) = complaints
    assert said.startswith("--notify: ")
    assert words in said


def test_a_command_is_split_and_looked_for_before_anything_runs() -> None:
    assert _argv("sh -c 'exit 1' $(id)") == ["sh", "-c", "exit 1", "$(id)"]
    refused = {"'open": "close its quotes", "": "not begin with a program", "no-such-x": "PATH"}
    for words, why in refused.items():
        with pytest.raises(argparse.ArgumentTypeError, match=why):
            _argv(words)

"""--retry, --stop-after and `status` on the campaign loop; its engine is a stand-in."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner import __main__
from runner.base.errors import UserError
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.campaign import Campaign, find_campaign
from runner.launch import engines, status
from runner.launch import launcher as launch_run
from runner.launch.engine import Wanted
from runner.results.judge import judged
from runner.results.records import RUNNING, records_of
from tests.on_nodes.campaign import wait
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.launch.test_campaign import (
    FAILED,
    LOST,
    OK,
    PORT,
    Nodes,
    Run,
    nodes,
    outcomes,
    run,
)

__all__ = ["nodes", "run"]  # fixtures


def test_a_failed_run_is_tried_again_and_the_last_try_counts(
    run: Run, nodes: Nodes, tmp_path: Path
) -> None:
    nodes.endings = [FAILED, LOST, OK, FAILED, FAILED, FAILED]
    tally = run(retry=2)
    assert (tally.ok, tally.failed, tally.exit_code) == (1, 1, 1)
    assert nodes.attempts == [
        *("zero_stage=0 r1a1", "zero_stage=0 r1a2", "zero_stage=0 r1a3"),
        *("zero_stage=1 r1a1", "zero_stage=1 r1a2", "zero_stage=1 r1a3"),
    ]
    assert outcomes(tmp_path)["zero_stage=0 repeat1 attempt3"] == "ok"


def test_after_the_limit_no_run_begins_and_the_next_bench_goes_on(
    run: Run, nodes: Nodes, tmp_path: Path
) -> None:
    nodes.before_play = lambda: wait(lambda: any(tmp_path.rglob(names.HALT)), 10, "the limit")
    nodes.endings = [{"steps": 3}]
    tally = run(limit_s=1.5)
    assert nodes.attempts == ["zero_stage=0 r1a1"]
    assert (tally.expired, tally.interrupted, tally.exit_code) == (True, False, 1)
    halt = RunFolder(next((tmp_path / "m-rack").glob(names.ATTEMPTS))).halt
    assert halt is not None
    assert (halt.cause, halt.message) == ("interrupted", "stopped after --stop-after 1.5")
    nodes.before_play = lambda: None
    tally = run()
    assert nodes.attempts[1:] == ["zero_stage=0 r1a2", "zero_stage=1 r1a1"]
    assert tally.exit_code == 0


def test_a_limit_between_two_tries_of_a_port_begins_no_further_one(
    run: Run, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*given: Any) -> Any:
        time.sleep(2.0)
        return judged(*given)

    monkeypatch.setattr(launch_run, "judged", slow)
    nodes.endings = [PORT]
    tally = run(limit_s=1.5)
    assert nodes.attempts == ["zero_stage=0 r1a1"]
    assert tally.expired


def test_a_limit_before_the_first_run_is_no_bad_input(
    run: Run, nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes.before_inspect = lambda: time.sleep(0.3)
    monkeypatch.setattr(engines, "engine_of", lambda *_: nodes)
    matrix = tmp_path / "m.yaml"
    matrix.write_text("name: m\ndefaults: {system: torch_gpt}\n")
    words = ["bench", "--matrix", str(matrix), "--runs", str(tmp_path), "--stop-after", "0.1"]
    assert __main__.main(words) == 1
    assert nodes.attempts == []


def test_with_again_no_command_goes_on(run: Run, nodes: Nodes) -> None:
    assert run().resumes
    assert not run(again=True).resumes


@pytest.mark.parametrize(
    "words",
    [["--retry", "-1"], ["--stop-after", "0"], ["--stop-after", "x"], ["--stop-after", "1e10"]],
)
def test_limits_that_make_no_sense_are_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        __main__.main(["bench", "--matrix", "matrix.yaml", *words])
    assert ended.value.code == 2
    assert "is not a " in capsys.readouterr().err


# --- status -----------------------------------------------------------------------------------


def test_status_of_a_campaign_that_is_over(run: Run, nodes: Nodes, tmp_path: Path) -> None:
    nodes.endings = [FAILED, OK]
    run()
    found = status.look(find_campaign(tmp_path, None))
    assert (found.live, found.runs, found.ended) == (False, 2, {"failed": 1, "ok": 1})
    assert found.running is None
    assert found.left_s is None
    lines = found.words().splitlines()
    assert lines[0] == "campaign m-rack: 2 of 2 runs ended, no bench runs it"
    assert lines[-1].startswith("failed: zero_stage=0: n1: exit code 1")
    assert found.to_json()["schema"] == 1


def test_status_of_a_campaign_that_runs(run: Run, nodes: Nodes, tmp_path: Path) -> None:
    seen = []

    def ask() -> None:
        if len(nodes.plays) == 1:
            seen.append(status.look(Campaign(tmp_path / "m-rack")))

    nodes.before_play = ask
    run()
    (found,) = seen
    assert (found.live, found.ended) == (True, {"ok": 1})
    assert found.running is not None
    assert (found.running.cell, found.running.attempt) == ("zero_stage=1", 1)
    assert found.running.iteration is None
    assert "now: zero_stage=1: starting" in found.words()


def test_status_names_what_runs_now_and_not_what_a_killed_bench_left(
    run: Run, nodes: Nodes, tmp_path: Path
) -> None:
    run()
    campaign = Campaign(tmp_path / "m-rack")
    for cell, written_at in (("zero_stage=1", -60.0), ("zero_stage=0", 2.0)):
        before = next(tmp_path.glob(f"m-rack/{cell}-*/repeat1/attempt1/{names.RUN}"))
        attempt = campaign.new_attempt(before.parents[2].name, 1)
        shutil.copy(before, attempt.path)
        os.utime(attempt.path / names.RUN, (time.time() + written_at,) * 2)
    with campaign.locked():
        found = status.look(campaign)
        records = records_of(campaign, tmp_path)
    assert found.running is not None
    assert found.running.cell == "zero_stage=0"
    assert campaign.running() == []
    assert records[0].reason == RUNNING


def test_status_counts_the_imported_runs_of_each_cell(run: Run, tmp_path: Path) -> None:
    run()
    campaign = Campaign(tmp_path / "m-rack")
    first, *others = campaign.settings.cells
    cells = (replace(first, repeats=3), *others)
    campaign.write(replace(campaign.settings, cells=cells))
    assert status.look(campaign).runs == 4


def test_status_without_a_campaign_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert __main__.main(["status", "--runs", str(tmp_path)]) == 2
    assert "there are no campaigns" in capsys.readouterr().err


def test_a_folder_without_a_matrix_of_its_own_is_no_campaign(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path / "m-rack")
    campaign.path.mkdir()
    with pytest.raises(UserError, match=r"holds no campaign\.json"):
        status.look(campaign)
    campaign.open(small_matrix(), small_cluster())
    assert status.look(campaign).runs == 1


def test_a_limit_ends_the_wait_for_nodes_too(
    run: Run, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An allocation may be queued for hours."""

    @contextmanager
    def claimed(wanted: Wanted, campaign: Path, cancelled: Callable[[], bool]) -> Iterator[None]:
        wait(cancelled, 10, "the limit")
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(nodes, "claimed", claimed)
    tally = run(limit_s=0.1)
    assert (tally.expired, tally.exit_code) == (True, 1)
    assert nodes.attempts == []

"""The campaign loop: what is launched, what is kept, and what the command's exit code says.

The engine is a fake: it writes into the run's folder what the launch plugin would have written
there. Everything else is real.
Whole launches are proved in tests/golden and tests/on_nodes.
"""

import io
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.base.console import Screen
from runner.base.dataclass_schema import read
from runner.base.errors import UserError
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.campaign import Campaign, find_campaign
from runner.folder.checkup import checkup_of
from runner.folder.lock import HeldFolder
from runner.folder.products import keep_products
from runner.folder.stored import write_json
from runner.launch import plan_summary
from runner.launch.bench import Tally, bench
from runner.launch.engine import Wanted
from runner.launch.launcher import PORT_TRIES
from runner.launch.plan_summary import Outlook
from runner.launch.rounds import Rounds
from runner.launch.view import View
from runner.matrix.select import in_order, select
from runner.plan import script
from runner.results.records import records_of
from runner.terms import run as runs
from runner.terms.cell import Matrix
from runner.terms.inspected import Inspected, Sought
from runner.terms.orders import Orders
from runner.terms.product import Product, Products
from tests.runner.builders import small_cluster, small_matrix

Ending = dict[str, Any]
OK: Ending = {"steps": 50}
FAILED: Ending = {"steps": 3, "halt": {"cause": "exit", "message": "n1: exit code 1"}}
SILENT: Ending = {"steps": 0, "halt": {"cause": "exit", "message": "n1: exit code 1"}}
LOST: Ending = {"steps": 3, "halt": {"cause": "node_lost", "message": "n1: out of contact"}}
PORT: Ending = {"steps": 0, "halt": {"cause": "port_in_use", "message": "n1: port in use"}}
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\n'
MATRIX = small_matrix({"zero_stage": [0, 1]})


class Nodes:
    """An engine without nodes: each run ends as the next of `endings` says, ok without one.

    `commit` is what each node has of every system, `data` the checksums of every dataset's files.
    """

    def __init__(self) -> None:
        self.endings: list[Ending] = []
        self.plays: list[dict[str, Any]] = []
        self.inspections = 0
        self.before_inspect: Callable[[], None] = lambda: None
        self.before_play: Callable[[], None] = lambda: None
        self.commit = "c0"
        self.data: dict[str, str] = {}

    at_once = 1

    def claimed(
        self, wanted: Wanted, campaign: Path, cancelled: Callable[[], bool]
    ) -> AbstractContextManager[None]:
        return nullcontext()

    def by_hand(self, run: runs.Run) -> tuple[str, str]:
        return names.SCRIPT, script.launch_script(run)

    def hand_over(self, folder: HeldFolder, run: RunFolder, orders: Orders) -> bool:
        raise AssertionError("nobody asked for --submit")

    def goes_on(self, run: RunFolder) -> bool:
        return False

    def waiting(self, run: RunFolder) -> str:
        return ""

    def run(
        self, folder: HeldFolder, run: RunFolder, orders: Orders, cancelled: Callable[[], bool]
    ) -> str:
        content = json.loads((run.path / names.RUN).read_text())
        assert read(Orders, content) == orders
        assert os.access(run.path / names.SCRIPT, os.X_OK)
        assert folder.lock.read_text() == folder.holder != ""
        self.before_play()
        ending = self.endings.pop(0) if self.endings else OK
        for node in orders.nodes:
            home = run.node(node.node_rank)
            home.mkdir(parents=True)
            (home / names.DONE).write_text(json.dumps({"ended_by": "exit", "rc": 0}))
            lines = [
                f"torch_gpt step={n}/50 samples_per_s={ending.get('rate', 10.0)}"
                f" step_time_ms={1000 / ending.get('rate', 10.0)} loss=5.0"
                " memory_allocated_mib=- memory_used_mib=1.0\n"
                for n in range(1, ending["steps"] + 1)
            ]
            error = "ValueError: the trainer said why\n" if "halt" in ending else ""
            text = "".join(lines) if node.node_rank == 0 else ""
            said = ending.get("said", {}).get(node.host, error)
            (home / names.LOG).write_text(text + said)
        if "halt" in ending:
            run.ask_to_halt(**ending["halt"], host="n1")
        self.plays.append({**content, "hosts": [node.host for node in orders.nodes]})
        return ""

    def inspect(
        self,
        hosts: Sequence[str],
        asked: Sought,
        campaign: Campaign,
        cancelled: Callable[[], bool],
    ) -> Mapping[str, Inspected]:
        self.inspections += 1
        self.before_inspect()
        system = {"identity": {"commit": self.commit}}
        dataset = {
            **{"documents": 10**6, "tokens": 10**9, "sha256": self.data},
            "bytes": {"default_text_document.bin": 7},
        }
        files = {name: dataset if name.startswith("dataset ") else system for name in asked.paths}
        for host in hosts:
            relied = {name: {"checksum": "0" * 64} for name in (*asked.folders, *asked.pythons)}
            said = {"files": files, "relied": relied}
            write_json(campaign.inspected / names.of_host(host), said)
        return {host: campaign.inspection(host) or Inspected() for host in hosts}

    @property
    def attempts(self) -> list[str]:
        """What was launched: the end of each run's id."""
        return [
            f"{play['cell']['name']} r{play['repeat']}a{play['attempt']}" for play in self.plays
        ]


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture
def run(nodes: Nodes, tmp_path: Path) -> Callable[..., Tally]:
    def go(matrix: Matrix = MATRIX, **more: Any) -> Tally:
        view = View(Screen(file=io.StringIO()))
        return bench(matrix, small_cluster(), tmp_path, engine=nodes, view=view, **more)

    return go


Run = Callable[..., Tally]


def outcomes(tmp_path: Path) -> dict[str, str]:
    """Run folder to status."""
    campaign = tmp_path / "m-rack"
    return {
        f"{path.parts[-4].rsplit('-', 1)[0]} {path.parts[-3]} {path.parts[-2]}": json.loads(
            path.read_text()
        )["status"]
        for path in sorted(campaign.glob("*/repeat*/attempt*/outcome.json"))
    }


# --- what a killed bench left ---------------------------------------------------------------------


def test_a_run_that_a_killed_bench_left_gets_an_outcome(
    run: Run, nodes: Nodes, tmp_path: Path
) -> None:
    def killed() -> None:
        raise MemoryError

    nodes.before_play = killed
    with pytest.raises(MemoryError):
        run()
    assert outcomes(tmp_path) == {}
    nodes.before_play = lambda: None
    run()
    assert outcomes(tmp_path) == {
        "zero_stage=0 repeat1 attempt1": "did_not_run",
        "zero_stage=0 repeat1 attempt2": "ok",
        "zero_stage=1 repeat1 attempt1": "ok",
    }
    (first,) = (tmp_path / "m-rack").glob("zero_stage=0-*/repeat1/attempt1/outcome.json")
    outcome = json.loads(first.read_text())
    assert outcome["cause"] == "control_lost"
    assert "the bench that ran it was killed" in outcome["reason"]


def test_a_run_that_ended_well_under_a_killed_bench_is_not_run_again(
    run: Run, nodes: Nodes, tmp_path: Path
) -> None:
    run()
    for path in tmp_path.rglob("outcome.json"):
        path.unlink()
    nodes.plays.clear()
    run()
    assert nodes.attempts == []
    assert set(outcomes(tmp_path).values()) == {"ok"}


# --- which cells ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("only", "names"),
    [
        ([], ["zero_stage=0", "zero_stage=1"]),
        (["zero_stage=1"], ["zero_stage=1"]),
        (["*=0", "*=1"], ["zero_stage=0", "zero_stage=1"]),
        (["zero_stage=0-*"], ["zero_stage=0"]),
        (["zero_stage=[1-3]"], ["zero_stage=1"]),
    ],
)
def test_globs_choose_cells_by_name_or_folder(only: list[str], names: list[str]) -> None:
    assert [cell.name for cell in select(MATRIX, only)] == names


def test_a_glob_without_a_match_shows_how_cells_are_named() -> None:
    with pytest.raises(UserError, match=r"--only x y matches no cell; .* zero_stage=0, zero_stage"):
        select(MATRIX, ["x", "y"])


# --- the loop -------------------------------------------------------------------------------------


def test_every_repeat_of_every_cell_is_launched_once(
    run: Run, nodes: Nodes, tmp_path: Path
) -> None:
    tally = run(small_matrix({"zero_stage": [0, 1]}, {"nodes": 2}, repeats=2))
    assert sorted(nodes.attempts) == [
        "zero_stage=0 r1a1",
        "zero_stage=0 r2a1",
        "zero_stage=1 r1a1",
        "zero_stage=1 r2a1",
    ]
    assert (tally.ok, tally.failed, tally.kept, tally.exit_code) == (4, 0, 0, 0)
    assert set(outcomes(tmp_path).values()) == {"ok"}
    assert nodes.plays[0]["hosts"] == ["n1", "n2"]
    assert (
        nodes.plays[0]["nodes"][1]["requires"]["/opt/tb/datasets/default/default_text_document.bin"]
        == 7
    )


def test_all_cells_run_once_and_then_again_so_that_drift_falls_on_all_alike(
    run: Run, nodes: Nodes
) -> None:
    run(small_matrix({"zero_stage": [0, 1, 2]}, repeats=2))
    rounds = [attempt.split() for attempt in nodes.attempts]
    assert rounds == [[f"zero_stage={n}", f"r{r}a1"] for r in (1, 2) for n in (0, 1, 2)]


def test_what_was_stopped_goes_on_in_the_order_of_its_recorded_seed(
    run: Run, nodes: Nodes, tmp_path: Path
) -> None:
    matrix = small_matrix({"zero_stage": [0, 1, 2, 3]}, repeats=3, shuffle_seed=7)
    planned = in_order(matrix.cells, (1, 2, 3), 7)
    nodes.before_play = lambda: os.kill(os.getpid(), signal.SIGINT)
    nodes.endings = [{"steps": 3}]
    assert run(matrix).interrupted
    nodes.before_play = lambda: None
    assert run(matrix).exit_code == 0
    assert nodes.attempts[0] == f"{planned[0][0].name} r1a1"
    assert nodes.attempts[1:] == [
        f"{cell.name} r{repeat}a{2 if run == 0 else 1}"
        for run, (cell, repeat) in enumerate(planned)
    ]
    recorded = json.loads((tmp_path / "m-rack" / "campaign.json").read_text())
    assert recorded["shuffle_seed"] == 7
    # Another order is one of the runs that are left: what ran, ran.
    assert run(replace(matrix, shuffle_seed=8)).kept == 12
    assert find_campaign(tmp_path, None).settings.shuffle_seed == 8


@pytest.mark.parametrize(("days", "known"), [(6, True), (8, False)])
def test_a_run_takes_along_what_doctor_measured_of_its_nodes_in_the_week_before(
    run: Run, tmp_path: Path, days: int, known: bool
) -> None:
    """Doctor may measure again, or its folder may go: the figure stays."""
    before = time.time() - days * 86_400
    checkup = checkup_of(tmp_path, small_cluster().label)
    keep_products(checkup.path, Products({"n1": (Product("fp32", before, (0.5,)),)}), before)
    run(small_matrix({"zero_stage": [0]}))
    shutil.rmtree(checkup.path)
    (record,) = records_of(Campaign(tmp_path / "m-rack"), tmp_path)
    assert record.reached.tflop_per_s == (0.5 if known else None)
    assert ("no matrix product in fp32 on node_rank 0" in record.reached.missing) is not known


def test_a_failing_cell_does_not_stop_the_next(run: Run, nodes: Nodes, tmp_path: Path) -> None:
    nodes.endings = [FAILED, OK]
    tally = run()
    assert (tally.ok, tally.failed, tally.exit_code) == (1, 1, 1)
    assert outcomes(tmp_path) == {
        "zero_stage=0 repeat1 attempt1": "failed",
        "zero_stage=1 repeat1 attempt1": "ok",
    }


@pytest.mark.parametrize(
    "line",
    [
        f"[Rank {'9' * 5000}] Watchdog caught collective operation timeout",
        f"iteration 2/ {'9' * 5000} | lm loss: 1.0 |",
        f"torch_gpt step=1/{'9' * 5000} loss=1 memory_used_mib=1",
        "torch_gpt config log_interval=soon",
    ],
    ids=lambda line: line[:20],
)
def test_no_line_of_a_log_ends_the_campaign_or_the_next_bench(
    run: Run, nodes: Nodes, tmp_path: Path, line: str
) -> None:
    """Issue 12, point 4: bench died without an outcome, and every later one on the same cell."""
    nodes.endings = [{**FAILED, "said": {"n1": f"{line}\nValueError: why\n"}}, OK]
    assert run().exit_code == 1
    assert list(outcomes(tmp_path).values()) == ["failed", "ok"]
    assert (run().kept, len(nodes.plays)) == (2, 2)


def test_a_run_that_our_code_fails_on_is_unreadable_and_the_campaign_goes_on(
    run: Run, nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        monkeypatch.undo()
        raise ValueError("what nobody thought of\x1b[2J")

    monkeypatch.setattr("runner.results.judge.measure_run", broken)
    assert run().exit_code == 1
    assert list(outcomes(tmp_path).values()) == ["unreadable", "ok"]
    attempt = Campaign(tmp_path / "m-rack").attempts(MATRIX.cells[0].id, 1)[-1]
    assert attempt.outcome is not None
    assert re.fullmatch(
        r"what the run left cannot be read: ValueError in test_campaign.py:\d+: what nobody"
        r" thought of; report it with the run's folder",
        attempt.outcome.reason,
    )
    assert (run().kept, len(nodes.plays)) == (2, 2)


def test_the_record_of_a_failure_has_the_logs_own_words(
    run: Run, nodes: Nodes, tmp_path: Path
) -> None:
    nodes.endings = [SILENT]
    run()
    record = records_of(find_campaign(tmp_path, None), tmp_path)[0]
    assert (record.status, record.measurement.intervals) == ("did_not_run", ())
    assert record.reason == "n1: exit code 1: ValueError: the trainer said why"


OOM = TRACEBACK + "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB\n"
GONE = TRACEBACK + "torch.distributed.DistBackendError: NCCL error: ncclRemoteError\n"


def test_the_first_cause_is_that_of_the_node_that_failed_first_by_all_nodes_logs(
    run: Run, nodes: Nodes, tmp_path: Path
) -> None:
    """n1's launcher ended first, but only because n2 ran out of memory."""
    nodes.endings = [{**FAILED, "said": {"n1": GONE, "n2": OOM}}]
    run(small_matrix(defaults={"nodes": 2}))
    attempt = next((tmp_path / "m-rack").glob("*/repeat1/attempt1"))
    said = json.loads((attempt / "outcome.json").read_text())
    sentence = (
        "memory ran out: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB"
        " (nodes/0001-n2/launcher.log:3)"
    )
    assert said["reason"] == f"n1: exit code 1: {sentence}"
    assert (said["ending"], said["diagnosis"]) == ("n1: exit code 1", "out_of_memory")
    assert said["evidence"] == {"log": "nodes/0001-n2/launcher.log", "line": 3}
    record = records_of(find_campaign(tmp_path, None), tmp_path)[0]
    assert record.reason == said["reason"]
    assert record.diagnosis == "out_of_memory"
    assert record.log.endswith("nodes/0001-n2/launcher.log")


def test_collect_reads_the_cause_anew_and_leaves_the_outcome_as_it_was(
    run: Run, nodes: Nodes, tmp_path: Path
) -> None:
    """What was recorded by a version that knew less of logs."""
    nodes.endings = [{**SILENT, "said": {"n1": OOM}}]
    run(small_matrix())
    path = next((tmp_path / "m-rack").glob("*/repeat1/attempt1/outcome.json"))
    said = json.loads(path.read_text())
    older = {"reason": "n1: exit code 1: no idea", "diagnosis": None, "rules": "older"}
    path.write_text(json.dumps({**said, **older}))
    before = path.read_bytes()
    record = records_of(find_campaign(tmp_path, None), tmp_path)[0]
    assert record.reason == said["reason"]
    assert path.read_bytes() == before
    path.write_text(json.dumps({"status": "failed", "cause": "exit", "reason": "as it was"}))
    assert records_of(find_campaign(tmp_path, None), tmp_path)[0].reason == "as it was"


def test_finished_cells_are_kept_without_asking_the_nodes(run: Run, nodes: Nodes) -> None:
    run()
    tally = run()
    assert len(nodes.plays) == 2
    assert nodes.inspections == 1
    assert (tally.ok, tally.kept, tally.exit_code) == (2, 2, 0)


def test_a_kept_failure_still_counts_in_the_exit_code(run: Run, nodes: Nodes) -> None:
    nodes.endings = [FAILED, OK]
    run()
    tally = run()
    assert len(nodes.plays) == 2
    assert (tally.ok, tally.failed, tally.kept, tally.exit_code) == (1, 1, 2, 1)


def test_what_a_machine_or_a_person_ended_is_run_again_by_itself(
    run: Run, nodes: Nodes, tmp_path: Path
) -> None:
    nodes.endings = [LOST, OK, OK]
    assert run().exit_code == 1
    assert run().exit_code == 0
    assert nodes.attempts == ["zero_stage=0 r1a1", "zero_stage=1 r1a1", "zero_stage=0 r1a2"]
    assert [record.attempt for record in records_of(Campaign(tmp_path / "m-rack"), tmp_path)] == [
        2,
        1,
    ]


def test_a_run_without_an_outcome_is_run_again(run: Run, nodes: Nodes, tmp_path: Path) -> None:
    run()
    outcome = next((tmp_path / "m-rack").glob("zero_stage=1*/*/*/outcome.json"))
    outcome.unlink()
    for done in outcome.parent.rglob(names.DONE):
        done.unlink()
    run()
    assert nodes.attempts[2:] == ["zero_stage=1 r1a2"]


@pytest.mark.parametrize("text", ["{}", "[]", '{"status": "ok"', "[" * 100_000])
def test_a_run_whose_outcome_cannot_be_read_is_made_again_beside_it(
    run: Run, nodes: Nodes, tmp_path: Path, text: str
) -> None:
    run()
    cell = MATRIX.cells[0].id
    path = tmp_path / "m-rack" / cell / "repeat1" / "attempt1" / names.OUTCOME
    path.write_text(text)
    shown = io.StringIO()
    view = View(Screen(file=shown))
    assert bench(MATRIX, small_cluster(), tmp_path, engine=nodes, view=view).exit_code == 0
    assert nodes.attempts[2:] == ["zero_stage=0 r1a2"]
    assert "itrunsagain,asanewattempt" in "".join(shown.getvalue().split())
    assert path.read_text() == text


def test_again_runs_finished_cells_once_more(run: Run, nodes: Nodes) -> None:
    run()
    tally = run(again=True, only=["zero_stage=1"])
    assert nodes.attempts[2:] == ["zero_stage=1 r1a2"]
    assert (tally.ok, tally.kept) == (1, 0)


def test_only_launches_the_chosen_and_leaves_the_others_for_later(run: Run, nodes: Nodes) -> None:
    assert run(only=["zero_stage=1"]).ok == 1
    assert run().kept == 1
    assert nodes.attempts == ["zero_stage=1 r1a1", "zero_stage=0 r1a1"]


def test_a_port_in_use_is_tried_again_with_another(run: Run, nodes: Nodes, tmp_path: Path) -> None:
    nodes.endings = [PORT, PORT, OK]
    tally = run(small_matrix())
    assert nodes.attempts == ["torch_gpt r1a1", "torch_gpt r1a2", "torch_gpt r1a3"]
    assert len({play["master_port"] for play in nodes.plays}) == 3
    assert (tally.ok, tally.failed) == (1, 0)


def test_ports_that_are_all_in_use_end_the_cell(run: Run, nodes: Nodes) -> None:
    nodes.endings = [PORT] * 5
    assert run(small_matrix()).failed == 1
    assert len(nodes.plays) == PORT_TRIES


def test_ctrl_c_ends_the_run_keeps_all_and_goes_on_later(
    run: Run, nodes: Nodes, tmp_path: Path
) -> None:
    before = signal.getsignal(signal.SIGINT)
    nodes.before_play = lambda: os.kill(os.getpid(), signal.SIGINT)
    nodes.endings = [{"steps": 3}]
    tally = run()
    assert (tally.interrupted, tally.exit_code, len(nodes.plays)) == (True, 130, 1)
    assert outcomes(tmp_path) == {"zero_stage=0 repeat1 attempt1": "interrupted"}
    assert signal.getsignal(signal.SIGINT) is before
    nodes.before_play = lambda: None
    assert run().exit_code == 0
    assert nodes.attempts[1:] == ["zero_stage=0 r1a2", "zero_stage=1 r1a1"]


def test_a_bad_cell_launches_nothing_and_makes_no_folder(
    run: Run, nodes: Nodes, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"cell zero_stage=0: nodes is 9"):
        run(small_matrix({"zero_stage": [0]}, {"nodes": 9}))
    assert nodes.plays == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("tally", "code"),
    [
        (Tally(ok=2, failed=0, kept=0, interrupted=False), 0),
        (Tally(ok=2, failed=0, kept=2, interrupted=False), 0),
        (Tally(ok=2, failed=1, kept=0, interrupted=False), 1),
        (Tally(ok=0, failed=0, kept=0, interrupted=False), 1),
        (Tally(ok=2, failed=1, kept=0, interrupted=True), 130),
    ],
)
def test_the_exit_code_of_a_tally(tally: Tally, code: int) -> None:
    assert tally.exit_code == code


# --- a matrix that grows --------------------------------------------------------------------------


def test_what_ran_stays_what_is_new_runs_and_what_was_taken_out_comes_back(
    run: Run, nodes: Nodes, tmp_path: Path
) -> None:
    assert run().ok == 2
    tally = run(small_matrix({"zero_stage": [1, 2], "micro_batch_size": [4]}, repeats=2))
    assert (tally.ok, tally.kept) == (4, 1)
    assert sorted(nodes.attempts[2:]) == [
        "zero_stage=1,micro_batch_size=4 r2a1",
        "zero_stage=2,micro_batch_size=4 r1a1",
        "zero_stage=2,micro_batch_size=4 r2a1",
    ]
    # What ran under another name is in the folder of before.
    assert sorted(outcomes(tmp_path))[:3] == [
        "zero_stage=0 repeat1 attempt1",
        "zero_stage=1 repeat1 attempt1",
        "zero_stage=1 repeat2 attempt1",
    ]
    records = records_of(find_campaign(tmp_path, None), tmp_path)
    assert {record.cell for record in records} == {
        "zero_stage=1,micro_batch_size=4",
        "zero_stage=2,micro_batch_size=4",
    }
    assert {record.axes["micro_batch_size"] for record in records} == {4}
    assert run().kept == 2


def test_a_bench_killed_once_the_campaign_grew_is_gone_on_with(
    run: Run, nodes: Nodes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Between the write of campaign.json and the first new run."""
    run()
    more = small_matrix({"zero_stage": [1, 2]})

    def killed(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(Rounds, "go", killed)
        with pytest.raises(SystemExit):
            run(more)
    written = find_campaign(tmp_path, None)
    assert [cell.name for cell in written.settings.cells] == ["zero_stage=1", "zero_stage=2"]
    assert written.hidden.cells == ("zero_stage=0",)
    tally = run(more)
    assert (tally.ok, tally.kept, nodes.attempts[2:]) == (2, 1, ["zero_stage=2 r1a1"])


def test_what_failed_runs_once_more_on_request(run: Run, nodes: Nodes) -> None:
    nodes.endings = [FAILED]
    assert run().exit_code == 1
    assert run().kept == 2
    tally = run(failed=True)
    assert (tally.ok, tally.failed, tally.kept) == (2, 0, 1)


def test_a_growth_that_the_nodes_refuse_changes_nothing(
    run: Run, nodes: Nodes, tmp_path: Path
) -> None:
    """A mixed pin stays refused, with one sentence."""
    run()
    before = (tmp_path / "m-rack" / "campaign.json").read_bytes()
    nodes.commit = "c1"
    with pytest.raises(
        UserError,
        match=r"is not what campaign m-rack began with .*--name NAME`, or set the nodes back$",
    ):
        run(small_matrix({"zero_stage": [1, 2]}))
    assert (tmp_path / "m-rack" / "campaign.json").read_bytes() == before


def test_a_refused_campaign_leaves_no_folder(run: Run, nodes: Nodes, tmp_path: Path) -> None:
    def refuse() -> None:
        raise UserError("n1 is not set up")

    nodes.before_inspect = refuse
    with pytest.raises(UserError, match="not set up"):
        run()
    with pytest.raises(UserError, match="matches no cell"):
        run(only=["x"])
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "m-rack").mkdir()
    (tmp_path / "m-rack" / "notes.txt").write_text("somebody's")
    with pytest.raises(UserError, match="not set up"):
        run()
    assert (tmp_path / "m-rack" / "notes.txt").exists()


def test_a_plan_says_what_is_kept_and_how_long_the_rest_takes(
    run: Run, nodes: Nodes, tmp_path: Path
) -> None:
    def look(matrix: Matrix, **more: Any) -> Outlook:
        return plan_summary.look(Campaign(tmp_path / "m-rack"), matrix, small_cluster(), **more)

    new = look(MATRIX)
    assert not list(tmp_path.iterdir())
    assert "campaign m-rack: 0 kept, 2 new, 0 hidden" in new.words()
    assert {each.need.by for each in new.cells} == {"the estimate"}
    assert ", by the estimate" in new.words()
    run()
    for path in tmp_path.rglob("outcome.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "wall_s": 100.0}))
    more = small_matrix({"zero_stage": [1, 2, 3]}, repeats=2, time_limit_s=90)
    grown = look(more)
    assert [(each.kept, each.need.runs, each.need.by) for each in grown.cells] == [
        (1, 1, "its own finished runs"),
        (0, 2, "the campaign's finished runs"),
        (0, 2, "the campaign's finished runs"),
    ]
    assert grown.to_json()["expected_s"] == 5 * 90.0  # a run ends by its limit
    assert grown.hidden.runs == 1
    assert grown.warnings[0] == (
        "warning: cell zero_stage=1: train_iters 50 takes about 100 s by its own finished runs, and"
        " time_limit_s 90 ends it before; raise time_limit_s, or lower train_iters"
    )
    assert look(more, only=["zero_stage=1"], again=True).to_json()["new"] == 2
    assert "nothing is left to run" in look(MATRIX).words()

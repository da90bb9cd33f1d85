"""Faults on purpose, by the real supervisor, with this machine as the node: what they hit."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.test_supervisor import Make, Run, alive, gone, make, wait  # noqa: F401

# Two ranks under a launcher that prints an iteration a tenth of a second, and ends with a rank.
TRAINER = """
for rank in 0 1; do LOCAL_RANK=$rank sleep 1000 & eval pid$rank=$!; done
echo pids $pid0 $pid1
i=0
while kill -0 $pid0 && kill -0 $pid1; do i=$((i+1)); echo "torch_gpt step=$i/100"; sleep 0.1; done
kill -9 $pid0 $pid1; exit 3
"""


def fault(what: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": what,
        "node": 0,
        "rank": 0,
        "iteration": 0,
        "after_s": 0.0,
        "for_s": 0.0,
        **more,
    }


def chain(folder: Path, *faults: dict[str, Any], node: int = 0) -> dict[str, Any]:
    return {
        "folder": str(folder / "r1-1"),
        "faults": list(faults),
        "iteration": r"torch_gpt step=(\d{1,9})/",
        "node": node,
    }


@pytest.fixture
def bystander() -> Iterator[int]:
    """A process of this user that is not the run's."""
    with subprocess.Popen(["sleep", "1000"], env={**os.environ, "LOCAL_RANK": "1"}) as process:
        yield process.pid
        process.kill()


def pids(run: Run) -> list[int]:
    run.wait_for_log(b"pids ")
    found = re.search(rb"pids (\d+) (\d+)", (run.dir / "launcher.log").read_bytes())
    assert found
    return [int(found[1]), int(found[2])]


def log(run: Run) -> str:
    return str((run.dir / "launcher.log").read_text())


def test_a_rank_is_killed_at_an_iteration_and_no_other_process(
    make: Make,  # noqa: F811
    tmp_path: Path,
    bystander: int,
) -> None:
    run = make(TRAINER, chain=chain(tmp_path, fault("kill_rank", rank=1, iteration=5)))
    run.start()
    first, second = pids(run)
    wait(lambda: gone(second))
    said = re.search(
        r"\[trainbench: fault 0 kill_rank node=0 rank=1 at=([\d.]+) iteration=(\d+)\]", log(run)
    )
    assert said
    assert int(said[2]) >= 5
    assert abs(float(said[1]) - time.time()) < 60
    assert run.ended()["rc"] == 3
    assert gone(first)  # with its run
    assert alive(bystander)


def test_the_one_process_of_a_launcher_without_ranks_is_killed(
    make: Make,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Not the sampler, which is the run's, too, and older."""
    run = make("sleep 1000", chain=chain(tmp_path, fault("kill_rank", after_s=0.3))).start()
    done = run.done()
    assert (done["ended_by"], done["signal"]) == ("exit", 9)


def test_a_node_is_killed_with_its_supervisor(
    make: Make,  # noqa: F811
    tmp_path: Path,
    bystander: int,
) -> None:
    run = make(TRAINER, chain=chain(tmp_path, fault("kill_node", after_s=0.5))).start()
    ranks, daemon = pids(run), run.daemon
    wait(lambda: all(map(gone, [*ranks, daemon])))
    assert run.done()["ended_by"] == "supervisor_lost"
    assert "kill_node" in log(run)
    assert alive(bystander)


def test_a_fault_that_ends_an_attempt_is_the_last_that_counts_seconds_in_it(
    make: Make,  # noqa: F811
    tmp_path: Path,
) -> None:
    """What would come while the attempt ends costs nothing: it waits for the next one."""
    slow_end = TRAINER.replace("kill -9 $pid0 $pid1;", "sleep 1; kill -9 $pid0 $pid1;")
    planned = chain(tmp_path, fault("kill_rank", after_s=0.6), fault("kill_rank", after_s=0.1))
    first = make(slow_end, chain=planned).start()
    first.ended()
    assert "fault 0 kill_rank" in log(first)
    assert "fault 1" not in log(first)
    second = make(slow_end, chain=planned, run_id="test/again/r1a2").start()
    second.ended()
    assert "fault 0" not in log(second)
    assert "fault 1 kill_rank" in log(second)


def test_a_stop_ends_by_itself(make: Make, tmp_path: Path) -> None:  # noqa: F811
    stop = fault("stop", iteration=3, for_s=1.0)
    run = make(TRAINER, chain=chain(tmp_path, stop)).start()
    _, second = pids(run)
    first = pids(run)[0]
    stat = Path(f"/proc/{first}/stat")
    wait(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T")
    wait(lambda: "fault 0 undone" in log(run))
    assert stat.read_text().rsplit(")", 1)[1].split()[0] in "RS"
    assert alive(second)


def test_a_fault_comes_once_whoever_starts_the_next_attempt(
    make: Make,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Attempts 1 and 2 of a chain: the second one's fault is the next."""
    faults = fault("kill_rank", iteration=2), fault("kill_rank", rank=1, iteration=4)
    for number in (1, 2):
        told = chain(tmp_path, *faults)
        run = make(TRAINER, chain=told, run_id=f"test/cell/r1a{number}").start()
        assert run.done()["rc"] == 3
        assert re.findall(r"fault (\d) kill_rank", log(run)) == [str(number - 1)]
    run = make(TRAINER, chain=chain(tmp_path, *faults), run_id="test/cell/r1a3").start()
    run.wait_for_log(b"step=8/")
    assert "fault" not in log(run)


def test_the_first_attempt_of_a_chain_finds_nothing_of_an_older_one(
    make: Make,  # noqa: F811
    tmp_path: Path,
) -> None:
    folder = tmp_path / "r1-1"
    (tmp_path / "r1-9").mkdir()
    (tmp_path / "r2-1").mkdir()
    folder.mkdir()
    (folder / "step-00000005").mkdir()
    run = make("true", chain=chain(tmp_path), run_id="test/cell/r1a1")
    run.finish()
    assert list(folder.iterdir()) == [folder / "faults"]
    assert not (tmp_path / "r1-9").exists()
    assert (tmp_path / "r2-1").exists()


def test_checkpoints_stay_for_the_next_attempt(make: Make, tmp_path: Path) -> None:  # noqa: F811
    script = f"touch {tmp_path}/r1-1/step; exit 1"
    make(script, chain=chain(tmp_path), run_id="test/cell/r1a1").finish()
    assert (tmp_path / "r1-1" / "step").exists()
    script = f"test -e {tmp_path}/r1-1/step"
    run = make(script, chain=chain(tmp_path), run_id="test/cell/r1a2")
    assert run.finish()["rc"] == 0
    run.ask("run_folder:close", keep=False, all_well=True)
    assert not (tmp_path / "r1-1").exists()


def test_a_node_that_does_not_see_the_folder_says_so(make: Make, tmp_path: Path) -> None:  # noqa: F811
    run = make("true", chain=chain(tmp_path, node=1))
    done = run.finish()
    assert "cluster_checkpoints" in done["message"]

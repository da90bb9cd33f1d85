"""What is said of a run beside its outcome: where its log contradicts its matrix, where it hung."""

from pathlib import Path
from typing import Any

import pytest

from runner.results.judge import adding, measure_run
from runner.results.stall import read_stacks, waited_for
from runner.terms.outcome import Outcome
from tests.runner.systems.test_command import matrix

TITAN = Path(__file__).parents[2] / "data" / "torchtitan" / "h200_8b_fsdp2.log"
OWN = {
    "step": r"step (\d+)",
    "step_time": {"pattern": r"dt ([\d.]+)", "unit": "ms"},
    "tokens_per_s": r"tok/s (\d+)",
}


@pytest.fixture
def said(tmp_path: Path) -> Any:
    """Return the sentences of one cell and one log."""

    def of(text: bytes, **changes: Any) -> list[str]:
        log = tmp_path / "log"
        log.write_bytes(text)
        return [*measure_run(matrix(**changes).cells[0], {0: log}).contradicted]

    return of


def test_a_familys_log_knows_its_sizes(said: Any) -> None:
    """torchtitan's, of 2 devices, 8192 tokens and a batch of its own."""
    right = {"log": "torchtitan", "devices_per_node": 2, "tokens_per_sample": 8192}
    text = TITAN.read_bytes()
    assert said(text, **right) == []
    (tokens,) = said(text, **{**right, "tokens_per_sample": 1024, "samples_per_step": None})
    assert tokens == "the cell says 1024 tokens_per_sample, and its log 8192"
    assert "the cell says 512 samples an iteration" in said(text, **right, samples_per_step=512)[0]


@pytest.mark.parametrize(("batch", "count"), [(4, 0), (512, 1)])
def test_a_rate_and_a_time_make_the_batch(said: Any, batch: int, count: int) -> None:
    """1024 tokens/s at half a second and 128 a sample are 4 samples, whatever the matrix says."""
    text = b"step 1 dt 500 tok/s 1024\nstep 2 dt 500 tok/s 1024\n"
    found = said(text, log=OWN, samples_per_step=batch, tokens_per_sample=128)
    assert len(found) == count


def test_what_one_side_does_not_say_is_no_contradiction(said: Any) -> None:
    """Neither is a log without steps."""
    text = b"step 1 dt 500 tok/s 1024\n"
    assert said(text, log=OWN) == said(b"", log=OWN, samples_per_step=512) == []


def test_more_words_stand_behind_what_did_not_come_home() -> None:
    """An ok outcome that lacks a part of a log keeps saying so."""
    lacks = Outcome("ok", "", "the log of b is incomplete")
    assert adding(lacks, "`loss` matched no line").reason == (
        "the log of b is incomplete; `loss` matched no line"
    )
    assert adding(lacks) == lacks


IMPORT = (
    '  File "/e/torch/distributed/{}.py", line 7 in <module>\n  File "<frozen importlib>", line 9'
)
COLLECTIVE = '  File "/e/torch/distributed/distributed_c10d.py", line 7 in all_reduce'
AT_WORK = '  File "/opt/train.py", line 5 in step'


def stacks(*frames: str) -> str:
    return waited_for(
        read_stacks(
            "node3",
            "".join(
                f"[trainbench: rank {rank}, pid 1, stood at:]\nCurrent thread 0x1:\n{frame}\n"
                for rank, frame in enumerate(frames)
            ),
        )
    )


def test_ranks_that_import_wait_in_no_collective() -> None:
    assert stacks(*(IMPORT.format(name) for name in ("a", "b", "c")), AT_WORK) == ""


def test_the_one_that_is_in_no_collective_is_named() -> None:
    said = "rank 1 (node3) hung at /opt/train.py:5 in step, the others waited in a collective"
    assert stacks(COLLECTIVE, AT_WORK, COLLECTIVE) == said
    assert stacks(COLLECTIVE, IMPORT.format("a"), COLLECTIVE).startswith("rank 1 (node3) hung at")

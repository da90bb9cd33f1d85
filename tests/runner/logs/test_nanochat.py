"""nanochat's parser on its own output: nanochat 92d63d4 on torch 2.13, `scripts.base_train` on one
CPU process: depth 2, head_dim 32, 4 sequences of 128 tokens, total batch size 1024, 30 iterations.
"""

from typing import Any

import pytest

from runner.base.paths import PROJECT
from runner.logs.kinds import readers_of_family
from runner.logs.measure import measure

RECORDED = (PROJECT / "tests" / "data" / "nanochat" / "cpu.log").read_bytes()


def test_later_stages_of_a_log_are_said_and_not_read(read: Any) -> None:
    base = (
        "step 00001/00002 (50.00%) | loss: 6.8 | lrm: 0.05 | dt: 1.00ms | tok/sec: 5 | mfu: 0.00 |"
    )
    for later in (base.replace("/00002", ""), "Step 00000/00700 | Training loss: 1.2| lrm: 1.0"):
        result = read([base, base.replace("00001/", "00002/"), later])
        assert (result["family"], result["logged_lines"], result["runs"]) == ("nanochat", 2, 1)
        assert "steps of a later stage" in result["reason"]
    assert "later stage" not in read([base])["reason"]


def test_a_recorded_log() -> None:
    found = measure(readers_of_family("nanochat"), {0: [RECORDED]})
    assert [step.iteration for step in found.intervals] == list(range(1, 31))
    first, second = found.intervals[:2]
    assert (first.loss, first.step_time_ms) == (6.932098, 307396.45)  # it compiles
    assert (second.step_time_ms, second.tokens_per_s) == (189.92, 5391)
    assert second.samples_per_s == 5391 / 128
    assert found.facts == {"tokens_per_sample": "128", "devices": "1", "train_iters": "30"}
    assert found.memory_allocated_mib is None  # a CPU's 0.00MiB is none


def test_auto(read: Any) -> None:
    result = read(RECORDED)
    assert (result["system"], result["logged_lines"]) == ("command", 30)
    assert (result["first_iteration"], result["last_iteration"]) == (1, 30)
    assert result["step_time_ms_median"] == pytest.approx(150, abs=10)
    assert result["last_loss"] == 6.818525


@pytest.mark.made_log
def test_sft_counts_from_1_and_older_lines_have_other_names(read: Any) -> None:
    line = (
        "step 00001 (3.33%) | loss: 1.250000 | lrm: 0.05 | dt: 200.00ms | tok/sec: 1,303,857 |"
        " mfu: 41.00 | epoch: 1 | total time: 0.00m"
    )
    result = read([line, line.replace("00001", "00002")])
    assert (result["first_iteration"], result["last_iteration"]) == (1, 2)
    assert (result["step_time_ms"], result["last_loss"]) == (200, 1.25)
    with_norm = line.replace("00001", "00000/00030").replace(" lrm", " grad norm: 0.5000 | lrm")
    found = measure(readers_of_family("nanochat"), {0: [f"{with_norm}\n".encode()]})
    assert (found.intervals[0].iteration, found.intervals[0].grad_norm) == (1, 0.5)
    assert found.intervals[0].tokens_per_s == 1303857

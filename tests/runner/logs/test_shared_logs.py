"""Every real log of the shared folder, with the counts and medians of its INDEX.tsv.

The folder is not part of the project: TRAINBENCH_SHARED names it, else these tests are skipped.
"""

import csv
import os
import random
from itertools import islice, pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from runner.commands.parse import parse
from runner.results.diagnosis.causes import STATUSES
from runner.results.parsed import read
from tests.runner.logs.test_properties import Steps, steps

SHARED = os.environ.get("TRAINBENCH_SHARED")
LOGS = Path(SHARED or "/nonexistent") / "logs"
WHY = "TRAINBENCH_SHARED names no folder: the shared real logs are not checked"
pytestmark = pytest.mark.skipif(not (LOGS / "INDEX.tsv").is_file(), reason=WHY)


def index() -> list[dict[str, str]]:
    if not (LOGS / "INDEX.tsv").is_file():
        return [{"file": "none"}]
    with (LOGS / "INDEX.tsv").open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


# Where INDEX.tsv, made by plain regular expressions, says less than the log does.
# An iteration line whose `[default7]:` has a space before it.
UNCOUNTED = {"bigscience-chronicles/train__tr11-176B-ml__chronicles_L45.txt": 1}
# A NaN loss drops its field while the counter of NaN iterations stays 0 (bigscience issue 396).
NAN = {
    "issue-excerpts/bs_megds_issue396_nan_loss_field_missing.txt": 3,
    "bigscience-chronicles/train__tr8-104B-wide__chronicles_L940.txt": 1,
}
# DeepSpeed's OVERFLOW lines beside a counter of skipped iterations that stays 0.
OVERFLOW = {"bigscience-chronicles/train__tr8b-104B__chronicles_L446.txt": 6}
STATUS = {
    "failures/assertion_28_not_divisible_by_8.log": "assertion",
    "failures/cuda_oom_after_5_iterations_single_node.log": "out_of_memory",
    "failures/disk_full_on_checkpoint_after_20_iterations.log": "disk_full",
    "failures/importerror_apex_undefined_symbol_childfailed.log": "missing_module",
    "failures/index_cache_missing_on_node2_then_nccl_watchdog_10min.log": "missing_dataset_index",
    "failures/launcher_Killed_after_1_iteration.log": "killed",
    "failures/nccl_error_unhandled_cuda_error_distbackend.log": "collective_error",
    "failures/peer_closed_nccl_socket_no_steps_no_traceback.log": "connection_lost",
    "issue-excerpts/ascend_hccl_EI0002.txt": "collective_timeout",
    **dict.fromkeys(NAN, "diverged"),
    "issue-excerpts/libai_issue340_no_ib_device.txt": "network_device",
    "issue-excerpts/nvidia_megatron_issue1140_nccl_timeout.txt": "collective_timeout",
    "issue-excerpts/pytorch_issue107021_c10d_rendezvous.txt": "rendezvous",
    "bigscience-chronicles/jz__slurm__README_L815.txt": "connection_lost",
    "bigscience-chronicles/train__tr1-13B-base__chronicles_L232.txt": "device_error",
    "bigscience-chronicles/train__tr1-13B-base__chronicles_L64.txt": "out_of_memory",
    "bigscience-chronicles/train__tr11-176B-ml__chronicles_L82.txt": "device_error",
    "ms-meg-ds/rltd_gpt3-0.125B-baseline-2f2b49f.log": "interrupted",
    "nvidia-megatron/meg_gpt2_base_n16_dp1_tp4_pp16-1809577.out": "cancelled",
    "nvidia-megatron/meg_gpt2_base_n4_dp1_tp4_pp4-1809579.out": "cancelled",
}
SYSTEM = {
    "bigscience-meg-ds": "megatron_deepspeed",
    "ms-meg-ds": "megatron_deepspeed",
    "ms-meg-ds-stark": "megatron_deepspeed",
    "dsexamples-v115": "megatron_lm",
    "nvidia-megatron": "megatron_lm",
    "libai": "libai",
    "oneflow-gpt2": "oneflow_gpt",
}


# Causes of which no real log is at hand: tests/runner/results/test_diagnosis.py makes their lines.
MADE_ONLY = {
    "launcher_error",
    "missing_compiler",
    "missing_file",
    "node_lost",
    "process_failed",
    "remote_shell",
    "segfault",
    "shell_error",
    "time_limit",
}
RECORDED = {"error", "killed"}  # tests/data/torchrun


def test_every_cause_has_a_real_log_or_is_known_to_have_none() -> None:
    assert set(STATUS.values()) | RECORDED | MADE_ONLY == {
        word for word, status in STATUSES.items() if status.says
    } - {
        "ok",
        "no_step",
        "unfinished",
    }
    assert not MADE_ONLY & (RECORDED | set(STATUS.values()))


# Of several runs in one file the last is read: its lines, and their median time.
LAST_RUN = {
    "libai/magicprompt_log.txt-b7a8f3e.log": (2, ""),
    "libai/rwkv_log.txt-75c9489.log": (48, ""),
    "ms-meg-ds-stark/dual16_pdsh_prefixed_collect_60iter.log": (20, "17199.6"),
}


def expected(row: dict[str, str]) -> tuple[int, str, str]:
    """Steps, median step time and median samples/s: of the best kind of lines in the log."""
    if int(row["n_iter_lines"]):
        return int(row["n_iter_lines"]), row["median_ms"], row["median_samples_per_s"]
    if int(row["n_steps_lines"]):
        return int(row["n_steps_lines"]), "", row["median_steps_samples_s"]
    if int(row["n_libai_lines"]):
        return int(row["n_libai_lines"]), "", ""
    return int(row["n_SamplesPerSec"]), "", ""


@pytest.mark.parametrize("row", index(), ids=lambda row: row["file"])
def test_a_log_reads_as_its_index_says(row: dict[str, str]) -> None:
    name = row["file"]
    result = parse([LOGS / name], None, warmup_iters=0)
    steps, time_ms, rate = expected(row)
    steps = UNCOUNTED.get(name, steps)
    if name in LAST_RUN:
        (steps, time_ms), rate = LAST_RUN[name], ""
        assert "the last one is read" in result["reason"]
    if name.startswith("oneflow-gpt2") or name.endswith(".json"):
        steps = result["logged_lines"]  # the index does not count these lines
    assert result["logged_lines"] == steps
    check_numbers(result, name, row, time_ms, rate)
    assert result["status"] == STATUS.get(name, how_it_ended(result))
    assert result["system"] == SYSTEM.get(name.split("/")[0], result["system"])


def how_it_ended(result: dict[str, Any]) -> str:
    """How a log ended where nothing failed: its lines say of how many iterations they are."""
    if not result["logged_lines"]:
        return "no_step"
    of = result["planned_iterations"] or 0
    return "unfinished" if result["last_iteration"] < of else "ok"


def check_numbers(
    result: dict[str, Any], name: str, row: dict[str, str], time_ms: str, rate: str
) -> None:
    lines = read([LOGS / name], warmup_iters=0).measurement.intervals
    if time_ms:  # of all lines, also of those with skipped iterations
        times = [line.step_time_ms for line in lines if line.step_time_ms]
        assert median(times) == pytest.approx(float(time_ms), abs=0.0501)
    if rate and name in OVERFLOW:  # a thousandth of what its own batch size and time make
        assert result["samples_per_s"] is None
        assert "rate x time of the log's lines make 2.115" in result["reason"]
    elif rate:
        rates = [line.samples_per_s for line in lines if line.samples_per_s]
        assert median(rates) == pytest.approx(float(rate), abs=0.000501)
    if int(row["n_iter_lines"]):
        assert result["planned_iterations"] == int(row["of_iters"])
        assert result["runs"] == int(row["n_runs"])
        assert result["first_iteration"] == int(row["first_iter"])
        assert result["last_iteration"] == int(row["last_iter"])
        assert result["skipped"] == OVERFLOW.get(name, int(row["sum_skipped"]))
        assert result["nan"] == NAN.get(name, int(row["sum_nan"]))
    if int(row["n_libai_lines"]) and name not in LAST_RUN:
        assert result["last_iteration"] == int(row["libai_last_iter"]) + 1  # it counts from 0
        assert result["samples_per_s_median"] == pytest.approx(
            float(row["libai_last_throughput"]), rel=0.03
        )
    if not result["logged_lines"]:
        numbers = ("first_iteration", "last_iteration", "step_time_ms", "samples_per_s")
        assert all(result[key] is None for key in (*numbers, "last_loss", "memory_mib"))


def test_a_failure_is_named_from_both_nodes() -> None:
    """The node that logged steps knows nothing; the other one has the cause."""
    torchrun = "torchrun_2node_NODE0_ONLY_no_iteration_lines_tp1pp4dp4.log"
    first = LOGS / "ms-meg-ds-stark" / torchrun
    second = LOGS / "failures" / "index_cache_missing_on_node2_then_nccl_watchdog_10min.log"
    for order in ([first, second], [second, first]):
        result = parse(order, None)
        assert result["status"] == "missing_dataset_index"
        assert "_doc_idx.npy" in result["reason"]
        assert second.name in result["reason"]


def test_log_and_metrics_of_one_libai_run_are_counted_once() -> None:
    log, metrics = LOGS / "libai/rwkv_log.txt-75c9489.log", LOGS / "libai/rwkv_metrics-75c9489.json"
    assert parse([log, metrics], None)["logged_lines"] == parse([log], None)["logged_lines"] == 48


REAL = (
    "failures/cuda_oom_after_5_iterations_single_node.log",
    "ms-meg-ds/MoE_gpt3-0.125B-tokendropping-2f2b49f.log",
    "nvidia-megatron/meg_gpt2_perf_n16.out",
    "libai/magicprompt_log.txt-010b465.log",
    "deepspeed-other/rltd_gpt_check_base-84f10a8.log",
    "oneflow-gpt2/oneflow_gpt_table_4n8g_2x4x4_from_dlperf_readme.log",
)


@pytest.mark.parametrize("name", REAL)
def test_cuts_prefixes_and_other_writers_invent_no_step_in_real_logs(name: str) -> None:
    text = (LOGS / name).read_bytes()[-200_000:]
    other = (LOGS / REAL[0]).read_bytes()[-60_000:].splitlines(keepends=True)
    whole, chance = steps([text]), random.Random(name)
    for _ in range(8):
        cuts = sorted(chance.randrange(len(text)) for _ in range(6))
        edges = [0, *cuts, len(text)]
        pieces = [text[begin:end] for begin, end in pairwise(edges)]
        assert steps(pieces) == whole
        assert within(steps([text[: cuts[0]]]), whole)
        assert within(steps([text.replace(b"\n", b"\n[default7]:")]), whole)
        mixed = [part for piece in pieces for part in (piece, chance.choice(other))]
        both = {kind: whole[kind] | found for kind, found in steps([b"".join(other)]).items()}
        assert within(steps([b"".join(mixed)]), both)


def within(found: Steps, whole: Steps) -> bool:
    return all(found[kind] <= whole[kind] for kind in found)


@pytest.mark.parametrize(
    ("file", "lines", "status", "line"),
    [
        # Launches whose device had no memory, behind one that logged a step; then one that died.
        ("libai/magicprompt_log.txt-b7a8f3e.log", 1990, "out_of_memory", 1982),
        ("libai/magicprompt_log.txt-b7a8f3e.log", 6142, "out_of_memory", 6134),
        ("libai/magicprompt_log.txt-b7a8f3e.log", 3159, "no_step", None),
        # The engine was set up, and nothing came after.
        ("ms-meg-ds/MoE_gpt3-0.125B-tokendropping-2f2b49f.log", 2690, "no_step", None),
    ],
)
def test_the_last_launch_of_a_real_log_that_ends_there(
    file: str, lines: int, status: str, line: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "cut.log"
    with (LOGS / file).open("rb") as stream:
        path.write_bytes(b"".join(islice(stream, lines)))
    result = parse([path], None)
    assert result["status"] == status
    assert line is None or f"(cut.log:{line})" in result["reason"]


def test_a_real_timer_of_micro_steps() -> None:
    """1,048 of them are 524 steps: accumulation 2."""
    result = parse([LOGS / "deepspeed-other/rltd_gpt_check_base-84f10a8.log"], None)
    assert (result["first_iteration"], result["last_iteration"], result["runs"]) == (2, 524, 1)


@pytest.mark.parametrize("first", ["assertion_28_not", "importerror_apex", "cuda_oom"])
@pytest.mark.parametrize("second", ["importerror_apex", "nccl_error_", "peer_closed_nccl"])
def test_of_two_real_launches_in_one_file_the_seconds_failure_is_told(
    first: str, second: str, tmp_path: Path
) -> None:
    logs = [next((LOGS / "failures").glob(f"{name}*")) for name in (first, second)]
    path = tmp_path / "two.log"
    path.write_bytes(b"\n".join(log.read_bytes() for log in logs))
    assert parse([path], None)["status"] == STATUS[f"failures/{logs[1].name}"]

"""Bad ends of the trainers of 2024 to 2026, each from a log as `parse` reads it.

The words are those of the projects' sources and of logs in their issues (named at each end); steps
before them are made lines (tests/runner/logs/made_lines.py), or copied from the same issues.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from tests.runner.logs.made_lines import libai, megatron, pipe, torchtitan

pytestmark = pytest.mark.made_log


class End(NamedTuple):
    """A log's end: what it is called, and its lines. The last may be torn."""

    status: str
    lines: Sequence[str]


def trace(text: str, prefix: str = "") -> list[str]:
    lines = ["Traceback (most recent call last):", '  File "train.py", line 7, in <module>', text]
    return [prefix + line for line in lines]


MEGATRON = [megatron(step, of=120_000) for step in (49, 50, 51)]
DONE = [megatron(step, of=3) for step in (1, 2, 3)]
TITAN = [
    "[rank0]:[titan] 2025-08-22 07:52:57,498 - root - INFO - Trainer is initialized with local"
    " batch size 1, global batch size 8, gradient accumulation steps 1, sequence length 8192,"
    " total steps 1000 (warmup 200)",
    "[rank0]:[titan] 2025-08-22 07:52:57,498 - root - INFO - Training starts at step 1",
    *(torchtitan(step) for step in (1, 10, 20)),
]
LIMIT = (
    "slurmstepd: error: *** JOB 494583 ON n1 CANCELLED AT 2024-04-20T09:09:37 DUE TO TIME LIMIT ***"
)
CANCELLED = "slurmstepd: error: *** STEP 494583.0 ON n1 CANCELLED AT 2024-04-20T09:09:37 ***"
# Slurm of 2025 has a time there (NVIDIA-NeMo/Megatron-Bridge issue 3427).
STAMPED = (
    "[2026-04-20T03:25:23.011] error: *** STEP 1942963.1 ON n1 CANCELLED AT 2026-04-20T03:25:23 ***"
)
LLM_C = [
    f"step {step:4}/19560 | loss 7.558321 (+nanz)| norm 15.3640 (+nanz)| lr 4.29e-06 |"
    f" 1300.18 ms | 49.1% bf16 MFU | 403243 tok/s"
    for step in (5, 6, 7)
]
# Hugging Face's Trainer (transformers trainer.py `_inner_training_loop`), LLaMA-Factory issue 7781.
TRAINER = [
    "[INFO|trainer.py:2414] 2025-04-20 04:08:53,101 >> ***** Running training *****",
    "[INFO|trainer.py:2415] 2025-04-20 04:08:53,101 >>   Num examples = 1,000",
]
OBJECTS = [
    "{'loss': 1.2, 'grad_norm': 0.8, 'learning_rate': 5e-05, 'epoch': 0.08}",
    " 12%|█▎        | 5/40 [00:00<00:02, 13.91it/s]",
    "{'loss': 1.1, 'grad_norm': 0.8, 'learning_rate': 5e-05, 'epoch': 0.16}",
    " 25%|██▌       | 10/40 [00:00<00:02, 13.91it/s]",
]
FACTORY = [
    "[INFO|2025-04-20 04:07:48] llamafactory.cli:143 >> Initializing 8 distributed tasks at:"
    " 127.0.0.1:40435",
    "[INFO|2025-04-20 04:08:01] llamafactory.hparams.parser:423 >> Process rank: 0, world size: 8,"
    " device: cuda:0, distributed training: True, compute dtype: torch.bfloat16",
]
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 270.00 MiB. GPU 6 has a total"
# A BERT run of MLPerf 4.0 that missed its target (its log, as mlperf_logging writes it).
MLLOG = ':::MLLOG {{"namespace": "", "time_ms": 17198437962{}, "event_type": "{}", "key": "{}", '
BLOCKS = [
    MLLOG.format(10, "POINT_IN_TIME", "global_batch_size") + '"value": 448, "metadata": {}}',
    MLLOG.format(20, "INTERVAL_START", "block_start")
    + '"value": null, "metadata": {"lineno": 2, "step": 0}}',
    MLLOG.format(72, "INTERVAL_END", "block_stop")
    + '"value": null, "metadata": {"lineno": 3, "step": 100}}',
]
ABORTED = [
    MLLOG.format(72, "INTERVAL_END", "run_stop") + '"value": null, "metadata": {"file":'
    ' "/workspace/bert/run_pretraining.py", "lineno": 1996, "status": "aborted"}}',
    MLLOG.format(72, "POINT_IN_TIME", "tracked_stats")
    + '"value": {"throughput": 12792.21963002196}, "metadata": {"step": 1}}',
]

ENDS: dict[str, End] = {
    "Slurm's limit in a torn step line": End(
        "time_limit", [*MEGATRON, megatron(52, of=120_000)[:70] + LIMIT]
    ),
    "scancel in a torn step line": End("cancelled", [*TITAN, torchtitan(30)[:95] + CANCELLED]),
    "Slurm's limit on a line of its own": End("time_limit", [*MEGATRON, LIMIT]),
    "scancel, as Slurm writes it today": End("cancelled", [*MEGATRON, STAMPED]),
    "oom-kill in a torn step line of LiBai": End(
        "out_of_memory",
        [
            libai(99, time=1.0),
            libai(199, time=1.0)[:60]
            + "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some of the step tasks"
            " have been OOM Killed.",
        ],
    ),
    "MLPerf's run_stop: aborted": End("unfinished", [*BLOCKS, *ABORTED]),
    # karpathy/llm.c llmc/cuda_common.h:36, cublas_common.h:37, zero.cuh:35, llmc/utils.h
    "llm.c: CUDA, no memory": End(
        "out_of_memory", ["[CUDA ERROR] at file train_gpt2.cu:412:", "out of memory"]
    ),
    "llm.c: CUDA, behind steps": End(
        "device_error",
        [
            *LLM_C,
            "[CUDA ERROR] at file llmc/attention.cuh:231:",
            "an illegal memory access was encountered",
        ],
    ),
    "llm.c: cuBLAS": End("device_error", [*LLM_C, "[cuBLAS ERROR]: 14 llmc/matmul.cuh 228"]),
    "llm.c: NCCL": End(
        "collective_error",
        [
            "[NCCL ERROR] at file ./llmc/zero.cuh:432:",
            "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        ],
    ),
    "llm.c: assert": End(  # issue 727
        "assertion",
        [
            "train_gpt2cu: llmc/dataloader.h:186: void dataloader_init(DataLoader*, const char*,"
            " size_t, size_t, int, int, int): Assertion `shard_ntok >= (int64_t) (num_processes * B"
            " * T + 1)' failed.",
            "[149-130-218-240:10948] *** Process received signal ***",
            "[149-130-218-240:10948] Signal: Aborted (6)",
            "Aborted (core dumped)",
        ],
    ),
    "llm.c: a file": End(
        "missing_file",
        [
            "Error: Failed to open file 'dev/data/fineweb10B/fineweb_val_000000.bin' at"
            " llmc/dataloader.h:66",
            "Error details:",
        ],
    ),
    "torchtitan: an option that is none": End(  # tyro issue 457
        "error",
        [
            "[rank0]:╭─ Unrecognized options ─────────────────────────╮",
            "[rank0]:│ Unrecognized options: --training.batch-size    │",
            "[rank0]:│ ────────────────────────────────────────────── │",
            "[rank0]:│ For full helptext, run train.py --help         │",
            "[rank0]:╰────────────────────────────────────────────────╯",
        ],
    ),
    "torch: store based barrier": End(  # NVIDIA/Megatron-LM issue 782
        "rendezvous",
        trace(
            "RuntimeError: Timed out initializing process group in store based barrier on rank: 0,"
            " for key: store_based_barrier_key:1 (world_size=2, worker_count=1, timeout=0:10:00)"
        ),
    ),
    "datasets: disk": End(  # huggingface/datasets src/datasets/builder.py
        "disk_full",
        trace(
            "OSError: Not enough disk space. Needed: 134.92 GiB (download: 41.97 GiB, generated:"
            " 92.95 GiB, post-processed: Unknown size)"
        ),
    ),
    "torchrun's own options": End(  # huggingface/pytorch-image-models issue 1742
        "launcher_error",
        ["usage: torchrun [-h]", "torchrun: error: unrecognized arguments: --nproc-per-node=1"],
    ),
    "a second launch: torchrun's own options": End(
        "launcher_error", [*MEGATRON, "torchrun: error: unrecognized arguments: --nproc-per-nod=8"]
    ),
    "srun: no such step": End(  # E3SM-Project/scream issue 2112
        "launcher_error",
        ["srun: error: Unable to create step for job 238051: More processors requested"],
    ),
    "Slurm: the launcher is not there": End(  # huggingface/accelerate issue 2192
        "launcher_error",
        [
            "slurmstepd: error: execve(): accelerate: No such file or directory",
            "srun: error: cdr2601: task 1: Exited with exit code 2",
            "slurmstepd: error: *** STEP 19389846.0 ON cdr2550 CANCELLED AT 2023-11-27T16:36:09 ***",
            "srun: error: cdr2550: task 0: Terminated",
        ],
    ),
    "Slurm: no image": End(  # NVIDIA/pyxis issue 127
        "launcher_error",
        [
            "pyxis: importing docker image: hello-world.sqsh",
            "slurmstepd: error: pyxis: child 10028 failed with error code: 1",
            "slurmstepd: error: pyxis: failed to import docker image",
            "srun: error: compute-0: task 0: Exited with exit code 1",
        ],
    ),
    "mpirun: slots": End(  # mit-han-lab/bevfusion issue 277
        "launcher_error",
        ["There are not enough slots available in the system to satisfy the 8", "slots that were"],
    ),
    "docker: no GPU": End(  # hiyouga/LlamaFactory issue 5268
        "launcher_error",
        [
            'docker: Error response from daemon: could not select device driver "" with'
            " capabilities: [[gpu]]."
        ],
    ),
    "a Trainer's second launch": End(
        "out_of_memory",
        [*TRAINER, *OBJECTS, *trace("ValueError: the first's"), *TRAINER, *trace(OOM, "[rank6]: ")],
    ),
    "LLaMA-Factory's second launch, in silence": End(
        "no_step", [*FACTORY, *TRAINER, *OBJECTS, *trace(OOM, "[rank6]: "), *FACTORY]
    ),
    "DeepSpeed's second launch, before its first command": End(  # 0.8.0 launcher/runner.py:172
        "error",
        [
            *MEGATRON,
            *trace(OOM, "[rank6]: "),
            "[2026-04-03 10:26:15,311] [WARNING] [runner.py:220:fetch_hostfile] Unable to find"
            " hostfile, will proceed with training with local resources only.",
            *trace("ValueError: No slot '4' specified on host 'localhost'"),
        ],
    ),
    "LLaMA-Factory: checkpoint": End(  # issue 5155
        "disk_full",
        [
            *FACTORY,
            *TRAINER,
            *OBJECTS,
            *trace(
                "safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28,"
                ' kind: StorageFull, message: "No space left on device" })',
                "[rank0]: ",
            ),
        ],
    ),
    "torch 2.8: AcceleratorError": End(  # RManLuo/gfm-rag issue 25
        "device_error",
        [
            *TITAN,
            *trace("torch.AcceleratorError: CUDA error: an illegal memory access", "[rank3]: "),
        ],
    ),
    "torchrun: SIGTERM": End(  # pytorch/pytorch issue 114097
        "interrupted",
        [
            *TITAN,
            "W0823 16:54:02.337000 139733055988160 torch/distributed/elastic/agent/server/"
            "api.py:688] Received Signals.SIGTERM death signal, shutting down workers",
            *trace(
                "torch.distributed.elastic.multiprocessing.api.SignalException: Process 6236 got"
                " signal: 15"
            ),
        ],
    ),
    "torchrun: SIGTERM, and no more": End(
        "interrupted",
        [
            *TITAN,
            "W0409 07:28:49.530000 1359 torch/distributed/elastic/agent/server/api.py:719] Received"
            " 15 death signal, shutting down workers",
        ],
    ),
    "a task that failed, whose step Slurm ended": End(  # huggingface/accelerate issue 2192
        "process_failed",
        [
            *MEGATRON,
            "srun: error: cdr2601: task 1: Exited with exit code 2",
            "srun: Terminating StepId=19389846.0",
            "slurmstepd: error: *** STEP 19389846.0 ON cdr2550 CANCELLED AT 2023-11-27T16:36:09 ***",
            "srun: error: cdr2550: task 0: Terminated",
        ],
    ),
    "hydra: an option that there is not": End(  # facebookresearch/hydra config_loader_impl.py
        "error",
        [
            "Could not override 'trainer.max_step'.",
            "To append to your config use +trainer.max_step=10",
            "Key 'max_step' is not in struct",
        ],
    ),
    "NCCL's watchdog": End(
        "collective_timeout",
        [
            *TITAN,
            "[rank1]:[E819 10:11:12.3 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective"
            " operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE) ran for 1800010 ms",
        ],
    ),
    "a log that ends early": End("unfinished", MEGATRON),
    "torchtitan: a log that ends early": End("unfinished", TITAN),
    "llm.c: a log that ends early": End("unfinished", LLM_C),
    "a Trainer's log that ends early": End("unfinished", [*TRAINER, *OBJECTS]),
    "a log that ends in its last step": End("unfinished", [*DONE[:-1], DONE[-1][:60]]),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_bad_end_of_today_is_named_right(name: str, read: Any) -> None:
    found = read("\n".join(ENDS[name].lines).encode())
    assert (found["status"], found["reason"]) == (ENDS[name].status, found["reason"])
    if "slurmstepd" in found["reason"]:  # its word, and not the half line before it
        assert ": slurmstepd" in found["reason"]


GOOD: dict[str, Sequence[str]] = {
    # NVIDIA/Megatron-LM core_v0.13.0 megatron/training/training.py:2141, :2170
    "Megatron's exit interval": [*MEGATRON, "exiting program at iteration 51"],
    "Megatron's exit duration": [*MEGATRON, "exiting program after 60.1 minutes"],
    "an exit interval that was reached": [f"  exit_interval {'.' * 35} 17", *MEGATRON],
    "torchtitan": [
        *TITAN,
        "[rank0]:[titan] 2025-08-22 07:59:57,498 - root - INFO - Training completed",
    ],
    "a Trainer that stopped early": [*TRAINER, *OBJECTS, "{'train_runtime': 7.1, 'epoch': 0.16}"],
    "a line each ten of 25": [megatron(10, of=25), megatron(20, of=25)],
    "a log that does not say its end": [pipe(1), pipe(2), pipe(3)[:30]],
    "a line without its end": [*DONE[:-1], DONE[-1].rstrip()],
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_end_is_ok(name: str, read: Any) -> None:
    found = read("\n".join(GOOD[name]).encode())
    assert (found["status"], found["reason"]) == ("ok", found["reason"])


def test_how_far_a_run_was_to_go_is_the_first_of_what_it_was_told(read: Any) -> None:
    assert read(MEGATRON)["planned_iterations"] == 120_000
    found = read([f"  exit_interval {'.' * 35} 50", *MEGATRON])
    assert (found["planned_iterations"], found["status"]) == (100, "unfinished")
    assert "the log ends at iteration 51 of 100" in found["reason"]


def test_a_sigterm_that_megatron_hears_is_no_end_of_its_own(read: Any) -> None:
    assert read([*MEGATRON, "exiting program after receiving SIGTERM."])["status"] == "interrupted"

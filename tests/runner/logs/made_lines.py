"""Log lines that a format string made, not a trainer; each maker names the string's place.

test_made_lines.py holds them against real lines. A test of a module that imports this one reads
made logs; what a trainer printed is in tests/data and in the shared folder (test_shared_logs.py).
"""

# a log's line is as long as it is

from collections.abc import Callable, Mapping
from typing import ParamSpec

P = ParamSpec("P")
SOURCES: dict[str, str] = {}


def made(source: str) -> Callable[[Callable[P, str]], Callable[P, str]]:
    """Mark a maker of lines: `source` is the repository, commit, file and lines of the format."""

    def mark(maker: Callable[P, str]) -> Callable[P, str]:
        SOURCES[maker.__name__] = source
        return maker

    return mark


@made(
    "bigscience Megatron-DeepSpeed e52bdab megatron/training.py:787-820, microsoft b4d4a0e :839-872"
)
def megatron(
    iteration: int,
    *,
    of: int = 1000,
    ms: float | None = 14131.6,
    seconds: float | None = None,
    batch: int | None = 16,
    loss: float | None = 1.264968e01,
    label: str = "lm loss",
    scale: float = 1.0,
    skipped: int = 0,
    nan: int = 0,
    rate: float | None = None,
) -> str:
    """One iteration line."""
    parts = [f" iteration {iteration:8d}/{of:8d} |"]
    if batch is not None:
        parts.append(f" consumed samples: {iteration * batch:12d} |")
    if seconds is not None:
        parts.append(f" elapsed time per iteration (s): {seconds:.2f} |")
    elif ms is not None:
        parts.append(f" elapsed time per iteration (ms): {ms:.1f} |")
    parts.append(f" learning rate: {4.082e-7:.3E} |")
    if batch is not None:
        parts.append(f" global batch size: {batch:5d} |")
    if loss is not None:
        parts.append(f" {label}: {loss:.6E} |")
    parts.append(f" loss scale: {scale:.1f} | grad norm: {20.263:.3f} |")
    parts.append(f" number of skipped iterations: {skipped:3d} |")
    parts.append(f" number of nan iterations: {nan:3d} |")
    if rate is not None:
        parts.append(f" samples per second: {rate:.3f} | TFLOPs: {8.55:.2f} |")
    return "".join(parts)


@made("DeepSpeedExamples 5c6b1c8f Megatron-LM-v1.1.5-3D_parallelism/megatron/training.py:434-451")
def v115(iteration: int, ms: float = 123907.8) -> str:
    """One iteration line without batch size and rate."""
    return (
        f" iteration {iteration:8d}/{1000:8d} | elapsed time per iteration (ms): {ms:.1f} |"
        f" learning rate: {5.625e-5:.3E} | lm loss: {40.75231:.6E} | loss scale: {1024.0:.1f} |"
        f" number of skipped iterations: {0:3d} | number of nan iterations: {0:3d} |"
    )


@made("libai 9fc504c libai/utils/events.py:239-261")
def libai(
    iteration: int,
    *,
    time: float | None,
    rate: float | None = None,
    loss: str = "9.895",
    of: int = 220,
) -> str:
    """One line of log.txt; the iteration as printed, from 0."""
    known = "" if time is None else f"  time: {time:.4f} s/iter"
    total = "" if rate is None else f" total_throughput: {rate:.2f} samples/s"
    return (
        f"[09/10 10:40:56] lb.utils.events INFO:  eta: 3 days, 20:51:01  iteration: {iteration}/{of}"
        f"  consumed_samples: {(iteration + 1) * 4}  total_loss: {loss}{known}"
        f"  data_time: 0.0021 s/iter{total} lr: 1.50e-04  "
    )


@made("libai eecb8660 (2022-03-03) libai/utils/events.py:198-216; 8eb67ddd counts from 0")
def libai_2022(
    iteration: int, *, samples: int, time: float | None = 0.071, rate: float = 1801.97
) -> str:
    """One line of early 2022; the iteration as printed."""
    known = "" if time is None else f"time: {time:.4f}({rate:.2f})  "
    return (
        f"[03/08 10:40:56 lb.utils.events]:  eta: 0:12:53  iteration: {iteration}/10000"
        f"  consumed samples: {samples}  total_loss: 10.5  {known}data_time: 0.0006  lr: 1.00e-04  "
    )


@made(
    "Primus fd1eeabb primus/backends/megatron/patches/training_log/print_rank_last_patches.py:392"
)
def primus(iteration: int, time: str = "541.9/27030.5", batch: int = 256) -> str:
    """One line of its Megatron backend: the iteration's figure, and the running average."""
    return (
        f"[20251121 12:10:29][rank-7/8][INFO ] [--------trainer.py:2488] :  iteration {iteration:8d}/"
        f"{36000:8d} | consumed samples: {iteration * batch:12d} | elapsed time per iteration (ms):"
        f" {time} | hip mem usage/free/total/usage_ratio: 227.35GB/28.63GB/255.98GB/88.81% |"
        " throughput per GPU (TFLOP/s/GPU): 210.5/217.3 | tokens per GPU (tokens/s/GPU):"
        f" 12130.4/12525.5 | learning rate: 1.587349E-04 | global batch size: {batch:5d} | lm loss:"
        " 2.352391E+00 | loss scale: 1.0 | grad norm: 0.132 | number of skipped iterations:   0 |"
        " number of nan iterations:   0 |"
    )


@made(
    "Primus fd1eeabb primus/backends/megatron/patches/training_log/print_rank_last_patches.py"
    ":177-206, :365-543, joined by :157-166"
)
def primus_2026(iteration: int, time: str = "541.9/27030.5", *, rank: int = 5) -> str:
    """One line since 2026-07: what it has of memory is last, and closed by nothing."""
    return (
        f"[20260822 12:10:29][rank-7/8][INFO ] [--------training.py:3641] : iteration {iteration:8d}/"
        f"   36000 | consumed samples: {iteration * 256:12d} | elapsed time per iteration (ms): {time}"
        " | compute per GPU (TFLOP/s/GPU): 210.5 (avg 217.3)  | tokens/s/GPU inst/harmonic mean:"
        " 12130.4/12525.5 | learning rate: 1.587349E-04 | global batch size:   256 | lm loss:"
        " 2.352391E+00 | loss scale: 1.0 | grad norm: 0.132 | number of skipped iterations:   0 |"
        " number of nan iterations:   0 | hip mem usage/free/total/usage_ratio: 227.35GB/28.63GB/"
        "255.98GB/88.81%  | rocm mem usage/free/total/usage_ratio: 227.40GB/28.58GB/255.98GB/88.83%"
        f" | rank-{rank} rocm max mem usage/usage_ratio: 230.50GB/90.05%"
    )


@made("Primus fd1eeabb primus/backends/torchtitan/patches/metrics_output_format.py:115-132")
def primus_torchtitan(step: int, window_ms: float = 19392.0) -> str:
    """One line of its torchtitan in Megatron's form; nothing registers the patch yet."""
    return (
        f"[20260107 12:10:29][rank-0/8][INFO ] [-------metrics.py:462] : iteration {step:8d}/      50"
        f" | consumed samples: {step * 128:12d} | elapsed time per iteration (ms): {window_ms:.1f} |"
        " memory usage/free/total: 145.40GiB/142.58GiB/(50.49%) | throughput per GPU (TFLOP/s/GPU):"
        " 347.9 | tokens per GPU (tokens/s/GPU): 6759.1 | global batch size:   128 | loss:"
        " 1.189155E+01 | grad norm: 7.872 | mfu: 45.67% |"
    )


@made("Megatron-Bridge 067f987d src/megatron/bridge/training/utils/train_utils.py:1049-1150, :1192")
def megatron_bridge(iteration: int, ms: float = 14260.3, *, energy: bool = False) -> str:
    """The lines that it prints of one iteration: rank 0's, the last rank's, and memory."""
    own = " energy per GPU (J/iter/GPU): 9512.4 | power per GPU (W/GPU): 667.1 |" if energy else ""
    return (
        f"Step Time : {ms / 1000:.2f}s GPU utilization: {58.2:.1f}MODEL_TFLOP/s/GPU\n"
        f" [2026-08-22 22:54:30] iteration {iteration:8d}/{50:8d} | consumed samples:"
        f" {iteration * 512:12d} | elapsed time per iteration (ms): {ms:.1f} |{own} learning rate:"
        " 2.604594E-04 | global batch size:   512 | lm loss: 8.797448E-02 | loss scale: 1.0 | grad"
        " norm: 0.170 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        f"[Rank 0] (after {iteration} iterations) memory (GB) | mem-allocated-gigabytes: 11.908 |"
        " mem-active-gigabytes: 11.91 | mem-max-allocated-gigabytes: 12.712 | mem-max-active-gigabytes:"
        " 12.72 | mem-max-reserved-gigabytes: 12.954 | mem-alloc-retires: 0 | mem-allocated-count: 99"
    )


MEGATRON_ARGUMENTS = [
    f"  {name} {'.' * (48 - len(name))} {value}"
    for name, value in {"log_interval": 10, "seq_length": 1024, "world_size": 8}.items()
]


@made("DeepSpeed 0.7.4 deepspeed/utils/timer.py:199, deepspeed/runtime/engine.py:2167, config.py")
def deepspeed(step: int, micro: int = 0, *, accumulation: int = 0) -> str:
    """The engine's own line of a step, the timer's, or that of its configuration."""
    if accumulation:
        line = f"[config.py:999:print]   gradient_accumulation_steps .. {accumulation}"
    elif micro:
        line = (
            f"[timer.py:198:stop] 0/{micro}, RunningAvgSamplesPerSec=16.159440586382594,"
            " CurrSamplesPerSec=15.723372670155499, MemAllocated=1.87GB, MaxMemAllocated=6.26GB"
        )
    else:
        line = f"[logging.py:68:log_dist] [Rank 0] step={step}, skipped=0, lr=[0.0, 0.0], mom=[(0.9, 0.9), (0.9, 0.9)]"
    return f"[2022-11-24 00:52:01,509] [INFO] {line}"


@made("DeepSpeed 0.8.0 deepspeed/runtime/pipe/engine.py:355-358")
def pipe(step: int, *, seconds: float = 2.673, rate: float = 95.775, more: str = "") -> str:
    """One line of DeepSpeed's pipeline engine."""
    return (
        f"steps: {step} loss: {12.6157:0.4f} {more}iter time (s): {seconds:0.3f}"
        f" samples/sec: {rate:0.3f}"
    )


@made("DeepSpeed deepspeed/runtime/zero/stage_1_and_2.py, 0.6.0:1653 (deepscale), 0.8.0:1763")
def overflow(rank: int = 0, attempted: float = 65536.0, package: str = "deepspeed") -> str:
    """DeepSpeed's skipped step."""
    return (
        f"[2022-01-19 13:09:13,305] [INFO] [stage_1_and_2.py:1644:step] [{package}] OVERFLOW!"
        f" Rank {rank} Skipping step. Attempted loss scale: {attempted}, reducing to {attempted / 2}"
    )


@made(
    "torchtitan v0.2.2 73a0e697 torchtitan/components/metrics.py:460-470; wps: 4d182a13^ train.py"
)
def torchtitan(
    step: int,
    *,
    loss: float = 9.22166,
    tps: int = 8666,
    mfu: str = "44.69%",
    old: bool = False,
    rank: int | None = None,
) -> str:
    """One step's line without colours; `old` as in 2024, with `wps` and no norm."""
    prefix = "" if rank is None else f"[rank{rank}]:"
    memory = f"memory: {84.26:5.2f}GiB({60.27:.2f}%)"
    if old:
        fields = f"loss: {loss:7.4f}  {memory}  wps: {tps:,}  "
        return f"{prefix}2024-07-30 10:00:00,123 - root - INFO - step: {step:2}  {fields}mfu: {mfu}"
    fields = f"loss: {loss:8.5f}  grad_norm: {8.4212:7.4f}  {memory}  tps: {tps:,}"
    return (
        f"{prefix}[titan] 2026-11-22 14:49:35,827 - root - INFO - step: {step:2}  {fields}"
        f"  tflops: {1441.96:,.2f}  mfu: {mfu}"
    )


@made("nanotron v0.4 f2c83832 src/nanotron/trainer.py:438-473")
def nanotron(iteration: int, *, loss: str = "11.1", batch: str = "1.02K") -> str:
    """One iteration's line, in human numbers."""
    return (
        f"11/22/2026 14:52:08 [INFO|DP=0|PP=0|TP=0|node-17]: iteration: {iteration} / 30 |"
        " consumed_tokens: 4.19M | elapsed_time_per_iteration_ms: 11.6K | tokens_per_sec: 180K |"
        f" tokens_per_sec_per_gpu: 22.5K | global_batch_size: {batch} | lm_loss: {loss} |"
        " lr: 2e-05 | model_tflops_per_gpu: 312 | hardware_tflops_per_gpu: 312 | grad_norm: 1.62"
    )


@made("NVIDIA/NeMo 8cfedd72 nemo/lightning/pytorch/callbacks/progress_printer.py:53-61, :139")
def nemo(iteration: int, *, loss: str = "10.22") -> str:
    """One line; the iteration as printed, from 0."""
    return (
        f"Training epoch 0, iteration {iteration}/29 | lr: 5.389e-06 | global_batch_size: 512 |"
        f" global_step: {iteration} | max_memory_reserved: 57466159104 | max_memory_allocated:"
        f" 53930270720 | reduced_train_loss: {loss} | train_step_timing in s: 27.01 |"
        " consumed_samples: 4608 | grad_norm: 2.179 | TFLOPS_per_GPU: 471.2"
    )


@made(
    "NVIDIA/NeMo 8cfedd72 nemo/lightning/pytorch/callbacks/progress_bar.py:24-55; tqdm; lightning"
)
def nemo_bar(done: int, *, loss: str = "7.310", step: str | None = None, epoch: int = 0) -> str:
    """One state of the bar, and the carriage return before it."""
    count = f"{done - 1}.0" if step is None else step
    return (
        f"\rEpoch {epoch}: :  {done:2d}%|{'█' * (done // 10)}{' ' * (10 - done // 10)}| {done}/100"
        f" [07:57<00:00, reduced_train_loss={loss}, global_step={count}, consumed_samples=1.63e+6,"
        " train_step_timing in s=3.590]"
    )


SMI_HEADER = (
    "timestamp, name, driver_version, utilization.gpu [%], utilization.memory [%],"
    " memory.total [MiB], memory.free [MiB], memory.used [MiB]"
)


@made("document 000's patch of LiBai, which queries nvidia-smi")
def smi(used: int, busy: int = 97) -> str:
    """One row under SMI_HEADER."""
    return (
        f"2022/07/26 10:11:12.123, NVIDIA A100-PCIE-40GB, 470.57.02, {busy} %, 51 %,"
        f" 40536 MiB, {40536 - used} MiB, {used} MiB"
    )


PREFIXES: Mapping[str, str] = {
    "tee": "[default7]:",
    "pdsh": "192.168.205.202: ",
    "hostname": "worker-3: ",
    "stdout": "stdout: ",
    "srun": "12: ",
    "rank": "[rank3]: ",
    "colours": "\x1b[32m[09/10 10:37:57 lb.utils.events]: \x1b[0m",
    "progress": " 45%|####5     | 9/20 [00:10<00:12, 1.1s/it]\r",
}

r"""Mixtures of experts on one GPU by the trainers' own commands, without setup and inventory.

    <Python with torch> benchmarks/experts_on_gpu.py [--model NAME] [--iterations 30] \
        [--micro-batch-size 2] [--seq-length 4096] [--torchtitan] [--only WORDS] [--out FILE]

It is what matrices/gpu/moe.yaml compares on one device, for a machine that cannot have Ansible:
each setting is one run of train.py, on random tokens of build/experts_on_gpu, and one line of a
table: tokens/s (the median of the iterations after the first ten), MFU by active weights
(runner/figures/flops.py), the most memory, the imbalance of the experts. `--torchtitan` has
torchtitan 0.2.2 train the same shape, if this Python has it; its text and tokenizer are made here.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT), str(PROJECT / "node" / "dataset")]

import megatron_mmap  # noqa: E402
import numpy as np  # noqa: E402

from runner.figures import devices  # noqa: E402
from runner.systems import torch_gpt  # noqa: E402
from runner.systems.common.torchtitan_options import ADDED  # noqa: E402

TRAINER = PROJECT / "roles" / "torch_gpt" / "files" / "torch_gpt" / "train.py"
FOLDER = PROJECT / "build" / "experts_on_gpu"
WARM_UP = 10
STEP = re.compile(r"torch_gpt step=(\d+)/\d+ .*?step_time_ms=([\d.]+) loss=([\d.]+|nan)")
MEMORY = re.compile(r"memory_used_mib=([\d.]+)")
BALANCE = re.compile(r"expert_imbalance=([\d.]+)")
TITAN = re.compile(r"step: *(\d+) .*loss: *([\d.]+).*memory: *([\d.]+)GiB.*tps: *([\d,]+)")
# Name of a setting to the options that it differs by.
SETTINGS: Mapping[str, Sequence[str]] = {
    "learned": (),
    "balanced": ("--routing", "balanced"),
    "selective": ("--activation-checkpointing", "selective"),
    "a bias and no loss": (
        *("--moe-router-load-balancing-type", "none", "--moe-router-bias-update-rate", "0.001"),
    ),
    "capacity 1.25": ("--moe-expert-capacity-factor", "1.25"),
    "not compiled": ("--compile", "none"),
    "loop over experts": ("--moe-grouped-gemm", "loop", "--compile", "none"),
    "learned again": (),
}


def dataset(vocabulary: int) -> str:
    """Return the prefix of a dataset of random tokens; write it if it is missing."""
    prefix = FOLDER / f"tokens-{vocabulary}" / "text_document"
    if not prefix.with_suffix(".idx").exists():
        prefix.parent.mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng(0)
        with megatron_mmap.Writer(prefix, "int32") as writer:
            for _ in range(64):
                writer.add_document(random.integers(0, min(vocabulary, 32000), 65536).tolist())
        manifest = {"prefix": prefix.name, "vocab_size": vocabulary}
        prefix.with_name("dataset.json").write_text(json.dumps(manifest))
    return str(prefix)


def output(command: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Run a command; return the lines that it printed, its errors among them."""
    paths = [env["PYTHONPATH"], *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.run(
        command,
        env={**os.environ, **env, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=FOLDER,
    )
    lines = process.stdout.splitlines()
    if process.returncode:
        print("\n".join(lines[-15:]), file=sys.stderr)
    return lines


def reference(arguments: argparse.Namespace, options: Sequence[str]) -> dict[str, float]:
    """Train with torch_gpt; return ms of an iteration, MiB, imbalance and the last loss."""
    command = [
        *(sys.executable, str(TRAINER), "--data-path", dataset(arguments.vocabulary)),
        *("--model", arguments.model, "--precision", arguments.precision),
        *("--micro-batch-size", str(arguments.micro_batch_size), "--log-interval", "1"),
        *("--seq-length", str(arguments.seq_length), "--lr", "0.0003", "--lr-warmup-iters", "20"),
        *("--train-iters", str(arguments.iterations), "--split", "1", *options),
    ]
    lines = output(command, {"PYTHONPATH": str(PROJECT / "node" / "dataset")})
    steps = [match for match in map(STEP.match, lines) if match]
    counted = [float(step[2]) for step in steps[WARM_UP:]]
    if not counted:
        return {}
    figures = {"ms": statistics.median(counted), "loss": float(steps[-1][3])}
    for name, pattern in (("mib", MEMORY), ("imbalance", BALANCE)):
        if match := pattern.search(next(line for line in reversed(lines) if STEP.match(line))):
            figures[name] = float(match[1])
    return figures


def titan(arguments: argparse.Namespace, options: Sequence[str]) -> dict[str, float]:
    """Train the same with torchtitan 0.2.2; its text is made of numbers, one token each."""
    folder = FOLDER / "torchtitan"
    (folder / "c4_test").mkdir(parents=True, exist_ok=True)
    (folder / "trainbench_flavors.py").write_text(ADDED["qwen3", "30B-A3B-4-layers"][0])
    random = np.random.default_rng(0)
    with (folder / "c4_test" / "data.json").open("w") as text:
        for _ in range(64):
            row = " ".join(map(str, random.integers(0, 9999, 65536).tolist()))
            text.write(json.dumps({"text": row}) + "\n")
    vocabulary = {str(number): number for number in range(10000)} | {"<unk>": 10000}
    tokenizer = {
        **{"version": "1.0", "pre_tokenizer": {"type": "WhitespaceSplit"}},
        **{"model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}},
        "added_tokens": [],
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text("{}")
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "1", "-m"),
        *("torchtitan.train", "--model.name", "qwen3", "--model.flavor", "30B-A3B-4-layers"),
        *("--training.seq_len", str(arguments.seq_length), "--metrics.log_freq", "1"),
        *("--training.local_batch_size", str(arguments.micro_batch_size)),
        *("--training.steps", str(arguments.iterations), "--optimizer.lr", "0.0003"),
        *("--lr_scheduler.warmup_steps", "20", "--compile.enable"),
        *("--activation_checkpoint.mode", "none", "--model.hf_assets_path", str(folder)),
        *("--training.dataset", "c4_test", "--training.dataset_path", str(folder / "c4_test")),
        *("--job.dump_folder", str(folder / "out"), "--metrics.disable_color_printing"),
        *("--experimental.custom_import", "trainbench_flavors", *options),
    ]
    lines = output(command, {"PYTHONPATH": str(folder), "LOG_RANK": "0"})
    steps = [match for match in map(TITAN.search, lines) if match]
    counted = [float(step[4].replace(",", "")) for step in steps[WARM_UP:]]
    if not counted:
        return {}
    tokens = arguments.micro_batch_size * arguments.seq_length
    return {
        "ms": 1000 * tokens / statistics.median(counted),
        "loss": float(steps[-1][2]),
        "mib": float(steps[-1][3]) * 1024,
    }


def runs(arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield each setting with its figures."""
    for name, options in SETTINGS.items():
        if arguments.only in name:
            yield f"torch_gpt, {name}", reference(arguments, options)
    if arguments.torchtitan:
        yield "torchtitan 0.2.2, learned", titan(arguments, ())
        yield "torchtitan 0.2.2, balanced", titan(arguments, ["--debug.moe_force_load_balance"])


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="qwen3-30b-a3b-4-layers")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--micro-batch-size", type=int, default=2)
    parser.add_argument("--seq-length", type=int, default=4096)
    parser.add_argument("--only", default="", help="settings with these words in their names")
    parser.add_argument("--torchtitan", action="store_true")
    parser.add_argument("--out", type=Path, help="a file for the same table")
    arguments = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    keys = {item.name: item.default for item in torch_gpt.PARAMETERS}
    shape = torch_gpt.shape({**keys, "model": arguments.model, "seq_length": arguments.seq_length})
    arguments.vocabulary = shape.vocab_size
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    peak, source = devices.peak(device, arguments.precision)
    total, active = shape.parameters
    rows = [
        f"{arguments.model}: {total / 1e9:.2f} billion weights, {active / 1e9:.2f} active;"
        f" {device}, torch {torch.__version__}; MFU: {source}",
        "| setting | tokens/s | ms per iteration | MFU % | MiB | imbalance | loss |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    print("\n".join(rows), flush=True)
    samples = arguments.micro_batch_size
    for name, figures in runs(arguments):
        if not figures:
            rows.append(f"| {name} | failed | | | | | |")
        else:
            seconds = figures["ms"] / 1000
            mfu = 100 * samples * shape.flops() / seconds / 1e12 / peak if peak else None
            rows.append(
                f"| {name} | {samples * shape.seq_length / seconds:,.0f} | {figures['ms']:.1f} |"
                f" {'' if mfu is None else f'{mfu:.1f}'} | {figures.get('mib', 0):,.0f} |"
                f" {figures.get('imbalance', '')} | {figures['loss']:.3f} |"
            )
        print(rows[-1], flush=True)
    if arguments.out:
        arguments.out.write_text("\n".join(rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

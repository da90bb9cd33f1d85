"""A campaign on two nodes of eight H200, as bench and nvidia-smi leave it: for the report's pages.

Rates, memory and power are of the size seen on such devices (docs/results/); they are made up.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.folder import names
from runner.folder.stored import write_json
from runner.results.records import records_of
from runner.terms.cell import Cell
from runner.terms.product import Product, Products
from runner.terms.record import Record
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import OUT_OF_MEMORY, Story, inspected, write

STEPS = 60
GPUS = 8
BATCH = 512
DEVICE = {"name": "NVIDIA H200", "memory_mib": "143771", "driver": "580.65.06"}
AT = 1_790_000_000.0 - 3600  # an hour before the first run


def gpus(runs: Path) -> list[Record]:
    """Fourteen cells of two repeats: ZeRO stages, batches and nodes, what fails and has no peak."""
    axes = {"zero_stage": [0, 1, 3], "micro_batch_size": [8, 32], "nodes": [1, 2]}
    more = [
        {**_OTHER, "micro_batch_size": 64, "activation_checkpointing": "full"},
        {**_OTHER, "micro_batch_size": 32, "precision": "fp8"},
    ]
    defaults = {
        "devices_per_node": GPUS,
        "global_batch_size": BATCH,
        "model": "gpt2-medium",
        "precision": "bf16",
        "train_iters": STEPS,
    }
    matrix = small_matrix(axes, defaults, name="h200", include=more, repeats=2)
    cluster = small_cluster(2, GPUS, name="rack", device="cuda")
    campaign = write(runs, matrix, cluster, _story, facts=_facts)
    products = {node.host: _products(number) for number, node in enumerate(cluster.nodes)}
    for attempt in campaign.path.glob(names.ATTEMPTS):
        write_json(attempt / names.PRODUCTS, Products(products).to_json())
    return records_of(campaign, runs)


_OTHER = {"zero_stage": 1, "nodes": 1}


def _products(node: int) -> tuple[Product, ...]:
    return (Product("bf16", AT, tuple(741.0 - 4 * node + device % 3 for device in range(GPUS))),)


def _facts(host: str) -> dict[str, Any]:
    return inspected(host, devices=[DEVICE] * GPUS)


def _story(cell: Cell, repeat: int) -> Story:
    values = cell.parameters
    stage, micro, nodes = values["zero_stage"], values["micro_batch_size"], cell.nodes
    each = 118 * micro**0.12 * (1 - 0.05 * stage) * (0.96 if nodes > 1 else 1)
    used = 9_000 + 1_150 * micro + 5_600 / (1 + 7 * (stage == 3))
    if values["activation_checkpointing"] == "full":
        each, used = each * 0.78, used * 0.35
    if values["precision"] == "fp8":
        each *= 1.17
    if (stage, micro, nodes) == (0, 32, 2):
        log = _log(cell, 0, each, used, repeat) + OUT_OF_MEMORY
        return Story({0: log, 1: OUT_OF_MEMORY}, _halt("exit", "n2", "n2: exit code 1"), 18.0)
    if (stage, micro, nodes, repeat) == (3, 8, 2, 2):
        lost = _halt("node_lost", "n2", "n2: out of contact for 7.2 s")
        return Story({0: _log(cell, 33, each, used, repeat)}, lost, 41.0, _samples(nodes, 38, used))
    seconds = int(STEPS * BATCH / (each * GPUS * nodes)) + 25
    log = _log(cell, STEPS, each, used, repeat)
    return Story({0: log}, wall_s=seconds, samples=_samples(nodes, seconds, used))


def _halt(cause: str, host: str, message: str) -> dict[str, str]:
    return {"cause": cause, "host": host, "message": message}


def _log(cell: Cell, steps: int, each: float, used: float, repeat: int) -> str:
    """Rank 0's log, at `each` samples/s per device."""
    values, world = cell.parameters, cell.world_size
    micro, stage = values["micro_batch_size"], values["zero_stage"]
    lines = [
        f"torch_gpt config world_size={world} nodes={cell.nodes} data_parallel_size={world}"
        f" backend=nccl device=NVIDIA_H200 threads=1 torch=2.13.0+cu130 parameters=354871296"
        f" padded_vocab_size=50304 model=gpt2-medium num_layers=24 hidden_size=1024"
        f" num_attention_heads=16 seq_length=1024 vocab_size=50257 micro_batch_size={micro}"
        f" global_batch_size={BATCH} zero_stage={stage} precision={values['precision']}"
    ]
    for step in range(1, steps + 1):
        wobble = ((step * 13 + micro + 5 * repeat) % 11 - 5) / 900 + 0.002 * (repeat - 1)
        now = each * world * (1 + wobble) * (0.22 if step == 1 else 1.0)
        loss = 10.82 - 6.4 * (1 - 1 / (1 + step / 14)) + 0.03 * ((step * 7) % 5)
        memory = ",".join([f"{used * 0.93:.1f}"] * world), ",".join([f"{used:.1f}"] * world)
        lines.append(
            f"torch_gpt step={step}/{STEPS} samples_per_s={now:.2f}"
            f" step_time_ms={1000 * BATCH / now:.2f} loss={loss:.5f} grad_norm=0.871 lr=1.000e-03"
            f" skipped=0 nan=0 memory_allocated_mib={memory[0]} memory_used_mib={memory[1]}"
        )
    return "\n".join(lines) + "\n"


def _samples(nodes: int, seconds: int, used: float) -> Mapping[int, str]:
    return {rank: _smi(seconds, used, 25 * (rank == 1)) for rank in range(nodes)}


def _smi(seconds: int, used: float, less_w: float) -> str:
    """One node's samples.csv: its devices idle, load, train, end."""
    lines = [
        "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB],"
        " power.draw [W], clocks.current.sm [MHz], temperature.gpu"
    ]
    for second in range(seconds):
        for device in range(GPUS):
            at = f"2026/11/21 10:{second // 60:02d}:{second % 60:02d}.{100 + 3 * device}"
            busy, mib, watts = 0, 4, 78.0 + device
            if 8 <= second < 18:
                busy, mib, watts = 11 * (second % 3), int(used * 0.4), 130.0
            elif 18 <= second < seconds - 4:
                busy, mib = 97 + (second + device) % 4, int(used) - device
                watts = 655.0 - less_w + 9 * ((second * 3 + device) % 5)
            clock = 1980 if busy else 345
            lines.append(
                f"{at}, {device}, {busy} %, {mib} MiB, 143771 MiB, {watts:.2f} W, {clock} MHz, 61"
            )
    return "\n".join(lines) + "\n"

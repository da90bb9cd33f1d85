"""Whole campaigns as folders, as bench leaves them: for tests, benchmarks and a look at reports.

The logs are told by a `Story`; plans, outcomes and folders are written by the runner's own code.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runner.folder import names
from runner.folder.campaign import Campaign
from runner.folder.stored import write_json
from runner.plan.make import make_run
from runner.plan.script import launch_script
from runner.results import judge
from runner.results.records import records_of
from runner.terms.cell import Cell, Matrix
from runner.terms.cluster import Cluster
from runner.terms.record import Record
from tests.runner.builders import small_cluster, small_matrix

TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\n'
OUT_OF_MEMORY = (
    TRACEBACK + "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB\n"
)
# What the nodes of `write` have of each system, and of each dataset: its files' checksums.
COMMIT = "c0ffee"
DATA = {"default_text_document.bin": "da7a" * 16}


@dataclass(frozen=True)
class Story:
    """What one run's nodes printed (rank to text), and what ended it, if something did.

    `samples` is samples.csv of each node.
    """

    logs: Mapping[int, str] = field(default_factory=dict)
    halt: Mapping[str, Any] | None = None
    wall_s: float = 60.0
    samples: Mapping[int, str] = field(default_factory=dict)


def torch_gpt(
    steps: int,
    *,
    rate: float = 100.0,
    batch: int = 16,
    of: int | None = None,
    used_mib: float = 1000.0,
    noise: Callable[[int], float] = lambda step: (step * 7 % 5 - 2) / 100,
    loss: Callable[[int], float] = lambda step: 2.0 + 6.0 / (1 + step / 10),
    then: str = "",
) -> str:
    """Rank 0's log: `steps` steps of `of`, about `rate` samples/s with relative `noise`."""
    lines = ["torch_gpt config world_size=2 backend=gloo device=cpu torch=2.13.0+cpu"]
    for step in range(1, steps + 1):
        now = rate * (1 + noise(step)) * (0.5 if step == 1 else 1.0)
        lines.append(
            f"torch_gpt step={step}/{of or steps} samples_per_s={now:.2f}"
            f" step_time_ms={batch * 1000 / now:.2f} loss={loss(step):.5f} grad_norm=1.0 lr=1e-3"
            f" skipped=0 nan=0 memory_allocated_mib={used_mib * 0.8:.1f}"
            f" memory_used_mib={used_mib:.1f}"
        )
    return "\n".join(lines) + "\n" + then


def write(
    runs: Path,
    matrix: Matrix,
    cluster: Cluster,
    story: Callable[[Cell, int], Story | None],
    *,
    facts: Callable[[str], Mapping[str, Any]] | None = None,
) -> Campaign:
    """Every repeat of every cell with a story as a run that is over; the others are pending.

    `facts` says what a host's inspection found.
    """
    campaign = Campaign(runs / f"{matrix.name}-{cluster.name}")
    campaign.path.mkdir(parents=True, exist_ok=True)
    campaign.lock.touch()
    campaign.open(matrix, cluster)
    identities = {f"system {c.system}/{c.pin}": {"commit": COMMIT} for c in matrix.cells}
    identities |= {f"dataset {c.dataset}": DATA for c in matrix.cells}
    campaign.fix_environment(identities)
    for node in cluster.nodes:
        found = dict(facts(node.host)) if facts else inspected(node.host)
        write_json(campaign.inspected / names.of_host(node.host), found)
    for cell in matrix.cells:
        for repeat in range(1, matrix.repeats + 1):
            told = story(cell, repeat)
            if told is not None:
                _run(campaign, matrix, cell, repeat, cluster, told)
    return campaign


def inspected(host: str, **more: Any) -> dict[str, Any]:
    """What an inspection says of a CPU node."""
    return {
        "hostname": host,
        "system": "Debian GNU/Linux 12 (bookworm)",
        "kernel": "Linux 6.1.0 x86_64",
        "cpu": "EPYC",
        "cpu_count": 64,
        "memory_mib": 515_000,
        "devices": [],
        **more,
    }


def _run(
    campaign: Campaign, matrix: Matrix, cell: Cell, repeat: int, cluster: Cluster, story: Story
) -> None:
    attempt = campaign.new_attempt(cell.id, repeat)
    run = make_run(
        matrix, cell, cluster, campaign=campaign.name, repeat=repeat, attempt=attempt.number
    )
    write_json(attempt.path / names.RUN, run.to_json())
    (attempt.path / names.SCRIPT).write_text(launch_script(run))
    for node in run.nodes:
        home = attempt.node(node.node_rank)
        home.mkdir(parents=True)
        (home / names.LOG).write_text(story.logs.get(node.node_rank, ""))
        if node.node_rank in story.samples:
            (home / names.SAMPLES).write_text(story.samples[node.node_rank])
        (home / names.DONE).write_text(json.dumps({"ended_by": "exit", "rc": 0}))
    if story.halt is not None:
        (attempt.path / names.HALT).write_text(json.dumps(dict(story.halt)))
    measured = judge.measure_run(cell, attempt.logs())
    ended = judge.judge(attempt, cell, measured, "")
    runs = len(list(campaign.path.glob(f"*/*/*/{names.OUTCOME}")))  # one after the other
    ended = replace(ended, started_at=1_790_000_000.0 + 100 * runs, wall_s=story.wall_s)
    write_json(attempt.path / names.OUTCOME, ended.to_json())


def sampled(busy: int, seconds: int = 90, devices: int = 8) -> str:
    """A node's samples.csv, as nvidia-smi writes it."""
    lines = ["timestamp, index, utilization.gpu [%], memory.used [MiB]"]
    for second in range(seconds):
        time = f"2026/11/21 10:{second // 60:02d}:{second % 60:02d}.000"
        now = busy + second % 9 if 5 < second < seconds - 5 else 0
        lines += [f"{time}, {device}, {now} %, 21000 MiB" for device in range(devices)]
    return "\n".join(lines) + "\n"


SYSTEMS = ("torch_gpt", "megatron_deepspeed", "libai")
LIMIT = {"cause": "time_limit", "host": "n1", "message": "n1: the time limit of 600 s was reached"}
LOST = {"cause": "node_lost", "host": "n3", "message": "n3: out of contact for 7.2 s"}


def forty(runs: Path) -> list[Record]:
    """Forty cells as a report meets them: three systems, up to 4 nodes, failures, one node odd.

    The folder is one of torch_gpt's; its records are then given to three systems by their seed, for
    a report needs only names.
    """
    axes = {
        "seed": [1, 2, 3],
        "nodes": [1, 2, 4],
        "zero_stage": [0, 1],
        "micro_batch_size": [2, 8],
    }
    rest = {"nodes": 4, "zero_stage": 3, "activation_checkpointing": "full"}
    more = [{"seed": 1, **rest, "micro_batch_size": size} for size in (2, 8, 16, 32)]
    defaults = {
        "devices_per_node": 8,
        "global_batch_size": 1024,
        "model": "gpt2-medium",
        "precision": "fp16",
    }
    matrix = small_matrix(
        axes, {**defaults, "train_iters": 60}, name="forty", include=more, warmup_iters=5
    )
    cluster = small_cluster(4, 8, name="vs", device="cuda")

    def story(cell: Cell, repeat: int) -> Story | None:
        values = cell.parameters
        seed, nodes, stage = values["seed"], cell.nodes, values["zero_stage"]
        batch = values["micro_batch_size"]
        rate = 100 * nodes ** (1 - 0.03 * seed) * batch**0.3 * (1 - 0.06 * stage) * (1 + seed / 9)
        used = 6000 + 900 * batch + 9000 / (1 + stage) + 700 * seed
        index = (seed, nodes, stage, batch)

        def log(steps: int, speed: float = 1.0) -> str:
            return torch_gpt(
                steps,
                rate=rate * speed,
                batch=1024,
                of=60,
                used_mib=used,
                noise=lambda step: ((step * 13 + sum(index)) % 7 - 3) / 150,
                loss=lambda step: (
                    3 + seed / 20 + 6.5 / (1 + step / 9) + 0.02 * ((step * sum(index)) % 7)
                ),
            )

        if index == (3, 4, 0, 8):
            return None
        if index == (2, 2, 1, 8):
            return Story({0: log(7)}, LIMIT)
        if index == (3, 4, 1, 2):
            return Story({0: log(31)}, LOST)
        if batch == 32 or index[1:] == (4, 0, 8):
            host = f"n{nodes}"
            halt = {"cause": "exit", "host": host, "message": f"{host}: exit code 1"}
            return Story({0: log(0), nodes - 1: OUT_OF_MEMORY}, halt)
        if index[1:] == (4, 1, 8):  # every node says its own steps; the third is slow and idle
            own = {rank: log(60, 0.8 if rank == 2 else 1.0) for rank in range(4)}
            return Story(own, samples={rank: sampled(70 - 25 * (rank == 2)) for rank in range(4)})
        return Story({0: log(60)})

    def facts(host: str) -> dict[str, Any]:
        device = {"name": "Tesla V100-SXM2-32GB", "memory_mib": "32510", "driver": "440.33.01"}
        odd = {"driver": "450.119.03"} if host == "n3" else {}
        return inspected(host, devices=[{**device, **odd}] * 8)

    campaign = write(runs, matrix, cluster, story, facts=facts)
    return [_given(record) for record in records_of(campaign, runs)]


def _given(record: Record) -> Record:
    system = SYSTEMS[record.parameters["seed"] - 1]
    axes = {name: value for name, value in record.axes.items() if name != "seed"}
    cell = record.cell.replace(f"seed={record.parameters['seed']}", f"system={system}")
    parameters = {**record.parameters, "seed": 1}
    return replace(
        record, system=system, cell=cell, axes={"system": system, **axes}, parameters=parameters
    )

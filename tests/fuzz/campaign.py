"""A small campaign as files, its runs ended in several ways: seed of folders and archives."""

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from runner.folder import names
from runner.terms.cell import Cell, Matrix
from runner.terms.cluster import Cluster
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import (
    COMMIT,
    OUT_OF_MEMORY,
    Story,
    inspected,
    sampled,
    torch_gpt,
    write,
)

NAME = "m-rack"
TORN = "m-rack/campaign.json"


def matrix() -> Matrix:
    """Four cells: ok with samples, out of memory, lost, and one not run yet."""
    return small_matrix({"zero_stage": [0, 1, 2, 3]}, {"nodes": 2, "train_iters": 12}, repeats=1)


def cluster() -> Cluster:
    """Two nodes."""
    return small_cluster(2, 2)


def _story(cell: Cell, repeat: int) -> Story | None:
    stage = cell.parameters["zero_stage"]
    if stage == 0:
        return Story({0: torch_gpt(12)}, samples={0: sampled(60, 20, 2), 1: sampled(50, 20, 2)})
    if stage == 1:
        halt = {"cause": "exit", "host": "n2", "message": "n2: exit code 1"}
        return Story({0: torch_gpt(5, of=12), 1: OUT_OF_MEMORY}, halt)
    if stage == 2:
        halt = {"cause": "node_lost", "host": "n1", "message": "n1: out of contact for 7.2 s"}
        return Story({0: torch_gpt(3, of=12)}, halt)
    return None


@cache
def files() -> dict[str, bytes]:
    """The campaign's files: path below the folder of runs to content."""
    identity = {"system torch_gpt/torch-2.13": {"schema": 1, "identity": {"commit": COMMIT}}}

    def facts(host: str) -> dict[str, Any]:
        device = {"name": "Tesla V100-SXM2-32GB", "memory_mib": "32510", "driver": "440.33.01"}
        return inspected(host, devices=[device] * 2, files=identity)

    with tempfile.TemporaryDirectory() as name:
        runs = Path(name)
        write(runs, matrix(), cluster(), _story, facts=facts)
        for node in runs.glob("*/zero*/*/*/nodes/*"):
            (node / "prepared").write_text(json.dumps({"clock_offset_s": 0.1, "boot_id": "b"}))
            polled = {"sent": 1.0, "received": 1.1, "node": 1.05, "log_bytes": 7}
            (node / "timeline.jsonl").write_text(json.dumps(polled) + "\n")
        for attempt in runs.glob(f"*/{names.ATTEMPTS}"):
            product = {"arithmetic": "fp32", "at": 1.8e9, "tflop_per_s": [0.5, 0.5]}
            (attempt / names.PRODUCTS).write_text(json.dumps({"nodes": {"n1": [product]}}))
        paths = sorted(path for path in runs.rglob("*") if path.is_file())
        return {path.relative_to(runs).as_posix(): path.read_bytes() for path in paths}


def lay_out(runs: Path, changed: dict[str, bytes]) -> None:
    """Write the campaign, with some of its files changed."""
    for name, content in {**files(), **changed}.items():
        path = runs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

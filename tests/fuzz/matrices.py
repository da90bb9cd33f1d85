"""Matrix files made wrong: `bench --dry-run` says in a sentence what is wrong, or what would run.

Nothing of a matrix is executed, and no value of one is a character that a terminal obeys.
"""

import json
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from runner.inventory import listing as reader
from tests.conftest import ROOT
from tests.fuzz.case import Said, said
from tests.fuzz.mutation import mutated, mutated_json, some

WORDS = (
    *(b"&a ", b"*a", b"<<: *a", b"!!python/object/apply:os.system [id]", b"!!binary ", b"? "),
    *(b"[[[[[[", b"{{{{", b"{a: b}", b"|\n  x", b">-\n", b"%YAML 1.1\n", b"---\n", b"...\n"),
    *(b"no", b"010", b"1_000", b"0x1F", b"12:30:45", b".inf", b".nan", b"~", b"2026-01-01"),
    *(b"'", b'"', b"\\x1b", b'"\\e[2J"', b'"\\u2028"', b"'$(id)'", b"'{{ 1 }}'", b"# ", b"- "),
    *(b"{{", b"}}", b"{rank}", b"{hostfile}", b"(?i)(", b"x * 2", b"processes", b"first_node"),
    *(b"axes: {seed: [1,2,3,4,5,6,7,8,9]}", b"env: {HF_TOKEN$(id): x}", b"name: ../../x"),
    *(b"repeats: 999999999", b"\t"),
)
OWN = rb"""
defaults:
  system: command
  nodes: 2
  devices_per_node: 2
  argv: [python, "--port={master_port}", train.py, --lr, "{lr}", "{flags}"]
  cwd: /shared/{who}
  launcher: node
  environment: {python: /opt/env/bin/python3}
  parameters: {flags: [], who: me, micro_batch_size_of_mine: 8}
  log: {step: '^step (\d+)/(\d+)', loss: 'loss ([\d.]+)', memory: {pattern: '(1)', unit: GB}}
  samples_per_step: micro_batch_size_of_mine * data_parallel * 4
  tokens_per_sample: 1024
  architecture: {num_layers: 12, hidden_size: 768, num_attention_heads: 12, vocab_size: 50304}
  precision: bf16
axes: {lr: [1e-4, 3e-4], flags: [[], [--compile, "{{"]]}
"""
LISTED: dict[str, Any] = {
    "nodes": {"hosts": ["n1", "n2"]},
    "_meta": {
        "hostvars": {
            host: {
                "ansible_host": address,
                "cluster_root": "/opt/tb",
                "cluster_devices_per_node": 8,
                "cluster_device": "cuda",
                "cluster_env": {"NCCL_DEBUG": "INFO", "HF_TOKEN": "hf_x"},
            }
            for host, address in (("n1", "10.0.0.1"), ("n2", "10.0.0.2"))
        }
    },
}


class Matrices:
    """Seeds are the matrices of this checkout, made small."""

    name = "matrices"
    share = 10

    @cached_property
    def seeds(self) -> list[bytes]:
        """Texts of matrices."""
        paths = [ROOT / "matrix.yaml", *sorted((ROOT / "matrices").glob("*/*.yaml"))]
        return [OWN, *(path.read_bytes() for path in paths if path.stat().st_size < 4000)]

    @cached_property
    def values(self) -> list[Any]:
        """What they hold."""
        return [yaml.safe_load(seed) for seed in self.seeds]

    def make(self, chance: random.Random) -> bytes:
        """A matrix."""
        if chance.random() < 0.5:
            return mutated_json(chance.choice(self.values), chance)
        return mutated(some(chance, self.seeds), chance, WORDS)

    def judge(self, data: bytes, folder: Path) -> None:
        """Show what would run."""
        path = folder / "m.yaml"
        path.write_bytes(data)
        dry_run(path, json.dumps(LISTED).encode(), ("table", "json")[len(data) % 2])


class Listing:
    """Stands in for `ansible-inventory --list`, the program: it prints this and ends well."""

    pid, returncode = 0, 0

    def __init__(self, printed: bytes) -> None:
        self.printed = printed

    def __enter__(self) -> "Listing":
        """Begin."""
        return self

    def __exit__(self, *error: object) -> None:
        """End."""

    def communicate(self, timeout: float) -> tuple[bytes, bytes]:
        """What it printed."""
        return self.printed, b""


@contextmanager
def listing(printed: bytes) -> Iterator[None]:
    """Have the inventory's program print this."""
    program = SimpleNamespace(**{**vars(subprocess), "Popen": lambda *_, **__: Listing(printed)})
    vars(reader)["subprocess"] = program
    try:
        yield
    finally:
        vars(reader)["subprocess"] = subprocess


def dry_run(path: Path, listed: bytes, form: str = "table") -> Said:
    """`bench --dry-run` of a matrix on what the inventory's program prints."""
    nodes = path.parent / "nodes"
    nodes.mkdir(exist_ok=True)
    with listing(listed):
        return said(
            ["bench", "--dry-run", "--matrix", str(path), "-i", str(nodes), "--format", form]
        )

"""Each document's cells as what every node runs: tests/golden/documented/<case>.txt, expanded.

Systems without a document have the cells of their own matrix there.

`python -m tests.golden.test_documented` writes the files again; read the difference against the
document before committing it. The dry run says the same as JSON. node_differences.py tells how the
nodes of a file are written.
"""

import json
import re
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from runner.__main__ import main
from runner.base.paths import PROJECT
from tests.golden.node_differences import expand, shorten
from tests.golden.places import inventory

HERE = Path(__file__).parent / "documented"


@dataclass(frozen=True)
class Case:
    """A document's cells: the matrix, which cells, and the document's machines."""

    matrix: str
    hosts: Mapping[str, str]
    device: str = "cuda"
    devices: int = 8
    only: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)  # of the inventory


VS = {"vs008": "10.10.0.8", "vs009": "10.10.0.9"}
OSDI = {f"osdi{number}": f"10.11.0.{number + 1}" for number in range(1, 5)}
THUMT = {"thumt102": "10.10.10.102", "thumt105": "10.10.10.105"}
CASES = {
    "000-vs": Case("vs", VS, env={"NCCL_IB_PCI_RELAXED_ORDERING": "1"}),
    "000-vs-stages": Case("vs-stages", VS),
    "002-thumt": Case("thumt", THUMT, env={"NCCL_SOCKET_IFNAME": "^lo,docker,virbr"}),
    "002-thumt-containers": Case(
        "thumt-containers",
        THUMT,
        env={"NCCL_SOCKET_IFNAME": "^lo,docker,virbr"},
        more={"cluster_container_engine": "docker"},
    ),
    "003-osdi": Case("osdi", OSDI),
    "003-osdi-zero": Case("osdi-zero", OSDI),
    "004-ascend": Case("ascend", {"ascend1": "10.0.0.1"}, device="npu"),
    "004-ascend-cuda": Case("ascend-cuda", {"gpus": "10.0.0.1"}),
    "torchtitan": Case("torchtitan", {"gpus": "10.0.0.1"}),
    "megatron-core": Case("megatron-core", {"gpus": "10.0.0.1"}, devices=4),
    "megatron-deepspeed-current": Case(
        "megatron-deepspeed-current", {"gpus": "10.0.0.1"}, devices=4
    ),
    "llama": Case("llama", {"gpus": "10.0.0.1"}),
    "long-context": Case("long-context", {"gpus": "10.0.0.1"}, only=("devices=8,tokens=128K,*",)),
    "torch-gpt-speed": Case("speed", {"gpus": "10.0.0.1"}, only=("*micro_batch_size=16*",)),
    "torch-gpt-speed-ab": Case("speed-ab", {"gpus": "10.0.0.1"}, only=("model=gpt-1.3b",)),
    "torch-gpt-speed-two": Case("speed-two", {"gpus": "10.0.0.1"}, only=("*el=gpt-1.3b,*",)),
    "gpu-smoke": Case("gpu-smoke", {"gpu": "127.0.0.1"}, devices=1),
    "gpu-nodes": Case(
        "gpu-nodes", {"node1": "10.77.0.11", "node2": "10.77.0.12"}, only=("zero_stage=3",)
    ),
    "torch-gpt-scaling": Case("scaling", OSDI),
    "torch-gpt-parallel-on-gpus": Case("parallel-on-gpus", {"gpus": "10.0.0.1"}, devices=4),
    "torch-gpt-parallel": Case("parallel", {"node": "10.0.0.1"}, device="cpu", devices=2),
    "001-start-fast": Case("start-fast", {"node": "127.0.0.1"}, devices=2),
}


def planned(case: Case, folder: Path) -> list[dict[str, Any]]:
    """What `bench --dry-run --format json` says."""
    hosts = {"nodes": {"hosts": {name: {"ansible_host": at} for name, at in case.hosts.items()}}}
    place = inventory(
        folder / "cluster",
        hosts,
        cluster_device=case.device,
        cluster_devices_per_node=case.devices,
        cluster_env=dict(case.env),
        **case.more,
    )
    (matrix,) = (PROJECT / "matrices").glob(f"*/{case.matrix}.yaml")
    argv = ["bench", "--matrix", str(matrix)]
    argv += ["-i", str(place), "--dry-run", "--format", "json"]
    for name in case.only:
        argv += ["--only", name]
    said = StringIO()
    with redirect_stdout(said):
        assert main(argv) == 0
    plans: list[dict[str, Any]] = json.loads(said.getvalue())
    return plans


def as_text(plans: list[dict[str, Any]]) -> str:
    """The plans for people: an option a line; RUN is the run's folder, PORT its port."""
    lines = []
    for plan in plans:
        lines += [f"=== {plan['system']}: {plan['cell']}"]
        for node in plan["nodes"]:
            lines += [f"--- {node['host']}, node_rank {node['node_rank']}"]
            lines += [f"cwd {node['cwd']}"]
            lines += [f"env {name}={value}" for name, value in sorted(node["env"].items())]
            lines += [*_options(node["argv"]), ""] if node["argv"] else ["run nothing", ""]
            for name, text in plan["files"].get(node["host"], {}).items():
                lines += [f"file {name}", *(f"    {line}" for line in text.splitlines()), ""]
        lines = [line.replace(plan["run_dir"], "RUN") for line in lines]
    return re.sub(r"(--master_port[ =])\d+", r"\1PORT", "\n".join(lines)) + "\n"


def _options(argv: list[str]) -> list[str]:
    lines: list[str] = []
    for word in argv:
        takes_more = (
            lines
            and " -" in f" {lines[-1].strip()}"
            and not (word.startswith("/") and " " in lines[-1].strip())
        )
        if takes_more and not re.match(r"-|[\w.]+=", word):
            lines[-1] += f" {word}"
        else:
            lines.append(f"    {word}")
    return [f"run {lines[0].strip()}", *lines[1:]]


@pytest.mark.parametrize("name", CASES)
def test_the_documents_cells_are_these_commands(name: str, tmp_path: Path) -> None:
    expected = (HERE / f"{name}.txt").read_text(encoding="utf-8")
    printed = as_text(planned(CASES[name], tmp_path))
    assert printed == expand(expected)
    assert shorten(printed) == expected


def test_every_file_has_its_case() -> None:
    assert {path.stem for path in HERE.glob("*.txt")} == set(CASES)


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for key, one in CASES.items():
        with tempfile.TemporaryDirectory() as temporary:
            text = as_text(planned(one, Path(temporary)))
        (HERE / f"{key}.txt").write_text(shorten(text), encoding="utf-8")

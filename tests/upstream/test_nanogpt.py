"""nanoGPT on the processors of two nodes by `system: command` alone: killed, and gone on with.

It is not changed but in three lines, without which its processes of torchrun take a GPU each. The
text that it learns is this project's own documents.
"""

import array
import json
import os
import pickle
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runner.folder import names
from tests.cluster.fixtures import RealNodes
from tests.conftest import ROOT
from tests.on_nodes.campaign import Bench, wait
from tests.upstream.mirrors import git, mirror

pytestmark = [pytest.mark.cluster, pytest.mark.nightly("upstream", by_day="downloads")]

COMMIT = "3adf61e154c3fe3fca428ad6bc3818b27a3b8291"
TORCH = ROOT / ".trainbench" / "systems" / "torch_gpt" / "torch-2.13" / "env" / "bin" / "python3"
# train.py: what takes a GPU, though --device=cpu was said.
ON_PROCESSORS = {
    "    device = f'cuda:{ddp_local_rank}'\n": "",
    "    torch.cuda.set_device(device)\n": "",
    "DDP(model, device_ids=[ddp_local_rank])": "DDP(model)",
}
SIZES = {"n_layer": 2, "n_head": 2, "n_embd": 64, "block_size": 64, "max_iters": 40}
MORE = {"eval_interval": 20, "eval_iters": 2, "log_interval": 1, "warmup_iters": 5}


def matrix(trainer: Path) -> dict[str, Any]:
    """Two batch sizes; torchrun on each node, by words."""
    torchrun = "--nnodes {nodes} --node_rank {node_rank} --nproc_per_node {devices_per_node}"
    server = "--master_addr {master_addr} --master_port {master_port}"
    fixed = {**SIZES, **MORE, "device": "cpu", "backend": "gloo", "dtype": "float32"}
    words = [f"--{key}={value}" for key, value in {**fixed, "compile": False}.items()]
    # It splits each of its arguments at `=`, which a run's folder has in its name.
    own = ["--out_dir={scratch}/out", "--batch_size={batch_size}", "--dataset=own"]
    accumulation = "--gradient_accumulation_steps={accumulation}"
    return {
        "name": "nanogpt",
        "defaults": {
            **{"system": "command", "nodes": 2, "devices_per_node": 1, "log": "nanogpt"},
            "argv": [
                *("python", "-m", "torch.distributed.run", *torchrun.split(), *server.split()),
                *("train.py", *words, *own, accumulation),
            ],
            "cwd": str(trainer),
            "environment": {"python": str(TORCH)},
            "parameters": {"accumulation": 2},
            "samples_per_step": "batch_size * accumulation",
            "tokens_per_sample": SIZES["block_size"],
            "architecture": {
                **{"num_layers": SIZES["n_layer"], "hidden_size": SIZES["n_embd"]},
                **{"num_attention_heads": SIZES["n_head"], "vocab_size": 128},
            },
        },
        "axes": {"batch_size": [4, 8]},
        "warmup_iters": 5,
        "baseline": "batch_size=4",
    }


def prepare(folder: Path) -> None:
    """Lay nanoGPT out, for processors, with the documents' letters as its data."""
    git(folder.parent, "clone", "-q", str(mirror("karpathy/nanoGPT", COMMIT)), str(folder))
    assert git(folder, "checkout", "-q", COMMIT).returncode == 0
    train = folder / "train.py"
    text = train.read_text()
    for theirs, ours in ON_PROCESSORS.items():
        assert theirs in text
        text = text.replace(theirs, ours)
    train.write_text(text)
    data = folder / "data" / "own"
    data.mkdir()
    texts = [path.read_text("ascii", "ignore") for path in sorted((ROOT / "docs").glob("*.md"))]
    letters = array.array("H", list("".join(texts).encode("ascii")))
    for name, part in (("train", letters[:-9000]), ("val", letters[-9000:])):
        (data / f"{name}.bin").write_bytes(part.tobytes())
    (data / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 128}))


@pytest.mark.timeout(900)
def test_nanogpt_on_two_nodes(tmp_path: Path, seen_by_nodes: Path, real_nodes: RealNodes) -> None:
    mirror("karpathy/nanoGPT", COMMIT)
    if not TORCH.exists():
        pytest.skip("this machine is not set up: run `make setup` first")
    seen_by_nodes.mkdir(parents=True)
    trainer = seen_by_nodes / "nanoGPT"
    prepare(trainer)
    variables = {
        **{"cluster_root": "/opt/own-root", "cluster_devices_per_node": 1},
        "cluster_scratch": "/var/tmp",
        "cluster_env": {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"},
    }
    bench = Bench(tmp_path, real_nodes(2, variables=variables).inventory, matrix(trainer))
    bench.start()
    log = "batch_size=8*/*/*/nodes/0000-*/launcher.log"
    process = bench.process
    assert process is not None
    wait(
        lambda: (
            process.poll() is not None
            or any(b"iter 3:" in path.read_bytes() for path in bench.campaign.glob(log))
        ),
        400,
        "the second cell",
    )
    assert process.poll() is None, bench.said()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = bench.run("--format", "json", timeout=400)
    assert done.returncode == 0, done.stderr
    assert "1 already done" in done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [(row["cell"], row["status"]) for row in rows] == [
        ("batch_size=4", "ok"),
        ("batch_size=8", "ok"),
    ]
    for row, batch in zip(rows, (4, 8), strict=True):
        assert row["final_loss"] < 4.8  # ln(128) is 4.85: it fell
        assert row["samples_per_s"] == pytest.approx(2e3 * batch / row["step_time_ms"], rel=5e-2)
        assert row["tokens_per_s"] == pytest.approx(64 * row["samples_per_s"], rel=1e-6)
        assert row["model_tflop_per_s_per_device"] > 0
    assert bench.attempt("batch_size=8", attempt=2)
    said = json.loads((bench.campaign / names.CAMPAIGN).read_text())["environment"]
    print(json.dumps(said, indent=1))
    table = ["python", "-m", "runner", "collect", "--runs", str(bench.runs)]
    print(subprocess.run(table, capture_output=True, text=True).stdout)

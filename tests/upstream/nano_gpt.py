"""nanoGPT for processors by `system: command`, and its matrix.

It is not changed but in three lines, without which its processes of torchrun take a GPU each. The
text that it learns is this project's own documents.
"""

import array
import pickle
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.upstream.mirrors import git, mirror

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

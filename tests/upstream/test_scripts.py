"""What the documents' launch scripts start, and what we start for the same cell.

Every difference is here; docs/documents.md and docs/systems/ explain them. What each cell of the
documents starts is held by tests/golden/documented.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.base.paths import PROJECT
from runner.matrix.file import load_matrix
from runner.plan.make import make_run
from runner.terms.orders import NodeRun
from tests.runner.builders import one_device, small_cluster, small_run
from tests.upstream.mirrors import show
from tests.upstream.scripts import Started, differences, options, run

EIGHT = small_cluster(2, 8, device="cuda")
HOME = "/opt/tb/systems"
OSCAR = "/opt/tb/datasets/oscar-en-10k"
# Options whose values are places, which are ours: (theirs, ours) need not be equal.
Differences = Mapping[str, tuple[Any, Any]]


def node(cell: Mapping[str, Any], rank: int = 0, **more: Any) -> NodeRun:
    return small_run(cell, more.get("cluster", EIGHT)).nodes[rank]


def of_matrix(name: str, **which: Any) -> NodeRun:
    """The first node's part of the matrix' first cell with these values."""
    found = load_matrix(PROJECT / "matrices" / "documents" / f"{name}.yaml", one_device)
    cells = [c for c in found.cells if which.items() <= {**vars(c), **c.parameters}.items()]
    return make_run(found, cells[0], EIGHT, campaign="c").nodes[0]


def paths(run_: NodeRun, text: str) -> str:
    """Ours with the run's folder and port as words."""
    return text.replace(run_.dir, "RUN")


def ours_of(run_: NodeRun) -> dict[str, str]:
    argv = [paths(run_, word) for word in run_.argv[1:]]
    port = argv[argv.index("--master_port") + 1]
    return {name: text.replace(port, "PORT") for name, text in options(argv).items()}


# Ours alone, in every run: docs/runs.md has each one's reason.
EVERY_RUN = {
    *("PATH", "PYTHONUNBUFFERED", "PYTHONFAULTHANDLER", "CUDA_DEVICE_ORDER", "CUDA_HOME"),
    *("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR"),
}


def variables(theirs: Started, ours: NodeRun) -> dict[str, tuple[Any, Any]]:
    """Variables that differ, beyond what every run of ours has; each stands in docs/systems/."""
    differ = differences(theirs.env, ours.env)
    added = {name for name in EVERY_RUN & set(differ) if differ[name][0] is None}
    assert {"PATH", "PYTHONFAULTHANDLER"} <= added
    return {name: pair for name, pair in differ.items() if name not in added}


def theirs_of(started: Started) -> dict[str, str]:
    return options(started.argv[1:])


# --- 000: Megatron-DeepSpeed ----------------------------------------------------------------------

DATA = "/opt/tb/datasets/oscar-1GB"
SCRIPT_000 = f"{HOME}/megatron_deepspeed/oneflow2022/src/pretrain_gpt.py"
PLACES_000: Differences = {
    "--master_port": ("6000 ./pretrain_gpt.py", f"PORT {SCRIPT_000}"),
    "--vocab-file": ("gpt2-vocab.json", f"{DATA}/vocab.json"),
    "--merge-file": ("gpt2-merges.txt", f"{DATA}/merges.txt"),
    "--data-path": ("my-gpt2_text_document", f"{DATA}/oscar-1GB_text_document"),
    "--deepspeed_config": ("./ds_config.json", "RUN/ds_config.json"),
    # Trainer's own defaults, said aloud.
    "--clip-grad": (None, "1"),
    "--split": (None, "969,30,1"),
    # checkpoint: off
    "--save": ("checkpoints/gpt2", None),
    "--save-interval": ("10000", None),
}
CELL_000 = {
    **{"system": "megatron_deepspeed", "dataset": "oscar-1GB", "nodes": 2, "devices_per_node": 8},
    **{"tensor_parallel": 2, "pipeline_parallel": 4, "activation_checkpointing": True},
    **{"micro_batch_size": 32, "global_batch_size": 512, "ddp_impl": "local"},
}
FORK = ("Oneflow-Inc/Megatron-DeepSpeed", "5d682d6fcd335f13fa03e2dc4a9c90e0a660839c")


IN_VS = {"NCCL_IB_PCI_RELAXED_ORDERING": ("1", None)}  # inventory/vs has it


def documented(script: str, tmp_path: Path, *arguments: str) -> Started:
    place = tmp_path / "work"
    place.mkdir()
    (place / script).write_text(show(*FORK, f"gpt_script/{script}"))
    return run(place / script, arguments, place)[-1]


def test_args_deepspeed_gpt(tmp_path: Path) -> None:
    values = ["2", "8", "0", "10.0.0.1", "2", "4", "true", "true", "32", "512"]
    theirs = documented("args_deepspeed_gpt.sh", tmp_path, *values)
    ours = node(CELL_000)
    assert differences(theirs_of(theirs), ours_of(ours)) == PLACES_000
    assert json.loads(ours.files["ds_config.json"]) == json.loads(
        (theirs.cwd / "ds_config.json").read_text()
    )
    assert variables(theirs, ours) == IN_VS


def test_args_distributed_gpt_is_deepspeed_off(tmp_path: Path) -> None:
    values = ["2", "8", "1", "10.0.0.1", "2", "4", "true", "true", "32", "512"]
    theirs = documented("args_distributed_gpt.sh", tmp_path, *values)
    ours = node({**CELL_000, "deepspeed": "off", "zero_stage": 0}, 1)
    expected = {key: value for key, value in PLACES_000.items() if key != "--deepspeed_config"}
    assert differences(theirs_of(theirs), ours_of(ours)) == expected
    assert variables(theirs, ours) == {**IN_VS, "LOGLEVEL": (None, "WARNING")}
    assert ours.files == {}


# --- 000: LiBai -----------------------------------------------------------------------------------

AUTOTEST = ("Oneflow-Inc/OneAutoTest", "37905dcb5c03d090962864973e3b9221d43155a9")
LIBAI = f"{HOME}/libai/9fc504c4/src"


def test_args_libai_gpt2(tmp_path: Path) -> None:
    place = tmp_path / "work"
    place.mkdir()
    text = show(*AUTOTEST, "libai/args_libai_gpt2.sh")
    # the two lines, before output_dir and not where they stand
    lines = "train.zero_optimization.enabled=True \\\ntrain.zero_optimization.stage=2 \\\n"
    assert lines.replace("train", "#train") in text
    text = text.replace("train.output_dir=", f"{lines}train.output_dir=")
    (place / "args_libai_gpt2.sh").write_text(text)
    values = ["configs/gpt2_nl24_nah16_hs1024.py", "2", "8", "1", "10.0.0.1"]
    values += ["2", "4", "true", "true", "60", "1920"]
    started = run(place / "args_libai_gpt2.sh", values, place)[-1]
    theirs = theirs_of(started)
    assert theirs.pop("train.output_dir").startswith("test_logs/01b1d32/2n8g/LibAI_gpt2_nl24")
    cell = {
        **{"system": "libai", "dataset": "libai-loss-compara", "nodes": 2, "devices_per_node": 8},
        **{"tensor_parallel": 2, "pipeline_parallel": 4, "activation_checkpointing": True},
        **{"micro_batch_size": 60, "global_batch_size": 1920, "zero_stage": 2},
    }
    ours = node(cell, 1)
    assert differences(theirs, ours_of(ours)) == {
        "--master_port": ("12345 tools/train_net.py", f"PORT {LIBAI}/tools/train_net.py"),
        "--config-file": ("configs/gpt2_nl24_nah16_hs1024.py", "RUN/libai_config.py"),
    }
    assert variables(started, ours) == {}
    assert ours.cwd == LIBAI


# --- 001 ------------------------------------------------------------------------------------------


def test_start_fast(tmp_path: Path) -> None:
    """The document's script is upstream's start_fast.md, word for word (upstream.md, section 0)."""
    text = show("bigscience-workshop/Megatron-DeepSpeed", "e52bdabb", "start_fast.md")
    script = text[text.index("CHECKPOINT_PATH=") : text.index("\n$CMD\n") + 6]
    place = tmp_path / "work"
    place.mkdir()
    (place / "script.sh").write_text(script)
    theirs = run(place / "script.sh", [], place)[-1]
    ours = of_matrix("start-fast")
    data = "/opt/tb/datasets/oscar-en-10k"
    assert differences(theirs_of(theirs), ours_of(ours)) == {
        "-u": ("", None),  # PYTHONUNBUFFERED=1 says the same
        # Static ranks: c10d's rendezvous gives nodes their ranks in no order.
        "--rdzv_endpoint": ("localhost:6777", None),
        "--rdzv_backend": ("c10d", None),
        "--node_rank": (None, "0"),
        "--master_addr": (None, "10.0.0.1"),
        "--master_port": (None, "PORT"),
        "--tee": ("3 pretrain_gpt.py", "3"),
        "--log_dir": (None, f"RUN/ranks {HOME}/megatron_deepspeed/e52bdabb/src/pretrain_gpt.py"),
        "--split": (None, "969,30,1"),
        "--save": ("checkpoints/gpt2", None),
        "--load": ("checkpoints/gpt2", None),
        "--save-interval": ("50", None),
        "--vocab-file": ("data/gpt2-vocab.json", f"{data}/vocab.json"),
        "--merge-file": ("data/gpt2-merges.txt", f"{data}/merges.txt"),
        "--data-path": (
            "data/meg-gpt2-oscar-en-10k_text_document",
            f"{data}/oscar-en-10k_text_document",
        ),
        "--tensorboard-dir": ("output_dir/tensorboard", "RUN/tensorboard"),
        "--kill-switch-path": ("/tmp/kill-switch", "RUN/kill-switch"),
        "--deepspeed_config": ("./ds_config.json", "RUN/ds_config.json"),
    }
    assert json.loads(ours.files["ds_config.json"]) == json.loads(
        (theirs.cwd / "ds_config.json").read_text()
    )
    differ = variables(theirs, ours)
    assert {differ.pop(name)[1] for name in ("CMD", "LAUNCHER")} == {None}  # the shell's own
    assert differ == {"LOGLEVEL": (None, "WARNING"), "OMP_NUM_THREADS": (None, "1")}
    seeds = Path(os.environ.get("TRAINBENCH_SHARED") or "/nonexistent") / "seeds"
    for document in seeds.glob("001_*.txt"):
        assert script in document.read_text(encoding="utf-8").replace("\r\n", "\n")


# --- 002 ------------------------------------------------------------------------------------------

LM = f"{HOME}/megatron_lm/v1.1.5/src/Megatron-LM-v1.1.5-3D_parallelism/pretrain_gpt2.py"
DATASET = "/opt/tb/datasets/default"
DS_002 = {
    **{"launcher": "deepspeed", "deepspeed": "on", "micro_batch_size": 9, "tensor_parallel": 4},
    **{"checkpoint_num_layers": 1, "partition_activations": True, "tensorboard": True},
    **{"synchronize_each_layer": True, "contiguous_checkpointing": True},
}


def of_document(number: str, begins: str, which: int) -> str:
    """A script of a document, which lies beside this project and not in it."""
    folder = Path(os.environ.get("TRAINBENCH_SHARED") or "/nonexistent") / "seeds"
    for document in folder.glob(f"{number}_*.txt"):
        text = document.read_text(encoding="utf-8").replace("\r\n", "\n")
        blocks = [block for block in text.split("```") if begins in block]
        return blocks[which].split("\n", 1)[1]
    pytest.skip("TRAINBENCH_SHARED names no folder with the documents")


def places_002(data: str, vocab: str, merges: str, saved: str) -> dict[str, tuple[Any, Any]]:
    return {
        "--data-path": (data, f"{DATASET}/default_text_document"),
        "--vocab-file": (vocab, f"{DATASET}/vocab.json"),
        "--merge-file": (merges, f"{DATASET}/merges.txt"),
        "--save": (saved, None),  # checkpoint: off
        "--load": (saved, None),
    }


def script_002(text: str, tmp_path: Path) -> Started:
    place = tmp_path / "examples"
    place.mkdir()
    (place / "script.sh").write_text(text)
    return run(place / "script.sh", [], place)[-1]


@pytest.mark.parametrize("rank", [0, 1])
def test_the_documents_script_without_deepspeed(rank: int, tmp_path: Path) -> None:
    text = of_document("002", "pretrain_gpt2.py", 0)
    nodes = f"NNODES=2\nNODE_RANK={rank}"
    theirs = script_002(text.replace("NNODES=1\nNODE_RANK=0", nodes), tmp_path)
    ours = node({"system": "megatron_lm", "nodes": 2, "device_ids": [4, 5]}, rank)
    data = "/data/private/jr/DATASET/125w/data_hxc/train"
    expected = places_002(
        f"{data}/nist02-32k_text_sentence",
        f"{data}/vocab.json",
        f"{data}/bpe32k",
        "/data/private/jr/projects/MLM",
    )
    assert differences(theirs_of(theirs), ours_of(ours)) == {
        **expected,
        "--master_addr": ("10.10.10.102", "10.0.0.1"),
        "--master_port": ("6000 ../pretrain_gpt2.py", f"PORT {LM}"),
        "--save-interval": ("10000", None),
    }
    assert variables(theirs, ours) == {}
    assert ours.env["CUDA_VISIBLE_DEVICES"] == "4,5"


def ds_differences(theirs: Started, ours: NodeRun) -> dict[str, tuple[Any, Any]]:
    differ = differences(theirs_of(theirs), ours_of(ours))
    name, ours_name = differ.pop("--deepspeed_config")
    assert (Path(name).name, ours_name) == ("ds_zero_stage_2_config.json", "RUN/ds_config.json")
    board, ours_board = differ.pop("--tensorboard-dir")
    assert board.startswith("tensorboard_data/24l_1024h_1n_")
    assert ours_board == "RUN/tensorboard"
    assert differ.pop("--save-interval")[1] is None
    # The file's, which is what runs: nothing reads the script's.
    assert differ.pop("--zero-allgather-bucket-size") == ("5000000000", "50000000")
    devices = theirs.env["DLWS_NUM_GPU_PER_WORKER"]  # for the script itself
    assert variables(theirs, ours) == {
        "DLWS_NUM_GPU_PER_WORKER": (devices, None),
        "DLWS_NUM_WORKER": ("1", None),
    }
    return differ


def test_the_documents_script_with_deepspeed(tmp_path: Path) -> None:
    theirs = script_002(of_document("002", "ds_zero_stage_2_config", 0), tmp_path)
    ours = node({"system": "megatron_lm", "devices_per_node": 4, **DS_002})
    data = "/data/private/jr/DATASET/125w/data_hxc/train"
    expected = places_002(
        f"{data}/nist02-32k_text_sentence",
        f"{data}/vocab.json",
        f"{data}/bpe32k",
        "/data/private/jr/projects/MLM",
    )
    assert ds_differences(theirs, ours) == {
        **expected,
        "--master_port": (None, "PORT"),
        "--num_gpus": ("4 ../pretrain_gpt2.py", f"4 {LM}"),
    }


# --- 003 ------------------------------------------------------------------------------------------

BENCHMARK = ("Oneflow-Inc/OneFlow-Benchmark", "bf832bed")


@pytest.mark.parametrize(("switch", "on"), [("off", False), ("on", True)])
def test_train_gpt2(switch: str, on: bool, tmp_path: Path) -> None:
    place = tmp_path / "gpt-2"
    (place / "src").mkdir(parents=True)
    text = show(*BENCHMARK, "LanguageModeling/gpt-2/src/train_gpt2.sh")
    two = text.replace("num_node=1", "num_node=2").replace(
        "10.11.0.2,10.11.0.3", "10.0.0.1,10.0.0.2"
    )
    (place / "src" / "train_gpt2.sh").write_text(two)
    theirs = run(place / "src" / "train_gpt2.sh", [switch, "0,1,2,3,4,5,6,7", "4"], place)[-1]
    cell = {"system": "oneflow_gpt", "dataset": "enwiki", "nodes": 2, "devices_per_node": 8}
    first, second = small_run({**cell, "placement_optimization": on}, EIGHT).nodes
    assert first.argv == second.argv
    said = {name: paths(first, text) for name, text in options(first.argv[1:]).items()}
    port = str(first.ports[0])
    source = f"{HOME}/oneflow_gpt/osdi/src/LanguageModeling/gpt-2/src/train.py"
    logs = f"1208-test-10-oneflow-gpt2-small_output_{switch}_distributed_split_2n8g_bz4"
    assert differences(theirs_of(theirs), said) == {
        "": ("src/train.py", source),
        "--log_dir": (logs, "RUN/oneflow"),
        "--dataset": ("/datasets/wiki/enwiki/AA", "/opt/tb/datasets/enwiki/text/AA"),
        "--cfg_dir": (None, "/opt/tb/datasets/enwiki"),
        "--ctrl_port": (None, port),
    }
    assert second.ports == first.ports
    assert variables(theirs, first) == {}


DLPERF = ("Oneflow-Inc/DLPerf", "osdi_deepspeed_gpt2")


def test_the_competitors_script(tmp_path: Path) -> None:
    """DLPerf's copy of ds_zero2_pretrain_gpt2_model_parallel.sh, and the configuration it edits."""
    place = tmp_path / "Megatron-LM"
    (place / "scripts").mkdir(parents=True)
    for name in ("ds_zero2_pretrain_gpt2_model_parallel.sh", "ds_zero2_config.json"):
        (place / "scripts" / name).write_text(
            show(*DLPERF, f"DeepSpeed/Megatron-LM/scripts/{name}")
        )
    script = place / "scripts" / "ds_zero2_pretrain_gpt2_model_parallel.sh"
    theirs = run(script, ["4", "8", "1", "off", "2"], place)[-1]
    ours = of_matrix("osdi-zero", nodes=2, zero_stage=1)
    old = f"{HOME}/megatron_lm/a79272cc/src/Megatron-LM/pretrain_gpt2.py"
    differ = differences(theirs_of(theirs), ours_of(ours))
    assert differ.pop("--deepspeed_config")[1] == "RUN/ds_config.json"
    assert differ.pop("--save")[1] is None
    assert differ == {
        "--hostfile": ("deepspeed_hosts", "hostfile"),
        "--master_addr": (None, "10.0.0.1"),
        "--master_port": (None, "PORT"),
        "--num_gpus": ("8 pretrain_gpt2.py", f"8 {old}"),
        # the corpus whose path DLPerf edits into the source, by its path
        "--train-data": ("wikipedia", f"{OSCAR}/oscar-en-10k.jsonl"),
        "--text-key": (None, "text"),
        "--loose-json": (None, ""),
        # the trainer's own defaults, said aloud
        "--log-interval": (None, "100"),
        "--eval-interval": (None, "1000"),
        "--eval-iters": (None, "100"),
    }
    assert variables(theirs, ours) == {"GPT2_VOCABULARY": (None, OSCAR)}
    config = json.loads((place / "scripts" / "ds_zero2_config.json").read_text())
    assert json.loads(ours.files["ds_config.json"]) == config


# --- 004 ------------------------------------------------------------------------------------------

ZOO = ("Ascend/ModelZoo-PyTorch", "2e49c279")
GPT2 = "PyTorch/built-in/nlp/GPT-2_for_PyTorch"
ASCEND = f"{HOME}/ascend_gpt/2e49c279/src/{GPT2}"
NPUS = small_cluster(1, 8, device="npu")


def ascend(script: str, model: str, tmp_path: Path) -> Started:
    place = tmp_path / "zoo"
    (place / "test").mkdir(parents=True)
    for name in (script, "env_npu.sh"):
        (place / "test" / name).write_text(show(*ZOO, f"{GPT2}/test/{name}"))
    said = [f"--data_path={tmp_path}", f"--model_size={model}", "--train_iters=1000"]
    return run(place / "test" / script, said, place)[-1]


@pytest.mark.parametrize(
    ("script", "mode", "iters", "model"),
    [
        ("train_full_8p.sh", "full", 1000, "2.7B"),
        ("train_performance_8p.sh", "performance", 300, "345M_without_mp"),
    ],
)
def test_train_8p(script: str, mode: str, iters: int, model: str, tmp_path: Path) -> None:
    """train_performance_8p.sh ignores --train_iters: 300."""
    theirs = ascend(script, model, tmp_path)
    cell = {"system": "ascend_gpt", "dataset": "enwiki", "devices_per_node": 8, "mode": mode}
    ours = node({**cell, "model": model, "train_iters": iters, "tensorboard": True}, cluster=NPUS)
    program = ours.argv[: ours.argv.index(f"{ASCEND}/run.py")]
    assert program[:2] == ("/bin/bash", "-c")
    said = options([paths(ours, word) for word in ours.argv[len(program) :]])
    said["--master_port"] = said["--master_port"].replace(str(ours.ports[0]), "PORT")
    differ = differences(theirs_of(theirs), said)
    assert differ.pop("--include") == (
        f"localhost:0,1,2,3,4,5,6,7 {theirs.cwd}/pretrain_gpt.py",
        "localhost:0,1,2,3,4,5,6,7",
    )
    data = "/opt/tb/datasets/enwiki"
    assert differ == {
        "": ("run.py", f"{ASCEND}/run.py"),
        "--master_port": (None, f"PORT {ASCEND}/pretrain_gpt.py"),
        "--data-path": ("./data/my-gpt_text_sentence", f"{data}/enwiki_text_document"),
        "--vocab-file": ("./data/gpt2-vocab.json", f"{data}/vocab.json"),
        "--merge-file": ("./data/gpt2-merges.txt", f"{data}/merges.txt"),
        "--tensorboard-dir": ("ckpts/ckpts_tmp/tensorboard_dir", "RUN/tensorboard"),
        "--deepspeed_config": ("./ds_config.json", "RUN/ds_config.json"),
        "--save": ("ckpts/ckpts_tmp", None),
        "--save-interval": ("100000", None),
    }
    config = json.loads((theirs.cwd / "ds_config.json").read_text())
    assert json.loads(ours.files["ds_config.json"]) == config
    differ = variables(theirs, ours)
    assert differ.pop("HCCL_IF_IP")[1] == "10.0.0.1"  # theirs: the first of `hostname -I`
    assert differ == {}


# --- megatron_core: no document; NVIDIA's own example ---------------------------------------------

"""What upstream's launch scripts start, and what we start for the same cell.

Every difference is here; docs/documents.md and docs/systems/ explain them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

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


@pytest.mark.parametrize("rank", [0, 1])
def test_args_deepspeed_gpt(rank: int, tmp_path: Path) -> None:
    values = ["2", "8", str(rank), "10.0.0.1", "2", "4", "true", "true", "32", "512"]
    theirs = documented("args_deepspeed_gpt.sh", tmp_path, *values)
    ours = node(CELL_000, rank)
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


def test_fp32_upstreams_configuration_says_half_and_ours_does_not(tmp_path: Path) -> None:
    values = ["1", "8", "0", "10.0.0.1", "1", "1", "false", "false", "4", "32"]
    theirs = documented("args_deepspeed_gpt.sh", tmp_path, *values)
    cell = {"system": "megatron_deepspeed", "devices_per_node": 8, "precision": "fp32"}
    ours = node({**cell, "micro_batch_size": 4, "global_batch_size": 32})
    assert "--fp16" not in theirs.argv
    assert "--fp16" not in ours.argv
    config = json.loads((theirs.cwd / "ds_config.json").read_text())
    assert config["fp16"]["enabled"] is True
    config["fp16"]["enabled"] = False
    assert json.loads(ours.files["ds_config.json"]) == config


def test_checkpoints_as_documented_go_into_the_runs_folder() -> None:
    said = ours_of(node({**CELL_000, "checkpoint": "documented"}))
    assert (said["--save"], said["--save-interval"]) == ("RUN/checkpoints", "10000")
    assert "--load" not in said


# --- 000: LiBai -----------------------------------------------------------------------------------

AUTOTEST = ("Oneflow-Inc/OneAutoTest", "37905dcb5c03d090962864973e3b9221d43155a9")
LIBAI = f"{HOME}/libai/9fc504c4/src"


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("zero", [0, 1, 2])
def test_args_libai_gpt2(rank: int, zero: int, tmp_path: Path) -> None:
    place = tmp_path / "work"
    place.mkdir()
    text = show(*AUTOTEST, "libai/args_libai_gpt2.sh")
    if zero:  # the two lines, before output_dir and not where they stand
        lines = "train.zero_optimization.enabled=True \\\ntrain.zero_optimization.stage=2 \\\n"
        assert lines.replace("train", "#train") in text
        wanted = lines.replace("stage=2", f"stage={zero}")
        text = text.replace("train.output_dir=", f"{wanted}train.output_dir=")
    (place / "args_libai_gpt2.sh").write_text(text)
    values = ["configs/gpt2_nl24_nah16_hs1024.py", "2", "8", str(rank), "10.0.0.1"]
    values += ["2", "4", "true", "true", "60", "1920"]
    started = run(place / "args_libai_gpt2.sh", values, place)[-1]
    theirs = theirs_of(started)
    assert theirs.pop("train.output_dir").startswith("test_logs/01b1d32/2n8g/LibAI_gpt2_nl24")
    cell = {
        **{"system": "libai", "dataset": "libai-loss-compara", "nodes": 2, "devices_per_node": 8},
        **{"tensor_parallel": 2, "pipeline_parallel": 4, "activation_checkpointing": True},
        **{"micro_batch_size": 60, "global_batch_size": 1920, "zero_stage": zero},
    }
    ours = node(cell, rank)
    assert differences(theirs, ours_of(ours)) == {
        "--master_port": ("12345 tools/train_net.py", f"PORT {LIBAI}/tools/train_net.py"),
        "--config-file": ("configs/gpt2_nl24_nah16_hs1024.py", "RUN/libai_config.py"),
    }
    assert variables(started, ours) == {}
    assert ours.cwd == LIBAI


class Setting:
    """A configuration that writes down what is set, at any depth."""

    def __init__(self, sets: dict[str, Any], name: str) -> None:
        object.__setattr__(self, "_sets", sets)
        object.__setattr__(self, "_name", name)

    def __getattr__(self, name: str) -> Any:
        at = f"{self._name}.{name}"
        return self._sets.get(at, Setting(self._sets, at))

    def __getitem__(self, index: int) -> Setting:
        if index:
            raise IndexError
        return Setting(self._sets, f"{self._name}[{index}]")

    def __setattr__(self, name: str, value: Any) -> None:
        self._sets[f"{self._name}.{name}"] = value


def settings(text: str) -> dict[str, Any]:
    """What a LiBai configuration sets, with LiBai itself stood in for (it needs OneFlow)."""
    sets: dict[str, Any] = {}
    lines = [line for line in text.splitlines() if "import" not in line]

    class LazyConfig:
        @staticmethod
        def load(path: str, names: Any) -> Any:
            several = [Setting(sets, name) for name in names]
            return several if isinstance(names, tuple) else Setting(sets, names)

    scope: dict[str, Any] = {
        **{"LazyConfig": LazyConfig, "PPLEvaluator": "PPL", "LazyCall": lambda of: lambda: of},
        **{name: Setting(sets, name) for name in ("train", "optim", "dataloader", "graph")},
        **{"model": Setting(sets, "pretrain_model"), "tokenization": Setting(sets, "tokenization")},
    }
    exec("\n".join(lines), scope)  # upstream's file and ours, in a test
    return sets


def test_our_libai_configuration_sets_what_upstreams_sets() -> None:
    theirs = settings(show(*AUTOTEST, "libai/gpt2_nl24_nah16_hs1024.py"))
    ours_text = node(
        {"system": "libai", "dataset": "d", "devices_per_node": 8, "global_batch_size": 32}
    )
    ours = settings(ours_text.files["libai_config.py"].replace(ours_text.dir, "RUN"))
    data = "/opt/tb/datasets/d"
    prefix = ("/path/to/loss_compara_content_sentence", f"{data}/d_text_document")
    assert differences(theirs, ours) == {
        "tokenization.tokenizer.vocab_file": ("/path/to/gpt2-vocab.json", f"{data}/vocab.json"),
        "tokenization.tokenizer.merges_file": ("/path/to/gpt2-merges.txt", f"{data}/merges.txt"),
        "dataloader.train.dataset[0].data_prefix": prefix,
        "dataloader.train.dataset[0].indexed_dataset.data_prefix": prefix,
        "train.seed": (None, 1234),  # LiBai's own default
        "train.output_dir": (None, "RUN/output"),
    }


# --- 001 ------------------------------------------------------------------------------------------


def test_start_fast(tmp_path: Path) -> None:
    """The document's script is upstream's start_fast.md, word for word (upstream.md, section 0)."""
    text = show("bigscience-workshop/Megatron-DeepSpeed", "e52bdabb", "start_fast.md")
    script = text[text.index("CHECKPOINT_PATH=") : text.index("\n$CMD\n") + 6]
    place = tmp_path / "work"
    place.mkdir()
    (place / "script.sh").write_text(script)
    theirs = run(place / "script.sh", [], place)[-1]
    from runner.base.paths import PROJECT
    from runner.matrix.file import load_matrix
    from runner.plan.make import make_run

    found = load_matrix(PROJECT / "matrices" / "documents" / "start-fast.yaml", one_device)
    ours = make_run(found, found.cells[0], EIGHT, campaign="c").nodes[0]
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

EXAMPLES = ("microsoft/DeepSpeedExamples", "5c6b1c8f364797a986aa79f65d17a3c22c2741aa")
LM = f"{HOME}/megatron_lm/v1.1.5/src/Megatron-LM-v1.1.5-3D_parallelism/pretrain_gpt2.py"
DATASET = "/opt/tb/datasets/default"
UPSTREAM_002 = {"system": "megatron_lm", "devices_per_node": 8, "split": "949,50,1"}
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


def test_pretrain_gpt2_distributed(tmp_path: Path) -> None:
    text = show(*EXAMPLES, f"{FOLDER_002}/examples/pretrain_gpt2_distributed.sh")
    # Placeholders that a shell would take for redirections.
    theirs = script_002(text.replace("<", "").replace(">", "").replace("Specify ", ""), tmp_path)
    ours = node({**UPSTREAM_002, "train_iters": 500000, "log_interval": 100})
    differ = differences(theirs_of(theirs), ours_of(ours))
    for name in ("--data-path", "--save", "--load"):  # `Specify path`
        differ.pop(name)
    assert differ == {
        "--master_addr": ("localhost", "10.0.0.1"),
        "--master_port": ("6000 pretrain_gpt2.py", f"PORT {LM}"),
        "--vocab-file": ("gpt2-vocab.json", f"{DATASET}/vocab.json"),
        "--merge-file": ("gpt2-merges.txt", f"{DATASET}/merges.txt"),
        "--save-interval": ("10000", None),
    }


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


FOLDER_002 = "Megatron-LM-v1.1.5-3D_parallelism"


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


def test_ds_pretrain_gpt2(tmp_path: Path) -> None:
    text = show(*EXAMPLES, f"{FOLDER_002}/examples/ds_pretrain_gpt2.sh")
    theirs = script_002(text, tmp_path)
    cell = {**UPSTREAM_002, **DS_002, "train_iters": 320000, "log_interval": 100}
    ours = node(cell)
    expected = places_002(
        "data/webtext/webtext_text_document",
        "data/gpt2-vocab.json",
        "data/gpt2-merges.txt",
        "checkpoints/gpt2_345m_ds",
    )
    differ = ds_differences(theirs, ours)
    assert differ == {
        **expected,
        "--master_port": (None, "PORT"),
        "--num_gpus": ("8 pretrain_gpt2.py", f"8 {LM}"),
    }


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


def test_the_documents_hostfile_and_include() -> None:
    """`deepspeed --master_port .. -i A:4,5@B:4,5 --hostfile hostfile ../pretrain_gpt2.py ..`"""
    cell = {"system": "megatron_lm", "nodes": 2, "device_ids": [4, 5], **DS_002}
    first, second = small_run(cell, EIGHT).nodes
    said = options(first.argv[1:])
    assert said["--include"].split()[0] == "10.0.0.1:4,5@10.0.0.2:4,5"
    assert said["--hostfile"] == "hostfile"
    assert first.files["hostfile"] == "10.0.0.1 slots=6\n10.0.0.2 slots=6\n"
    assert "CUDA_VISIBLE_DEVICES" not in first.env
    assert second.argv == ()
    assert second.files == first.files
    assert second.cwd == second.dir == first.dir
    assert "/usr/bin/pdsh" in first.requires


def test_upstreams_deepspeed_configuration_and_ours() -> None:
    name = f"{FOLDER_002}/examples/ds_zero_stage_2_config.json"
    theirs = json.loads(show(*EXAMPLES, name))
    cell = {"system": "megatron_lm", "devices_per_node": 8, **DS_002, "zero_stage": 2}
    ours = json.loads(node(cell).files["ds_config.json"])
    assert differences(theirs, ours) == {
        # So that DeepSpeed's samples a second are true: 9 x 2 data parallel.
        "train_batch_size": (2048, 18),
        "zero_optimization": (
            theirs["zero_optimization"],
            {
                **theirs["zero_optimization"],
                "contiguous_gradients": True,  # DeepSpeed's default, said aloud
            },
        ),
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


def test_gpus_are_counted_and_not_measured(tmp_path: Path) -> None:
    """Upstream halves the length of the text: 8,9,10,11 gives 5."""
    place = tmp_path / "gpt-2"
    place.mkdir()
    (place / "train.sh").write_text(show(*BENCHMARK, "LanguageModeling/gpt-2/src/train_gpt2.sh"))
    theirs = theirs_of(run(place / "train.sh", ["off", "8,9,10,11"], place)[-1])
    sixteen = small_cluster(1, 16, device="cuda")
    ours = node({"system": "oneflow_gpt", "device_ids": [8, 9, 10, 11]}, cluster=sixteen)
    assert theirs["--gpu_num_per_node"] == "5"
    assert options(ours.argv[1:])["--gpu_num_per_node"] == "4"
    assert ours.env["CUDA_VISIBLE_DEVICES"] == "8,9,10,11"


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


@pytest.mark.parametrize("model", ["345M", "1.3B", "2.7B", "3.7B", "345M_without_mp"])
@pytest.mark.parametrize(
    ("script", "mode", "iters"),
    [("train_full_8p.sh", "full", 1000), ("train_performance_8p.sh", "performance", 300)],
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

MEGATRON = ("NVIDIA/Megatron-LM", "c550cf6c41c31cd3ec72e05c25ea0c979f2b6631")
CORE = f"{HOME}/megatron_core/core_v0.13.0/src/pretrain_gpt.py"


@pytest.mark.parametrize("rank", [0, 15])
def test_train_gpt3_175b_distributed(rank: int, tmp_path: Path) -> None:
    text = show(*MEGATRON, "examples/gpt3/train_gpt3_175b_distributed.sh")
    # With one node, as it stands, 8 x 16 model parallel would not fit.
    text = text.replace("NUM_NODES=1", "NUM_NODES=16").replace("=localhost", "=10.0.0.1")
    place = tmp_path / "work"
    place.mkdir()
    (place / "script.sh").write_text(text)
    theirs = run(place / "script.sh", ["ckpt", "tb", "vocab", "merges", "data"], place)[-1]
    cell = {
        **{"system": "megatron_core", "nodes": 16, "devices_per_node": 8, "precision": "fp16"},
        **{"num_layers": 96, "hidden_size": 12288, "num_attention_heads": 96, "seq_length": 2048},
        **{"tensor_parallel": 8, "pipeline_parallel": 16, "micro_batch_size": 1},
        **{"global_batch_size": 1536, "train_iters": 500000, "weight_decay": 0.1, "lr": 6.0e-5},
        **{"min_lr": 6.0e-6, "lr_warmup_fraction": 0.001, "lr_decay_iters": 430000},
        **{"split": "949,50,1", "log_interval": 100, "eval_iters": 10, "tensorboard": True},
        **{"transformer_impl": "transformer_engine"},
    }
    ours = node(cell, rank, cluster=small_cluster(16, 8, device="cuda"))
    differ = differences(theirs_of(theirs), ours_of(ours))
    data = "/opt/tb/datasets/default"
    assert differ == {
        "-m": (None, "torch.distributed.run"),  # what torchrun starts
        "--node_rank": (None, str(rank)),  # theirs sets NODE_RANK and passes it to nothing
        "--master_port": ("6000 pretrain_gpt.py", "PORT"),
        "--max_restarts": (None, "0"),
        "--tee": (None, "3"),
        "--log_dir": (None, f"RUN/ranks {CORE}"),
        "--data-path": ("data", f"{data}/default_text_document"),
        "--vocab-file": ("vocab", f"{data}/vocab.json"),
        "--merge-file": ("merges", f"{data}/merges.txt"),
        "--tensorboard-dir": ("tb", "RUN/tensorboard"),
        "--tensorboard-queue-size": (None, "5"),
        "--log-timers-to-tensorboard": (None, ""),
        "--log-validation-ppl-to-tensorboard": (None, ""),
        "--log-throughput": (None, ""),
        # the trainer's own defaults, said aloud; of the tokenizer it has none
        "--transformer-impl": (None, "transformer_engine"),
        "--seed": (None, "1234"),
        "--tokenizer-type": (None, "GPT2BPETokenizer"),
        # What we have no parameter for: it changes losses, and not the work of a step.
        "--adam-beta1": ("0.9", None),
        "--adam-beta2": ("0.95", None),
        "--init-method-std": ("0.006", None),
        "--rampup-batch-size": ("16 16 5859375", None),
        # no checkpoints
        "--save": ("ckpt", None),
        "--load": ("ckpt", None),
        "--save-interval": ("10000", None),
    }
    assert variables(theirs, ours) == {}


# Its test of context parallelism with Transformer Engine, at the commit of core_v0.18.2.
CORE_0_18 = ("NVIDIA/Megatron-LM", "571370c829ca768fe37244f4e2e7f28d8accc4ab")
CONTEXT_TEST = "tests/functional_tests/test_cases/gpt/gpt3_mcore_te_tp2_pp1_cp2_nondeterministic"


def test_megatrons_own_test_of_context_parallelism() -> None:
    content = yaml.safe_load(show(*CORE_0_18, f"{CONTEXT_TEST}/model_config.yaml"))
    words: list[str] = []
    for option, value in content["MODEL_ARGS"].items():
        words += [option] if value is True else [option, str(value)]
    theirs = options(words)
    cell = {
        **{"system": "megatron_core", "pin": "core_v0.18.2-te", "devices_per_node": 8},
        **{"num_layers": 12, "hidden_size": 512, "num_attention_heads": 8, "seq_length": 1024},
        **{"tensor_parallel": 2, "context_parallel": 2, "sequence_parallel": True},
        **{"transformer_impl": "transformer_engine", "attention_backend": "flash"},
        **{"micro_batch_size": 4, "global_batch_size": 32, "train_iters": 50},
        **{"split": "949,50,1", "eval_iters": 10, "tensorboard": True},
        **{"attention_dropout": 0.0, "hidden_dropout": 0.0},
    }
    ours = options(node(cell).argv)
    assert theirs["--context-parallel-size"] == ours["--context-parallel-size"] == "2"
    differ = differences(theirs, {name: text for name, text in ours.items() if name in theirs})
    data = "/opt/tb/datasets/default"
    places = {name: differ.pop(name) for name in ("--data-path", "--vocab-file", "--merge-file")}
    assert {pair[1] for pair in places.values()} == {
        *(f"{data}/default_text_document", f"{data}/vocab.json", f"{data}/merges.txt")
    }
    assert differ.pop("--tensorboard-dir")
    assert set(differ) == {
        # what it is for besides: checkpoints, and what its log is compared by
        *("--save", "--load", "--save-interval", "--ckpt-format", "--async-save"),
        *("--dist-ckpt-optim-fully-reshardable", "--dist-ckpt-strictness"),
        *("--use-persistent-ckpt-worker", "--log-params-norm", "--log-num-zeros-in-grad"),
        *("--log-memory-to-tensorboard", "--timing-log-level"),
        # what we have no parameter for, most of it the trainer's own default
        *("--data-cache-path", "--distributed-backend", "--use-mcore-models"),
        *("--no-gradient-accumulation-fusion", "--attention-softmax-in-fp32"),
    }

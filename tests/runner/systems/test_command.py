"""`system: command`: what a node starts, and every sentence by which a cell is refused."""

import json
from typing import Any

import pytest

from runner.base.errors import UserError
from runner.base.paths import PROJECT
from runner.figures.flops import Decoder, PerToken
from runner.matrix.file import load_matrix, parse_matrix
from runner.plan.checks import check_cell
from runner.plan.dryrun import describe, dry_run
from runner.plan.make import make_run
from runner.plan.script import launch_script
from runner.systems.command import SYSTEM
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell, Matrix
from runner.terms.cluster import Cluster
from tests.runner.builders import one_device, slurm_cluster, small_cluster

DEFAULTS: dict[str, Any] = {
    "system": "command",
    "argv": ["python", "train.py", "--lr", "{lr}"],
    "cwd": "/shared/trainer",
    "log": {"step": r"step (\d+)"},
    "lr": 0.1,
}


def matrix(axes: dict[str, Any] | None = None, **changes: Any) -> Matrix:
    """A matrix of command cells; a change of None takes a default away."""
    defaults = {key: value for key, value in {**DEFAULTS, **changes}.items() if value is not None}
    content = {"defaults": defaults, **({"axes": axes} if axes else {})}
    return parse_matrix(json.dumps(content), "m.yaml", "m", one_device)


def node(
    cluster: Cluster | None = None, at: int = 0, axes: dict[str, Any] | None = None, **changes: Any
) -> Any:
    """What one node of the first cell runs."""
    cluster = cluster or small_cluster()
    found = matrix(axes, **changes)
    check_cell(found.cells[0], cluster, None)
    return make_run(found, found.cells[0], cluster, campaign="m-rack").nodes[at]


TORCHRUN = [
    *("python", "-m", "torch.distributed.run", "--nnodes", "{nodes}", "--node_rank", "{node_rank}"),
    *("--nproc_per_node", "{devices_per_node}", "--master_addr", "{master_addr}"),
    *("--master_port", "{master_port}", "train.py", "--lr", "{lr}"),
]


def test_torchrun_by_words() -> None:
    """The issue's own command line, on the second of two nodes; a Python of the site's own."""
    found = node(
        at=1,
        argv=TORCHRUN,
        nodes=2,
        devices_per_node=2,
        environment={"python": "/opt/py/bin/python3"},
    )
    port = found.argv[found.argv.index("--master_port") + 1]
    assert port.isdecimal()
    assert found.argv == (
        *("/opt/py/bin/python3", "-m", "torch.distributed.run", "--nnodes", "2"),
        *("--node_rank", "1", "--nproc_per_node", "2", "--master_addr", "10.0.0.1"),
        *("--master_port", port, "train.py", "--lr", "0.1"),
    )
    assert found.cwd == "/shared/trainer"
    assert found.env["PATH"].startswith("/opt/py/bin:/usr/local/sbin:")


def test_nanogpt_has_the_shapes_and_batches_of_ours() -> None:
    """matrices/gpu/speed-nanogpt.yaml beside matrices/gpu/speed.yaml, cell by cell."""
    ours, theirs = (
        load_matrix(PROJECT / "matrices" / "gpu" / f"{name}.yaml", one_device)
        for name in ("speed", "speed-nanogpt")
    )

    def sizes(cell: Cell) -> tuple[Any, ...]:
        system = load_system(cell.system)
        shape = system.model(cell.parameters) if system.model else None
        assert isinstance(shape, Decoder)
        each = (shape.num_layers, shape.hidden_size, shape.num_attention_heads, shape.vocab_size)
        return (*each, cell.parameters["micro_batch_size"])

    for cell in theirs.cells:
        cluster = small_cluster(device="cuda")
        check_cell(cell, cluster, None)
        (found,) = make_run(theirs, cell, cluster, campaign="m-rack").nodes
        said = dict(word[2:].split("=") for word in found.argv[2:])
        assert said["bias"] == "True"
        assert int(said["max_iters"]) + 1 == ours.cells[0].parameters["train_iters"]
        assert int(said["batch_size"]) * int(said["gradient_accumulation_steps"]) == 64
        assert sizes(cell) in {sizes(one) for one in ours.cells if one.system == "torch_gpt"}


def test_a_pin_sets_source_is_where_its_cells_run() -> None:
    """A pin set of the inventory brings the interpreter, and the folder where none is named."""
    found = node(small_cluster(command_pins=("mine",)), pin="mine", cwd=None)
    assert found.cwd == "/opt/tb/systems/command/mine/src"
    assert found.argv[0] == "/opt/tb/systems/command/mine/env/bin/python3"
    assert found.env["PATH"].startswith("/opt/tb/systems/command/mine/env/bin:")


def test_processes_one_a_device() -> None:
    """The ranks stand in each process's own words; what they share, in the variables."""
    found = node(
        at=1,
        launcher="processes",
        argv=["./train", "-pn", "{world_size}", "-pr", "{rank}", "{lr}"],
        nodes=2,
        devices_per_node=2,
    )
    first, second = found.processes
    assert first == found.argv
    assert second == (
        *("/usr/bin/env", "RANK=3", "LOCAL_RANK=1"),
        *("./train", "-pn", "4", "-pr", "3", "0.1"),
    )
    assert found.env["WORLD_SIZE"] == "4"
    assert found.env["MASTER_ADDR"] == "10.0.0.1"
    assert found.env["MASTER_PORT"].isdecimal()
    script = launch_script(
        make_run(m := matrix(launcher="processes"), m.cells[0], small_cluster(), campaign="m")
    )
    assert 'for process in $(jobs -p); do wait "$process"; done' in script


def test_first_node_starts_the_others() -> None:
    """The second node waits for what the first one's launcher starts over ssh."""
    changes: dict[str, Any] = {
        "launcher": "first_node",
        "argv": [
            "mpirun",
            "--hostfile",
            "{hostfile}",
            "-n",
            "{world_size}",
            "python",
            "t.py",
            "{lr}",
        ],
        "nodes": 2,
        "devices_per_node": 2,
    }
    first, second = node(**changes), node(at=1, **changes)
    assert first.argv[:3] == ("mpirun", "--hostfile", f"{first.dir}/hostfile")
    assert first.files == {"hostfile": "10.0.0.1 slots=2\n10.0.0.2 slots=2\n"}
    assert (second.argv, second.waits) == ((), True)
    with pytest.raises(UserError, match="take launcher node or processes"):
        node(slurm_cluster(), **changes)


def test_words_on_slurm_are_the_jobs() -> None:
    """What only the job knows stays a word of its own; the same text meant as text is refused."""
    found = node(slurm_cluster(), argv=TORCHRUN, nodes=2)
    assert "{master_addr}" in found.argv
    assert "{master_port}" in found.argv
    with pytest.raises(UserError, match="which the job fills in"):
        node(slurm_cluster(), argv=["a", "{lr}", "{{master_addr}}"])
    assert node(argv=["a", "{lr}", "{{master_addr}}"]).argv == ("a", "0.1", "{master_addr}")


def test_braces_lists_and_declared_keys() -> None:
    """Braces of its own, an argument that is a list, and a default that an axis wins over."""
    argv = ["a", "{{{lr}}}", "{flags}", "--w={warmup}/{lr}"]
    found = node(argv=argv, parameters={"warmup": 10, "flags": []})
    assert found.argv == ("a", "{0.1}", "--w=10/0.1")
    found = node(
        argv=argv,
        parameters={"warmup": 10, "flags": []},
        axes={"flags": [["--x", "--y={z}"], []], "warmup": [20]},
    )
    assert found.argv == ("a", "{0.1}", "--x", "--y={z}", "--w=20/0.1")
    found = node(argv=["env", "A={lr}", "./t"], env={"JSON": '{"a": {lrs}}'})
    assert (found.argv, found.env["JSON"]) == (("env", "A=0.1", "./t"), '{"a": {lrs}}')
    cells = matrix(argv=argv, warmup=1, axes={"flags": [["--x"], []]}).cells
    assert [cell.name for cell in cells] == ["flags=--x", "flags=none"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"argv": "python train.py {lr}"}, "argv is 'python train.py {lr}'; it must be a list"),
        ({"argv": None}, "argv is missing"),
        ({"argv": ["a", {"lr": None}]}, "quote what has a brace"),
        ({"argv": ["a", "{lr"]}, "stands alone; a word is written {name}"),
        ({"argv": ["a", "{lr}}"]}, "has a closing brace that stands alone"),
        ({"argv": ["a", "{}", "{lr}"]}, "stands alone"),
        ({"argv": ["a", "{lrr}", "{lr}"]}, r"{lrr} is neither .*\(did you mean 'lr'\?\)"),
        ({"argv": ["a", "{rank}", "{lr}"]}, r"{rank} is not there: .*\(launcher processes\)"),
        ({"argv": ["a", "{python}", "{lr}"]}, "{python} is not there: interpreter of `environ"),
        ({"argv": ["a", "{seed}", "{lr}"]}, "{seed} has no value; set seed, or `seeds` of the"),
        ({"argv": ["python train.py {lr}"]}, "list the program and each argument by itself"),
        ({"argv": ["", "{lr}"]}, "list the program"),
        ({"env": {"A": "x{lr}"}}, r"A has {lr}, and words are filled in argv alone; begin it with"),
        ({"argv": ["a", "{lr}", "&&", "b"]}, "'&&', but argv runs without a shell"),
        ({"Launcher": "node"}, r"Launcher is used by nothing \(did you mean 'launcher'\?\)"),
        ({"seed": 3}, "seed is used by nothing; .* or all seeds are the same run"),
        ({"parameters": {"launcher": "processes"}}, "'launcher' is command's own key"),
        ({"parameters": {"warmup": None}}, r"warmup has no value \(null\)"),
        ({"argv": ["a\0", "{lr}"]}, "zero byte"),
        ({"argv": ["a", "--lr={lr}"], "lr": [1]}, r"lr is a list, and {lr} is part of '--lr={lr}'"),
        ({"argv": ["{lr}"], "lr": []}, "begins with an empty word"),
        ({"cwd": "/shared/a\nb"}, "cwd is .*without line breaks"),
        ({"environment": {"python": "/a\x1b"}}, "environment: python is .*control characters"),
        ({"log": {"step": r"(\d*)"}}, "log: step matches an empty line"),
        ({"samples_per_step": "1e17 * 1e17"}, "no run has so many"),
        ({"argv": ["a"]}, "lr is used by nothing; put {lr} into argv, or take it out"),
        ({"api_key": "x"}, "api_key is named like a secret"),
        ({"rank": 3}, "'rank' is a fact of the node"),
        ({"my-key": 3}, "'my-key' is not a name"),
        ({"lr": {"a": 1}}, "a word's value is text, a number, or a list"),
        ({"cwd": "trainer"}, "an absolute path"),
        ({"cwd": None}, "cwd is missing"),
        ({"cwd": "/shared/{node_rank}"}, "{node_rank} is neither"),
        ({"environment": {"conda": "x"}}, "write {python: /path/of/python}"),
        ({"environment": {"python": "python3"}}, "write {python: /path/of/python}"),
        ({"pin": "mine"}, "pin is 'mine', and command_pins of the inventory rack and"),
        ({"log": "torch_gp"}, r"did you mean 'torch_gpt'\?"),
        ({"log": None}, "name a family"),
        ({"log": {"loss": "(1)"}}, "log has no `step`"),
        ({"log": {"step": r"step \d+"}}, "log: step has no groups and needs one group, or two"),
        ({"log": {"step": r"(\d)(\d)(\d)"}}, "log: step has 3 groups"),
        ({"log": {"step": r"(\d)", "loss": r"(\d)(\d)"}}, "log: loss has 2 groups and needs one"),
        ({"log": {"step": r"(\d+)(?=x)"}}, "without lookaround"),
        ({"log": {"step": r"(\d+"}}, "missing \\)"),
        ({"log": {"step": r"(\d+)", "time": "x"}}, "unknown field 'time'"),
        ({"log": {"step": r"(\d+)", "step_time": r"(\d+)"}}, "unit: s}, with a unit of s, ms, us"),
        (
            {"log": {"step": r"(\d+)", "step_time": {"pattern": r"(\d+)", "unit": "min"}}},
            "has the unit 'min'",
        ),
        ({"log": {"step": "(.)", "step_time": {"pattern": "(.)", "unit": []}}}, "has the unit"),
        ({"samples_per_step": "lr * x"}, "{x} is neither"),
        ({"samples_per_step": 1.5}, "it must be a whole number"),
        ({"samples_per_step": "{lr} * 2"}, "numbers and keys, without braces"),
        ({"tokens_per_sample": 1.5}, "it must be a whole number"),
        ({"samples_per_step": 0}, "is not a number above 0"),
        ({"model_flops_per_token": 1e9}, "need tokens_per_sample"),
        ({"architecture": {"layers": 2}, "tokens_per_sample": 8}, "'layers' is not a size of a"),
        (
            {"architecture": {"num_layers": 2}, "model_flops_per_token": 1, "tokens_per_sample": 8},
            "keep one",
        ),
        ({"architecture": {"num_layers": 2.5}, "tokens_per_sample": 8}, "must be a whole number"),
        ({"architecture": {"num_layers": 2}, "tokens_per_sample": 8}, "hidden_size"),
    ],
)
def test_bad_input(changes: dict[str, Any], sentence: str) -> None:
    """Each is refused before anything starts, in one sentence that names the cure."""
    with pytest.raises(UserError, match=sentence):
        node(**changes)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["torchrun", "--standalone", "a.py"], "--standalone, with which each node trains by it"),
        (["bash", "-c", "torchrun --standalone a.py"], "with which each node trains by itself"),
        (["torchrun", "--nproc_per_node=4", "a.py"], "--nproc_per_node 4, and the cell has 2 dev"),
        (["torchrun", "--nproc-per-node", "{n}", "a.py"], "--nproc-per-node 8, and the cell has 2"),
        (["bash", "-c", "exec torchrun --nnodes 1 a.py"], "write {nodes} in place of 1"),
        (["accelerate", "launch", "--num_machines", "4", "a.py"], "the cell has 2 nodes"),
        (["deepspeed", "--num_nodes=1", "a.py"], "the cell has 2 nodes"),
    ],
)
def test_a_launcher_is_told_of_the_cells_nodes_and_devices(words: list[str], sentence: str) -> None:
    cluster = small_cluster(2, 2)
    two: dict[str, Any] = {"nodes": 2, "devices_per_node": 2}
    with pytest.raises(UserError, match=sentence):
        node(cluster, **two, argv=[*words, "{lr}", "{n}"], n=8)
    for good in (
        ["torchrun", "--nnodes=2", "--nproc_per_node={devices_per_node}", "--standalone-x"],
        ["torchrun", "--nnodes", "1:2", "--nproc_per_node", "gpu"],
    ):
        node(cluster, **two, argv=[*good, "{lr}"])
    alone = ["torchrun", "--standalone", "--nproc_per_node", "2", "{lr}"]
    node(small_cluster(1, 2), devices_per_node=2, argv=alone)


def test_a_value_that_slurm_would_take_for_a_word() -> None:
    """Braces in a value mean nothing, and a job would fill them in."""
    with pytest.raises(UserError, match="with single braces, or take it out"):
        node(slurm_cluster(), lr="x{master_port}")
    assert node(lr="x{master_port}").argv[-1] == "x{master_port}"


def test_seeds_of_a_matrix_fill_a_word_or_are_refused() -> None:
    """Without the word all repeats would be the same run."""
    content = {"defaults": {**DEFAULTS, "argv": ["a", "{lr}", "{seed}"]}, "seeds": [7, 8]}
    found = parse_matrix(json.dumps(content), "m.yaml", "m", one_device)
    (plan,) = dry_run(found, small_cluster(), [])
    assert plan["nodes"][0]["argv"] == ["a", "0.1", "7"]
    content["defaults"] = DEFAULTS
    found = parse_matrix(json.dumps(content), "m.yaml", "m", one_device)
    with pytest.raises(UserError, match=r"put {seed} into argv, or all seeds are the same run"):
        dry_run(found, small_cluster(), [])


def test_words_as_yaml_has_them() -> None:
    """What a matrix's values become: only true, false and decimal numbers are more than text."""
    content = """
defaults: {system: command, argv: [a, "{x}", true], cwd: /t, log: nanogpt, devices_per_node: 1}
axes: {x: [1e-4, 1e5, no, 010, 0x1f, 2024-01-01, 1_000, "1.10", true, "", [b, 2.0], "a b"]}
"""
    cells = parse_matrix(content, "m.yaml", "m", one_device).cells
    runs = [make_run(matrix(), cell, small_cluster(), campaign="m") for cell in cells]
    assert [run.nodes[0].argv[1:-1] for run in runs] == [
        *(("0.0001",), ("100000.0",), ("no",), ("010",), ("0x1f",), ("2024-01-01",), ("1_000",)),
        *(("1.10",), ("true",), ("",), ("b", "2.0"), ("a b",)),
    ]
    assert {run.nodes[0].argv[-1] for run in runs} == {"true"}


def test_the_pages_torchrun() -> None:
    """docs/your-own-trainer.md: a list is as many arguments, a seed a run."""
    text = (PROJECT / "docs" / "your-own-trainer.md").read_text(encoding="utf-8")
    example = text.partition("## With torchrun")[2].partition("```yaml\n")[2].partition("```")[0]
    found = parse_matrix(example, "page", "page", one_device)
    cluster = small_cluster(2, 8, device="cuda")
    plans = dry_run(found, cluster, [])
    assert [plan["cell"] for plan in plans][:2] == ["flags=none", "flags=--bf16+True"]
    first, second = plans[1]["nodes"]
    assert second["argv"][-6:] == [
        *("--per_device_train_batch_size", "12", "--seed", "1", "--bf16", "True")
    ]
    assert second["argv"][4:8] == ["2", "--node_rank", "1", "--nproc_per_node"]
    assert first["argv"][0] == "/opt/venv/bin/python3"


def test_an_axis_that_nothing_uses() -> None:
    """Its cells would be the same run, whether the key is the matrix's own or a known size."""
    for axis in ({"decay": [1, 2]}, {"micro_batch_size": [1, 2]}):
        with pytest.raises(UserError, match="or its cells are the same run"):
            node(axes=axis)
    assert node(micro_batch_size=4).argv[-1] == "0.1"  # said of all cells: it is for the table


SHAPE = {
    **{"num_layers": "n_layer", "hidden_size": 128, "num_attention_heads": 4},
    **{"vocab_size": 256},
}


def test_what_the_matrix_says_of_samples_and_of_the_model() -> None:
    """Products of keys and facts; the sizes of a model; FLOPs that are given."""
    changes: dict[str, Any] = {
        "argv": ["a", "{lr}", "{micro}", "{n_layer}"],
        "nodes": 2,
        "devices_per_node": 2,
        "micro": 4,
        "n_layer": 3,
        "samples_per_step": "micro * data_parallel * 8",
        "tokens_per_sample": 64,
    }
    cell = matrix(**changes, tensor_parallel=2).cells[0]
    assert SYSTEM.batch_size(cell) == 4 * 2 * 8
    assert SYSTEM.sizes(cell)["data_parallel"] == 2
    assert SYSTEM.tokens_per_sample(cell) == 64
    assert SYSTEM.architecture(cell) is None
    cell = matrix(**changes, architecture=SHAPE).cells[0]
    assert SYSTEM.architecture(cell) == Decoder(3, 128, 4, 64, 256)
    cell = matrix(**changes, model_flops_per_token="n_layer * 1000").cells[0]
    assert SYSTEM.architecture(cell) == PerToken(3000, 64)


def test_a_parallel_size_that_the_matrix_does_not_say_is_none() -> None:
    """One that it says is a column, and leaves data_parallel."""
    assert SYSTEM.sizes(matrix(devices_per_node=2).cells[0]) == {"data_parallel": 2}
    cell = matrix(devices_per_node=2, context_parallel=2).cells[0]
    assert SYSTEM.sizes(cell) == {"data_parallel": 1, "context_parallel": 2}
    with pytest.raises(UserError, match="tensor_parallel 3 does not divide the 2 devices"):
        node(devices_per_node=2, tensor_parallel=3)


def test_a_dry_run_shows_every_process_and_a_dataset_is_a_folder() -> None:
    """Two processes are two lines; `{dataset}` is where setup puts it."""
    argv = ["./train", "{dataset}/vocab.json", "{lr}"]
    found = matrix(argv=argv, dataset="wiki", launcher="processes", devices_per_node=2)
    text = describe(dry_run(found, small_cluster(), []), found, small_cluster())
    said = "LOCAL_RANK=1 ./train /opt/tb/datasets/wiki/vocab.json 0.1"
    assert f"run  /usr/bin/env RANK=1 {said}" in text


def test_a_recorded_cell_keeps_its_own_values() -> None:
    """A default that the matrix declares does not come back over what the cell had."""
    cell = matrix({"lr": [0.5]}, parameters={"lr": 0.1}, lr=None).cells[0]
    assert cell.parameters["lr"] == 0.5
    assert SYSTEM.recorded(json.loads(json.dumps(dict(cell.parameters))), "x")["lr"] == 0.5


def test_figures_hang_on_the_folder_the_python_and_what_setup_brought() -> None:
    (cell,) = matrix(cwd="/shared/{kind}-{{x}}", kind="big", axes={"kind": ["big"]}).cells
    assert SYSTEM.fingerprinted(cell) == ("folder /shared/big-{x}", "program python")
    (cell,) = matrix(environment={"python": "/opt/python"}, dataset="wiki").cells
    told = ("dataset wiki", "folder /shared/trainer", "python /opt/python")
    assert SYSTEM.fingerprinted(cell) == told
    (cell,) = matrix(pin="mine").cells
    assert SYSTEM.fingerprinted(cell) == ("system command/mine", "folder /shared/trainer")
    (cell,) = matrix(cwd=None, argv=None).cells  # of logs from elsewhere
    assert SYSTEM.fingerprinted(cell) == ()


def test_all_faults_of_a_cell_are_told_at_once() -> None:
    with pytest.raises(UserError) as refused:
        node(argv=None, cwd=None, log="nothing")
    assert [sentence.split(" is ")[0] for sentence in refused.value.sentences] == [
        *("argv", "cwd", "log"),
    ]
    with pytest.raises(UserError) as unused:
        node(global_batch_size=8, other=1)
    first, second = unused.value.sentences
    assert "global_batch_size is used by nothing (samples of a step are samples_per_step" in first
    assert "other is used by nothing" in second

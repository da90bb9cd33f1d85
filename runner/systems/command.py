"""command: any trainer from a matrix, with neither role nor Python. docs/your-own-trainer.md.

Its argv has words in braces (common/words.py), its log is read by a family of lines or by patterns
(runner/logs/patterns.py).
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from node.schema import UnfitError
from node.supervisor.placeholders import WORD
from runner.base.errors import UserError
from runner.base.paths import BASE_PATH
from runner.base.shape import read
from runner.base.suggest import nearest
from runner.figures.flops import Decoder, PerToken
from runner.systems.common import gpt, launchers, words
from runner.systems.common.system import Split, System
from runner.terms.architecture import Architecture
from runner.terms.cell import SEED, Cell, Parameter
from runner.terms.cluster import Cluster
from runner.terms.run import Command, NodeContext

PARALLEL = (*gpt.PARALLEL, Split("context_parallel"))
NODE, PROCESSES, FIRST_NODE = "node", "processes", "first_node"
PYTHONS = ("python", "python3")
HOSTFILE = "hostfile"
SHELL = {"&&", "||", "|", ";", "&", "<", ">", ">>", "2>&1"}
# How a cell is started and read;
RUN = (
    Parameter("argv", list, None, "what a node starts, word by word, with {words} of the matrix"),
    Parameter("cwd", str, None, "the trainer's folder on each node, an absolute path"),
    Parameter(
        "launcher",
        str,
        NODE,
        "node: argv starts once a node; processes: once a device, with RANK, LOCAL_RANK,"
        " WORLD_SIZE, MASTER_ADDR and MASTER_PORT; first_node: on the first node alone, which"
        " starts the others over ssh",
        choices=(NODE, PROCESSES, FIRST_NODE),
    ),
    Parameter("environment", dict, None, "{python: /path/of/python}: whose programs argv starts"),
    Parameter(
        "log", object, None, "a family of lines (docs/parsers.md), or patterns: {step: '...', ...}"
    ),
    Parameter("samples_per_step", object, None, "samples an iteration, all devices: a product"),
    Parameter("tokens_per_sample", object, None, "tokens of a sample: a product"),
    Parameter("model_flops_per_token", object, None, "FLOPs of a token, forward and backward"),
    Parameter(
        "architecture", dict, None, "the model's sizes (num_layers, hidden_size, ...), for the MFU"
    ),
    Parameter("parameters", dict, {}, "keys of the matrix's own, with their defaults"),
)
# and what the rest of the program knows of a trainer, if the matrix says it: words, like its own.
SIZES = (
    Parameter("micro_batch_size", int, None, "samples a device and pass", minimum=1),
    Parameter("gradient_accumulation", int, None, "passes an iteration", minimum=1),
    *(
        Parameter(split.name, int, None, "devices that the trainer splits a model over", minimum=1)
        for split in PARALLEL
    ),
    Parameter(
        "precision",
        str,
        None,
        "what matrices are multiplied in, for the MFU",
        choices=("bf16", "fp16", "tf32", "fp32"),
    ),
    Parameter("activation_checkpointing", bool, None, "recompute activations in backward"),
    Parameter("train_iters", int, None, "iterations of a run; default: as its log says", minimum=1),
    Parameter("log_interval", int, None, "iterations a logged line covers", minimum=1),
    Parameter("seed", int, None, "seed; `seeds` of the matrix sets it", minimum=0),
)
ABOUT, SIZED = {item.name for item in RUN}, {item.name for item in SIZES}
FACTS: Mapping[str, str] = {
    "nodes": "nodes of the cell",
    "node_rank": "number of this node, from 0",
    "devices_per_node": "devices of a node, and processes of ours on it",
    "world_size": "nodes x devices_per_node",
    "data_parallel": "what the parallel sizes leave of the world size",
    "device": "cuda, npu or cpu, as the inventory says",
    "master_addr": "address of the first node",
    "master_port": "a free port of the first node, of this run alone",
    "run_dir": "folder of the run on the node, for what the trainer writes",
    "scratch": "the run's folder on a disk of the node's own, where nodes share their root",
    "python": "interpreter of `environment`, or of the pin set",
    "dataset": "folder of the dataset that the cell names with `dataset`",
    "rank": "number of the process, from 0 (launcher processes)",
    "local_rank": "its number on the node, from 0 (launcher processes)",
    HOSTFILE: "file with the nodes' addresses and devices (launcher first_node)",
}


def resolve(parameters: dict[str, Any]) -> dict[str, Any]:
    """Add the matrix's own keys with their defaults; what a cell says wins."""
    declared = parameters.get("parameters")
    own = declared if isinstance(declared, dict) else {}
    given = {key: value for key, value in parameters.items() if value is not None}
    return {**parameters, **{str(key): value for key, value in own.items()}, **given}


def own_keys(cell: Cell) -> dict[str, Any]:
    """Return the cell's values that a word can be made of: the matrix's own, and known sizes."""
    return {
        key: value
        for key, value in cell.parameters.items()
        if key not in ABOUT and value is not None
    }


def node_values(cell: Cell, node: NodeContext, local_rank: int = 0) -> dict[str, Any]:
    """Return what each word stands for on a node; `rank` and `local_rank` are one process's."""
    facts: dict[str, Any] = {
        "nodes": node.nnodes,
        "node_rank": node.node_rank,
        "devices_per_node": node.nproc_per_node,
        **sizes(cell),
        "device": node.device,
        "master_addr": node.master_address,
        "master_port": node.master_port,
        "run_dir": str(node.run_dir),
        "scratch": node.scratch or None,
        "python": python(cell, node),
        "dataset": str(node.dataset) if cell.dataset else None,
    }
    launcher = cell.parameters["launcher"]
    if launcher == PROCESSES:
        rank = node.node_rank * node.nproc_per_node + local_rank
        facts |= {"rank": rank, "local_rank": local_rank}
    if launcher == FIRST_NODE:
        facts[HOSTFILE] = f"{node.run_dir}/{HOSTFILE}"
    return {**own_keys(cell), **{key: value for key, value in facts.items() if value is not None}}


def sizes(cell: Cell) -> dict[str, int]:
    """Return the facts that are the same on every node, for products."""
    parallel = SYSTEM.sizes(cell)
    return {
        "nodes": cell.nodes,
        "devices_per_node": cell.devices_per_node,
        "world_size": cell.world_size,
        "data_parallel": parallel["data_parallel"],
    }


def python(cell: Cell, node: NodeContext) -> str | None:
    """Return the interpreter that the cell names, or its pin set's; None where it has neither."""
    named = (cell.parameters.get("environment") or {}).get("python")
    if named or not cell.pin:
        return named
    return node.program("python3")


def command(cell: Cell, node: NodeContext) -> Command:
    """Start argv once on this node, once a device of it, or on the first node alone."""
    values, launcher = cell.parameters, cell.parameters["launcher"]
    interpreter = python(cell, node)
    env = {} if interpreter is None else {"PATH": f"{_folder(interpreter)}:{BASE_PATH}"}
    cwd = words.filled(values["cwd"], own_keys(cell), "cwd")
    argvs = [
        _argv(cell, node, local_rank, interpreter)
        for local_rank in range(node.nproc_per_node if launcher == PROCESSES else 1)
    ]
    if launcher == PROCESSES:
        env |= {"MASTER_ADDR": node.master_address, "MASTER_PORT": node.master_port}
        env["WORLD_SIZE"] = str(cell.world_size)
        return Command(argvs[0], env, cwd, processes=tuple(argvs))
    if launcher == FIRST_NODE:
        files = {HOSTFILE: launchers.hostfile(node)}
        argv = argvs[0] if node.node_rank == 0 else ()
        return Command(argv, env, cwd, files=files, ssh=node.nnodes > 1)
    return Command(argvs[0], env, cwd)


def _folder(program: str) -> str:
    return program.rpartition("/")[0]


def _argv(
    cell: Cell, node: NodeContext, local_rank: int, interpreter: str | None
) -> tuple[str, ...]:
    values = node_values(cell, node, local_rank)
    for name in words.all_names(cell.parameters["argv"]):
        if name in FACTS and name not in values:
            raise UserError(f"argv: {{{name}}} is not there: {FACTS[name]}")
    argv = [
        word
        for number, text in enumerate(cell.parameters["argv"])
        for word in words.arguments(words.written(text), values, f"argv[{number}]")
    ]
    if interpreter and argv[0] in PYTHONS:
        argv[0] = interpreter
    if cell.parameters["launcher"] == PROCESSES:
        ranks = {"RANK": values["rank"], "LOCAL_RANK": local_rank}
        argv[:0] = ["/usr/bin/env", *(f"{name}={rank}" for name, rank in ranks.items())]
    return tuple(argv)


def check(cell: Cell, cluster: Cluster) -> None:
    """Refuse what could not start, or could not be read afterwards."""
    _check_start(cell, cluster)
    _check_names(cell)
    _check_words(cell)
    _check_launcher(cell, cluster)
    readers(cell.parameters)
    samples(cell)
    model(cell.parameters)


def _check_start(cell: Cell, cluster: Cluster) -> None:
    values = cell.parameters
    argv = values["argv"]
    if not isinstance(argv, list) or not argv:
        raise UserError("argv is missing; give the command as a list, such as [python, train.py]")
    for number, text in enumerate(argv):
        if isinstance(text, dict | list) or text is None:
            raise UserError(
                f"argv[{number}] is {text!r:.60}; each is one word of text (quote what has a brace)"
            )
        if "\0" in str(text):
            raise UserError(f"argv[{number}] holds a zero byte, which no program can be given")
        if text in SHELL:
            raise UserError(
                f"argv[{number}] is {text!r}, which only a shell knows, and none is started; write"
                " a script, and argv: [bash, script.sh]"
            )
    first = words.written(argv[0])
    if not first or (len(argv) == 1 and " " in first and not first.startswith("/")):
        raise UserError(f"argv[0] is {first!r:.60}; list the program and each argument by itself")
    if not str(values["cwd"] or "").startswith(("/", "{")):
        raise UserError(
            f"cwd is {values['cwd']!r}; name the trainer's folder on the nodes, an absolute path"
        )
    environment = values.get("environment")
    if environment is not None and (
        set(environment) != {"python"} or not str(environment["python"]).startswith("/")
    ):
        raise UserError(
            f"environment is {environment!r:.100}; write {{python: /path/of/python}}, or name a pin"
            " set of the inventory's command_pins with `pin`"
        )
    if environment and cell.pin:
        raise UserError("environment and pin both name a Python; keep one")
    if cell.pin and cell.pin not in cluster.command_pins:
        raise UserError(
            f"pin is {cell.pin!r}{nearest(cell.pin, cluster.command_pins)}, and command_pins of the"
            f" inventory {cluster.name} has {', '.join(cluster.command_pins) or 'none'}"
        )


def _check_names(cell: Cell) -> None:
    """Refuse keys that no word can be made of."""
    for key in cell.parameters["parameters"] or {}:
        if key in ABOUT | SIZED:
            raise UserError(f"parameters: {key!r} is command's own key; set it under `defaults`")
    for key, value in cell.parameters.items():
        if key not in ABOUT and key in FACTS:
            raise UserError(f"{key!r} is a fact of the node; give your key another name")
        if not words.NAME.fullmatch(key):
            raise UserError(f"{key!r} is no name for a word; use letters, digits and _")
        if value is None and key not in ABOUT | SIZED:
            raise UserError(f"{key} has no value (null); give it one, or '' for an empty word")
    for key, value in own_keys(cell).items():
        each = value if isinstance(value, list) else [value]
        if any(isinstance(one, dict | list) or "\0" in str(one) for one in each):
            raise UserError(f"{key} is {value!r:.60}; a word's value is text, a number, or a list")


def _check_words(cell: Cell) -> None:
    """Refuse words that nothing fills, and keys that nothing uses."""
    values, own = cell.parameters, own_keys(cell)
    texts = [(f"argv[{number}]", words.written(text)) for number, text in enumerate(values["argv"])]
    used = words.all_names(values["argv"])
    used |= words.names_in(values["cwd"], "cwd")
    words.filled(values["cwd"], own, "cwd")
    for where, text in texts:
        for name in words.names_in(text, where) - set(FACTS):
            if name in SIZED - own.keys():
                also = ", or `seeds` of the matrix" if name == SEED else ""
                raise UserError(f"{where}: {{{name}}} has no value; set {name}{also}")
            words.value_of(name, own | dict.fromkeys(FACTS, ""), where)
    shape = values.get("architecture") or {}
    told = [values["samples_per_step"], values["tokens_per_sample"], *shape.values()]
    counted = set().union(*map(words.factors, [*told, values["model_flops_per_token"]]))
    for key in own:
        others = {name for name in cell.axes if name in used or name not in own} - {key}
        axis = key in cell.axes and not others
        if key not in used | (set() if axis else counted | (SIZED - {SEED})):
            meant = nearest(key, (used | ABOUT | SIZED) - {key, *FACTS})
            same = ", or its cells are the same run" if axis else ", or take it out"
            raise UserError(
                f"{key} is used by nothing{meant}; put {{{key}}} into argv"
                f"{', or all seeds are the same run' if key == SEED else same}"
            )


def _check_launcher(cell: Cell, cluster: Cluster) -> None:
    launcher = cell.parameters["launcher"]
    if launcher == FIRST_NODE and cell.nodes > 1 and cluster.slurm:
        raise UserError(
            "launcher first_node starts the other nodes' processes over ssh, which Slurm's nodes"
            " refuse; take launcher node or processes"
        )
    if cluster.slurm and (word := _literal_word(cell)):
        raise UserError(
            f"argv has {word} as its own text ({{{word}}}), which a job of Slurm's fills in; write"
            f" {word} with single braces, or take it out"
        )


def _literal_word(cell: Cell) -> str:
    """Return what is meant as text, and would be taken for a word that the job fills in."""
    texts = map(str, [*cell.parameters["argv"], cell.parameters["cwd"], *own_keys(cell).values()])
    for text in texts:
        plain = text.replace("{{", "{").replace("}}", "}")
        if plain != text and (match := WORD.search(plain)):
            return match[0]
    return ""


def readers(parameters: Mapping[str, Any]) -> Any:
    """Return what reads the cell's log. Raises UserError for a family that there is not, and for
    patterns that cannot run.
    """
    from runner.logs.kinds import (  # numpy, which a listing can do without
        families,
        readers_of_family,
    )
    from runner.logs.patterns import read_patterns, readers_of_patterns

    log = parameters.get("log")
    if isinstance(log, dict):
        return readers_of_patterns(read_patterns(log, "log"))
    if log not in families():
        raise UserError(
            f"log is {log!r}{nearest(str(log), families())}; name a family, one of"
            f" {', '.join(families())}, or give patterns: log: {{step: 'step (\\d+)'}}"
        )
    return readers_of_family(log)


def samples(cell: Cell) -> int | None:
    """Return the samples of an iteration, as the matrix counts them."""
    values = {**own_keys(cell), **sizes(cell)}
    count = words.product(cell.parameters["samples_per_step"], values, "samples_per_step")
    if count is not None and count != int(count):
        raise UserError(f"samples_per_step is {count:g}; samples are whole")
    return None if count is None else int(count)


def model(parameters: Mapping[str, Any]) -> Architecture | None:
    """Return what the matrix says of the model; None where it says nothing that gives FLOPs."""
    values = {key: value for key, value in parameters.items() if key not in ABOUT}
    length = tokens(parameters)
    per_token = words.product(
        parameters.get("model_flops_per_token"), values, "model_flops_per_token"
    )
    shape = parameters.get("architecture")
    if shape is not None and per_token is not None:
        raise UserError("architecture and model_flops_per_token both say the FLOPs; keep one")
    if shape is None and per_token is None:
        return None
    if length is None:
        raise UserError("the FLOPs of a sample need tokens_per_sample; give it")
    if per_token is not None:
        return PerToken(per_token, length)
    return _decoder(shape or {}, values, length)


def _decoder(shape: Mapping[str, Any], values: Mapping[str, Any], length: int) -> Decoder:
    names = [field.name for field in fields(Decoder)]
    for key in shape:
        if key not in names:
            raise UserError(
                f"architecture: {key!r} is no size of a model{nearest(str(key), names)}; there are"
                f" {', '.join(names)}"
            )
    sizes = {
        key: value if isinstance(value, bool) else _whole(value, values, f"architecture: {key}")
        for key, value in shape.items()
    }
    try:
        decoder = read(Decoder, {"seq_length": length, **sizes}, "architecture")
    except UnfitError as error:
        raise UserError(str(error)) from None
    if decoder.seq_length != length:
        raise UserError(
            f"architecture says seq_length {decoder.seq_length}, and tokens_per_sample is {length};"
            " keep one"
        )
    return decoder


def _whole(value: Any, values: Mapping[str, Any], where: str) -> int:
    number = words.product(value, values, where)
    if number is None or number != int(number):
        raise UserError(f"{where} is {value!r}; it must be a whole number above 0")
    return int(number)


def tokens(parameters: Mapping[str, Any]) -> int | None:
    """Return the tokens of a sample, as the matrix counts them."""
    values = {key: value for key, value in parameters.items() if key not in ABOUT}
    length = words.product(parameters.get("tokens_per_sample"), values, "tokens_per_sample")
    if length is not None and length != int(length):
        raise UserError(f"tokens_per_sample is {length:g}; tokens are whole")
    return None if length is None else int(length)


def relies_on(cell: Cell) -> dict[str, str]:
    """Name the trainer's folder and its Python, whose change makes other figures."""
    values = cell.parameters
    folder = words.filled(values["cwd"], own_keys(cell), "cwd") if values["cwd"] else ""
    return {"folder": folder, "python": (values.get("environment") or {}).get("python") or ""}


SYSTEM = System(
    name="command",
    summary="any trainer: its command, its folder and how its log reads stand in the matrix",
    launcher="argv of the matrix: once a node, once a device, or on the first node",
    parameters=(*RUN, *SIZES),
    command=command,
    check=check,
    resolve=resolve,
    parallel=PARALLEL,
    model=model,
    samples=samples,
    tokens=tokens,
    readers=readers,
    own_keys=True,
    relies_on=relies_on,
)

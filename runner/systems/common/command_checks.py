"""What of a cell of `system: command` is refused before anything starts: pure, a sentence each."""

import re

from node.printable import printable
from node.supervisor.placeholders import WORD
from runner.base.errors import Faults, UserError
from runner.base.masking import is_secret
from runner.base.suggest import nearest
from runner.systems.common import placeholders
from runner.systems.common.command_keys import (
    ABOUT,
    FACTS,
    FIRST_NODE,
    SIZED,
    own_keys,
    sizes,
)
from runner.terms.cell import SEED, Cell
from runner.terms.cluster import Cluster

LONGEST_PATH = 1_000
_MEANT = {"global_batch_size": " (samples of a step are samples_per_step here)"}
# What launchers are told of the cell (torch/distributed/run.py, DeepSpeed's runner.py,
# accelerate's launch.py), and torchrun's word for a node alone.
_COUNTS = {"nproc_per_node": "devices_per_node"} | dict.fromkeys(
    ("nnodes", "num_machines", "num_nodes"), "nodes"
)
_COUNT = re.compile(rf"(?<!\S)--({'|'.join(_COUNTS).replace('_', '[-_]')})[= ](\d{{1,9}})(?!\S)")
_ALONE = re.compile(r"(?<!\S)--standalone(?![\w-])")
SHELL = {"&&", "||", "|", ";", "&", "<", ">", ">>", "2>&1"}


def check_argv(cell: Cell) -> None:
    """Refuse an argv that could not start."""
    argv = cell.parameters["argv"]
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
                f"argv[{number}] is {text!r}, but argv runs without a shell; write"
                " a script, and argv: [bash, script.sh]"
            )
    program = placeholders.written(argv[0])
    if not program or (len(argv) == 1 and " " in program and not program.startswith("/")):
        raise UserError(f"argv[0] is {program!r:.60}; list the program and each argument by itself")


def check_folder(cell: Cell) -> None:
    """Refuse a trainer's folder that is missing or relative; a pin set has its own."""
    folder = cell.parameters["cwd"]
    if folder is None and not cell.pin:
        raise UserError("cwd is missing; name the trainer's folder on the nodes, an absolute path")
    if folder is not None and not folder.startswith(("/", "{")):
        raise UserError(
            f"cwd is {folder!r}; name the trainer's folder on the nodes, an absolute path"
        )


def check_python(cell: Cell, cluster: Cluster) -> None:
    """Refuse a Python that is not named by one absolute path, or a pin set that is not defined."""
    environment = cell.parameters.get("environment")
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
            f" inventory {cluster.name} and `pins` of the matrix have"
            f" {', '.join(cluster.command_pins) or 'none'}"
        )


def check_names(cell: Cell) -> None:
    """Refuse keys that no word can be made of."""
    for key in cell.parameters["parameters"] or {}:
        if key in ABOUT | SIZED:
            raise UserError(f"parameters: {key!r} is command's own key; set it under `defaults`")
    for key, value in cell.parameters.items():
        if key not in ABOUT and key in FACTS:
            raise UserError(f"{key!r} is a fact of the node; give your key another name")
        if not placeholders.NAME.fullmatch(key):
            raise UserError(f"{key!r} is not a name; use letters, digits and _")
        if key not in ABOUT | SIZED and is_secret(key):
            raise UserError(
                f"{key} is named like a secret, and a matrix is recorded and shown as it is; set a"
                " secret in the inventory's cluster_env; if it is not a secret, rename it"
            )
        if value is None and key not in ABOUT | SIZED:
            raise UserError(f"{key} has no value (null); give it one, or '' for an empty word")
    for key, value in own_keys(cell).items():
        items = value if isinstance(value, list) else [value]
        if any(isinstance(item, dict | list) or "\0" in str(item) for item in items):
            raise UserError(f"{key} is {value!r:.60}; a word's value is text, a number, or a list")


def check_words(cell: Cell) -> None:
    """Refuse words that nothing fills, and keys that nothing uses: all of them."""
    values, cell_keys = cell.parameters, own_keys(cell)
    texts = [
        (f"argv[{number}]", placeholders.written(text))
        for number, text in enumerate(values["argv"])
    ]
    used = placeholders.all_names(values["argv"])
    used |= placeholders.names_in(values["cwd"] or "", "cwd")
    _check_path(placeholders.filled(values["cwd"] or "/", cell_keys, "cwd"), "cwd")
    _check_path((values["environment"] or {}).get("python", "/"), "environment: python")
    for where, text in texts:
        for name in placeholders.names_in(text, where) - set(FACTS):
            if name in SIZED - cell_keys.keys():
                also = ", or `seeds` of the matrix" if name == SEED else ""
                raise UserError(f"{where}: {{{name}}} has no value; set {name}{also}")
            placeholders.value_of(name, cell_keys | dict.fromkeys(FACTS, ""), where)
    for variable, text in cell.env.items():
        for word in sorted(placeholders.looks_like(text) & {*FACTS, *cell_keys}):
            raise UserError(
                f"env: {variable} has {{{word}}}, and words are filled in argv alone; begin it with"
                f' the program env: argv: [env, "{variable}={{{word}}}", ...]'
            )
    shape = values.get("architecture") or {}
    products = [values["samples_per_step"], values["tokens_per_sample"], *shape.values()]
    counted = set().union(*map(placeholders.factors, [*products, values["model_flops_per_token"]]))
    faults = Faults()
    with faults.gathered():
        _check_counts(cell)
    for key in cell_keys:
        other_axes = {name for name in cell.axes if name in used or name not in cell_keys} - {key}
        axis = key in cell.axes and not other_axes
        if key not in used | (set() if axis else counted | (SIZED - {SEED})):
            suggestion = _MEANT.get(key) or nearest(key, (used | ABOUT | SIZED) - {key, *FACTS})
            same = ", or its cells are the same run" if axis else ", or take it out"
            with faults.gathered():
                raise UserError(
                    f"{key} is used by nothing{suggestion}; put {{{key}}} into argv"
                    f"{', or all seeds are the same run' if key == SEED else same}"
                )
    faults.check()


def _check_counts(cell: Cell) -> None:
    """Refuse a launcher that is told of other nodes or devices than the cell has."""
    facts = sizes(cell)
    values = {**dict.fromkeys(FACTS, ""), **own_keys(cell), **facts}
    texts = enumerate(map(placeholders.written, cell.parameters["argv"]))
    words = [
        word for n, text in texts for word in placeholders.arguments(text, values, f"argv[{n}]")
    ]
    line = " ".join(words).strip("'\"")
    if cell.nodes > 1 and _ALONE.search(line):
        raise UserError(
            "argv has --standalone, with which each node trains by itself; take it out, and give"
            " --nnodes {nodes} --node_rank {node_rank} --master_addr {master_addr} --master_port"
            " {master_port}"
        )
    for option, count in _COUNT.findall(line):
        fact = _COUNTS[option.replace("-", "_")]
        if int(count) != facts[fact]:
            raise UserError(
                f"argv has --{option} {count}, and the cell has {facts[fact]} {fact}; write"
                f" {{{fact}}} in place of {count}"
            )


def _check_path(path: str, where: str) -> None:
    if not path.startswith("/") or printable(path) != path or len(path) > LONGEST_PATH:
        raise UserError(
            f"{where} is {printable(path)[:100]!r}; it must be an absolute path without line breaks"
            f" or other control characters, of at most {LONGEST_PATH} letters"
        )


def check_launcher(cell: Cell, cluster: Cluster) -> None:
    """Refuse what the engine cannot start, or would take for a word of its own."""
    launcher = cell.parameters["launcher"]
    if launcher == FIRST_NODE and cell.nodes > 1 and not cluster.engine.over_ssh:
        raise UserError(
            "launcher first_node starts the other nodes' processes over ssh, which nodes of"
            f" {cluster.engine.title} refuse; take launcher node or processes"
        )
    if cluster.engine.in_jobs and (word := _literal_word(cell)):
        raise UserError(
            f"argv or cwd has {word} as its own text ({{{word}}}), which the job fills in; write"
            f" {word} with single braces, or take it out"
        )


def _literal_word(cell: Cell) -> str:
    """Return what is meant as text, and would be taken for a word that the job fills in."""
    for text in map(str, [*cell.parameters["argv"], cell.parameters["cwd"] or ""]):
        plain = text.replace("{{", "{").replace("}}", "}")
        if plain != text and (match := WORD.search(plain)):
            return match[0]
    for value in map(str, own_keys(cell).values()):
        if match := WORD.search(value):  # braces in a value mean nothing
            return match[0]
    return ""

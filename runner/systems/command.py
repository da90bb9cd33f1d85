"""command: any trainer from a matrix, with neither role nor Python. docs/your-own-trainer.md.

Its argv has placeholders (common/placeholders.py), its log is read by a family of lines or by
patterns (runner/logs/patterns.py).
"""

from collections.abc import Mapping
from typing import Any

from runner.base.errors import Faults, UserError
from runner.base.paths import BASE_PATH
from runner.base.suggest import nearest
from runner.systems.common import command_checks as checks
from runner.systems.common import launchers, placeholders
from runner.systems.common.command_figures import model, samples, tokens
from runner.systems.common.command_keys import (
    FACTS,
    FIRST_NODE,
    HOSTFILE,
    PARALLEL,
    PROCESSES,
    RUN,
    SIZES,
    own_keys,
    sizes,
)
from runner.systems.common.system import Profiling, System
from runner.terms.cell import Cell
from runner.terms.cluster import Cluster
from runner.terms.profile import NSYS
from runner.terms.run import Command, NodeContext

PYTHONS = ("python", "python3")


def resolve(parameters: dict[str, Any]) -> dict[str, Any]:
    """Add the matrix's own keys with their defaults; what a cell says wins."""
    declared = parameters.get("parameters")
    declared_values = declared if isinstance(declared, dict) else {}
    set_values = {key: value for key, value in parameters.items() if value is not None}
    return {
        **parameters,
        **{str(key): value for key, value in declared_values.items()},
        **set_values,
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
        "checkpoints": node.checkpoints or None,
    }
    launcher = cell.parameters["launcher"]
    if launcher == PROCESSES:
        rank = node.node_rank * node.nproc_per_node + local_rank
        facts |= {"rank": rank, "local_rank": local_rank}
    if launcher == FIRST_NODE:
        facts[HOSTFILE] = f"{node.run_dir}/{HOSTFILE}"
    return {**own_keys(cell), **{key: value for key, value in facts.items() if value is not None}}


def python(cell: Cell, node: NodeContext) -> str | None:
    """Return the interpreter that the cell names, or its pin set's; None where it has neither."""
    interpreter = (cell.parameters.get("environment") or {}).get("python")
    if interpreter or not cell.pin:
        return interpreter
    return node.program("python3")


def command(cell: Cell, node: NodeContext) -> Command:
    """Start argv once on this node, once a device of it, or on the first node alone."""
    values, launcher = cell.parameters, cell.parameters["launcher"]
    interpreter = python(cell, node)
    env = {} if interpreter is None else {"PATH": f"{_folder(interpreter)}:{BASE_PATH}"}
    cwd = placeholders.filled(values["cwd"] or f"{node.home}/src", own_keys(cell), "cwd")
    argvs = [
        _argv(cell, node, local_rank, interpreter)
        for local_rank in range(node.nproc_per_node if launcher == PROCESSES else 1)
    ]
    if launcher == launchers.SRUN:
        return launchers.by_srun(node, argvs[0], env, cwd, {})
    if launcher == PROCESSES:
        env |= {"NODE_RANK": str(node.node_rank), "LOCAL_WORLD_SIZE": str(node.nproc_per_node)}
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
    for name in placeholders.all_names(cell.parameters["argv"]):
        if name in FACTS and name not in values:
            raise UserError(f"argv: {{{name}}} is not there: {FACTS[name]}")
    argv = [
        word
        for number, text in enumerate(cell.parameters["argv"])
        for word in placeholders.arguments(placeholders.written(text), values, f"argv[{number}]")
    ]
    if not argv or not argv[0]:
        raise UserError("argv begins with an empty word; name the program to start")
    if interpreter and argv[0] in PYTHONS:
        argv[0] = interpreter
    if cell.parameters["launcher"] == PROCESSES:
        ranks = {"RANK": values["rank"], "LOCAL_RANK": local_rank}
        argv[:0] = ["/usr/bin/env", *(f"{name}={rank}" for name, rank in ranks.items())]
    return tuple(argv)


def check(cell: Cell, cluster: Cluster) -> None:
    """Refuse what could not start, or could not be read afterwards; all faults are told."""
    Faults().run_all(
        lambda: checks.check_argv(cell),
        lambda: checks.check_folder(cell),
        lambda: checks.check_python(cell, cluster),
        lambda: checks.check_names(cell),
        lambda: readers(cell.parameters),
    )
    Faults().run_all(
        lambda: checks.check_words(cell),
        lambda: checks.check_launcher(cell, cluster),
        lambda: samples(cell),
        lambda: model(cell.parameters),
    )


def readers(parameters: Mapping[str, Any]) -> Any:
    """Return what reads the cell's log. Raises UserError for an unknown family, and for
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


def relies_on(cell: Cell) -> dict[str, str]:
    """Name the trainer's folder and its Python, whose change makes other figures.

    A program that is found on PATH alone is named, too, and nobody records what it is.
    """
    values = cell.parameters
    folder = placeholders.filled(values["cwd"], own_keys(cell), "cwd") if values["cwd"] else ""
    interpreter = (values.get("environment") or {}).get("python") or ""
    program = "" if interpreter or cell.pin else placeholders.written((values["argv"] or [""])[0])
    return {
        "folder": folder,
        "python": interpreter,
        "program": "" if "/" in program or "{" in program else program,
    }


SYSTEM = System(
    name="command",
    summary="any trainer: its command, its folder and how its log reads are in the matrix",
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
    profiling=Profiling((NSYS,), steps=False),
    resumes=lambda parameters: bool(parameters.get("resumes")),
)

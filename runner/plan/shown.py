"""What a stranger's run would execute, for a person who decides whether it may. Pure.

Nothing is left out: each character of a stranger's is shown, as an escape if it is not plain ASCII.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runner import __version__
from runner.base.escapes import ExactLine, ExactWord
from runner.terms.orders import NodeRun
from runner.terms.run import Run
from runner.terms.settings import Settings

Scheduled = Iterable[Mapping[str, Any]]  # what a scheduler is given: `script`, and `step` if any


def would_execute(run: Run, was: Run, settings: Settings, scheduled: Scheduled) -> Iterator[str]:
    """Yield the lines: the cell, what differs from the recording, each node's part in full.

    `run` is planned here; `was` and `settings` are the stranger's.
    """
    yield ExactLine(f"cell {run.cell.name}, recorded as {run.rerun_of}, planned for your nodes as")
    yield ExactLine(f"{run.id}, by these values of the recorded matrix:")
    for name, value in run.cell.parameters.items():
        if value is not None:
            yield ExactLine(f"  {name}: {json.dumps(value)}")
    yield "the nodes must have installed what was recorded of:"
    yield from (ExactLine(f"  {name}") for name in settings.environment or ())
    yield "differs from the recording:"
    yield from _differences(run, was, settings)
    for name in run.secrets:
        yield ExactLine(f"it is given the secret {name} of your inventory")
    for name, word in run.cell.placement.items():
        values = " ".join(map(ExactWord, [word] if isinstance(word, str) else word))
        yield f"the scheduler is asked for {ExactWord(name)} {values}"
    if "{" in run.master_address:
        yield f"in braces ({run.master_address}): what only the job knows, filled in on its nodes"
    limit = run.limits.time_limit_s
    yield f"each node executes this as the user of its inventory, for {limit:g} s at most:"
    yield from (f"  first, by bash: {ExactWord(line)}" for line in run.setup)
    yield from (f"  at last, by bash: {ExactWord(line)}" for line in run.teardown)
    before: NodeRun | None = None
    for node in run.nodes:
        yield from _node_lines(node, before)
        before = node
    for submission in scheduled:
        yield from _text("submitted.sh", submission["script"])
        if "step" in submission:
            yield f"  step {_command_text(submission['step'])}"


def _differences(run: Run, was: Run, settings: Settings) -> Iterator[str]:
    """Yield what is not as it was recorded."""
    both = {
        "TrainBench": (settings.trainbench, __version__),
        "nodes": (_hosts(was), _hosts(run)),
        "device": (was.nodes[0].device, run.nodes[0].device),
        "address of node rank 0": (was.master_address, run.master_address),
    }
    for quantity, (recorded, here) in both.items():
        if recorded != here:
            yield f"  {quantity}: recorded {ExactWord(recorded)}, here {ExactWord(here)}"
    before: list[str] = []
    for node, recorded_node in zip(run.nodes, was.nodes, strict=False):
        lines = list(_of_node(node, recorded_node))
        yield f"  node rank {node.node_rank}:{' as the one before' if lines == before else ''}"
        if lines != before:
            yield from lines or ["    nothing"]
        before = lines


def _hosts(run: Run) -> str:
    return " ".join(node.host for node in run.nodes)


def _of_node(node: NodeRun, was: NodeRun) -> Iterator[str]:
    """Yield how a node's part differs: folders, devices, variables, files, words of commands."""
    for field in ("cwd", "dir", "scratch", "device_ids"):
        recorded, here = getattr(was, field), getattr(node, field)
        if recorded != here:
            yield f"    {field}: recorded {ExactWord(str(recorded))}, here {ExactWord(str(here))}"
    for kind, theirs, ours in (("env", was.env, node.env), ("file", was.files, node.files)):
        for name in {**theirs, **ours}:
            if theirs.get(name) != ours.get(name):
                recorded, here = _value(theirs.get(name)), _value(ours.get(name))
                yield f"    {kind} {ExactWord(name)}: recorded {recorded}, here {here}"
    old, new = _all_words(was), _all_words(node)
    for sign, line, other_words in (("-", old, set(new)), ("+", new, set(old))):
        if fresh := [word for word in line if word not in other_words]:
            yield f"    argv {sign} {_command_text(fresh)}"
    if old != new and set(old) == set(new):
        yield "    argv: the same words in another order"


def _value(text: str | None) -> str:
    return "nothing" if text is None else ExactWord(text)


def _all_words(node: NodeRun) -> list[str]:
    return [word for argv in (*_commands(node), *node.after, node.step) for word in argv]


def _commands(node: NodeRun) -> tuple[tuple[str, ...], ...]:
    return node.processes or ((node.argv,) if node.argv else ())


def _command_text(argv: Iterable[str]) -> str:
    return " ".join(map(ExactWord, argv))


def _node_lines(node: NodeRun, before: NodeRun | None) -> Iterator[str]:
    """Yield a node's part; of variables and files only what the node before has not."""
    yield f"{ExactWord(node.host)}  node_rank {node.node_rank}"
    yield f"  cwd  {ExactWord(node.cwd)}"
    for name, value in node.env.items():
        if before is None or before.env.get(name) != value:
            yield f"  env  {ExactWord(name)}={ExactWord(value)}"
    if node.step:
        yield f"  step {_command_text(node.step)}"
    for name, text in node.files.items():
        if before is None or before.files.get(name) != text:
            yield from _text(name, text)
    if node.tasks:
        yield f"  srun starts {node.tasks} tasks of:"
    for argv in _commands(node):
        yield f"  run  {_command_text(argv)}"
    if not _commands(node):
        yield "  run  (nothing: the launcher of node_rank 0 starts this node's processes)"
    for argv in node.after:
        yield f"  then {_command_text(argv)}"


def _text(name: str, text: str) -> Iterator[str]:
    """Yield a file's lines, each behind a bar that none of them can begin without."""
    yield f"  file {ExactWord(name)}"
    yield from (f"    | {ExactLine(line)}" for line in text.split("\n"))

"""What a run would execute, for a person who decides whether it may: nothing is left out. Pure."""

from collections.abc import Iterator

from runner.base.escapes import ShellWord, TerminalLine
from runner.plan.rehomed import Rehomed
from runner.terms.orders import NodeRun


def would_execute(rehomed: Rehomed) -> Iterator[str]:
    """Yield the lines: what differs from what was recorded, then each node's part in full."""
    run, was = rehomed.run, rehomed.recorded
    yield TerminalLine(f"cell {run.cell.name}, recorded as {was.id}, on your nodes:")
    for node, recorded in zip(run.nodes, was.nodes, strict=True):
        yield TerminalLine(f"  node rank {node.node_rank}: {recorded.host} was, {node.host} is")
    yield from _differs(rehomed)
    if run.secrets:
        yield TerminalLine(f"it is given these secrets of your inventory: {', '.join(run.secrets)}")
    for name, value in run.cell.placement.items():
        yield TerminalLine(f"the scheduler is asked for {name} {value}")
    limit = run.limits.time_limit_s
    yield f"each node executes this as the user of its inventory, for {limit:g} s at most:"
    before: NodeRun | None = None
    for node, recorded in zip(run.nodes, was.nodes, strict=True):
        yield from _part(node, recorded, before)
        before = node


def _differs(rehomed: Rehomed) -> Iterator[str]:
    """Say all that is not byte for byte what was recorded."""
    told = dict.fromkeys((each.what, each.was, each.now) for each in rehomed.substitutions)
    yield "differs from what was recorded, and nothing else does:"
    yield TerminalLine(
        f"  the run's name: {rehomed.recorded.id}, in its folder's path too, becomes that of a new"
        f" repeat in the campaign rerun-{rehomed.recorded.campaign}"
    )
    for what, was, now in told:
        yield TerminalLine(f"  {what}: {was} was, {now} is")
    for name, (value, now) in rehomed.variables.items():
        before = "not set" if value is None else value
        yield TerminalLine(f"  the variable {name}, of your inventory: {before} was, {now} is")


def _part(node: NodeRun, recorded: NodeRun, before: NodeRun | None) -> Iterator[str]:
    """Say a node's part; of variables and files only what the node before has not."""
    same, words = _count(node, recorded)
    yield TerminalLine(f"{node.host}  node_rank {node.node_rank}")
    yield f"  argv: {same} of {words} words byte for byte as recorded"
    yield TerminalLine(f"  cwd  {node.cwd}")
    for name, value in node.env.items():
        if before is None or before.env.get(name) != value:
            yield f"  env  {TerminalLine(name)}={ShellWord(value)}"
    for path in node.step:
        yield f"  step {ShellWord(path)}"
    for name, text in node.files.items():
        if before is None or before.files.get(name) != text:
            yield TerminalLine(f"  file {name}")
            yield from (f"    {TerminalLine(line)}" for line in text.splitlines())
    each = node.processes or ((node.argv,) if node.argv else ())
    for argv in each:
        yield f"  run  {' '.join(map(ShellWord, argv))}"
    if not each:
        yield "  run  (nothing: the launcher of node_rank 0 starts this node's processes)"
    for argv in node.after:
        yield f"  then {' '.join(map(ShellWord, argv))}"


def _count(node: NodeRun, recorded: NodeRun) -> tuple[int, int]:
    """Return how many words of all argv are as recorded, and how many there are."""
    now = [*node.argv, *(word for argv in node.processes for word in argv)]
    was = [*recorded.argv, *(word for argv in recorded.processes for word in argv)]
    return sum(a == b for a, b in zip(now, was, strict=True)), len(now)

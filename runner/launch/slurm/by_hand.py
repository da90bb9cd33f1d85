"""job.sh: a run as a plain script for sbatch, which a person can read, change and run again. Pure.

It needs nothing of bench: what only a job knows are variables of Slurm's, and what the run writes
goes into a folder of the job's own, so that nothing recorded is touched.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from node.supervisor.placeholders import PORTS
from node.supervisor.scratch import TEMPORARY
from node.validated_text import VariableName
from runner.launch.slurm.job_script import by_hand_head, srun_argv
from runner.plan.containers import JOB_ID
from runner.plan.script import environment, quoted
from runner.terms.engines.slurm import Slurm
from runner.terms.orders import NodeRun
from runner.terms.run import Run

HOST = 'scontrol show hostnames "$SLURM_JOB_NODELIST"'
RANKS = {
    "RANK": "$SLURM_PROCID",
    "LOCAL_RANK": "$SLURM_LOCALID",
    "WORLD_SIZE": "$SLURM_NTASKS",
    "NODE_RANK": "$SLURM_NODEID",
}
WIDTH = 92  # letters of a line
NODE_RANK = '"$SLURM_NODEID"'
OF_A_JOB = {"{master_addr}": '"$MASTER_ADDR"', "{master_port}": '"$MASTER_PORT"'}
ADDRESS = re.compile(r"\{node_addr_(\d+)\}")


def job_by_hand(slurm: Slurm, run: Run) -> str:
    """Write job.sh of a run."""
    orders, nodes = run.orders, run.nodes
    srun = srun_argv(slurm, len(nodes), ("bash", "-l", "-c", "run_node"), orders=orders)
    exports = [_exports(node) for node in nodes]
    common = [line for line in exports[0] if all(line in node_exports for node_exports in exports)]
    bodies = [
        "\n".join([*(line for line in node_lines if line not in common), *_body(node, commands)])
        for node_lines, (node, commands) in zip(exports, _folded(nodes), strict=True)
    ]
    return (
        environment()
        .get_template("job.sh.j2")
        .render(
            run=run,
            head=by_hand_head(slurm, orders),
            first_port=PORTS[0],
            ports=len(PORTS),
            scratch=quoted(nodes[0].scratch.rpartition("/")[0]),
            temporary=TEMPORARY,
            exports=common,
            groups=_groups(bodies),
            after=[_wrapped([_word(word, nodes[0]) for word in argv]) for argv in nodes[0].after],
            srun=_wrapped([_in_job(word) for word in srun]),
        )
    )


def _exports(node: NodeRun) -> list[str]:
    """Return the lines that set a node's variables and folder."""
    ranks = {**RANKS, "LOCAL_WORLD_SIZE": str(node.tasks)} if node.tasks else {}
    lines = [f"export {name}={word}" for name, word in ranks.items()]
    lines += [
        f"export {VariableName(name)}={_word(value, node)}" for name, value in node.env.items()
    ]
    return [*lines, f"cd {_word(node.cwd, node)}"]


def _commands(node: NodeRun) -> list[tuple[str, ...]]:
    """Return the command lines of a node: one, or one a device."""
    return list(node.processes or ((node.argv,) if node.argv else ()))


def _folded(nodes: Sequence[NodeRun]) -> Iterator[tuple[NodeRun, list[list[str]]]]:
    """Yield each node with its command lines, quoted: a word that is the node's rank on every node
    is Slurm's variable for that.
    """
    lists = [_commands(node) for node in nodes]
    alike = len(nodes) > 1 and len({tuple(map(len, commands)) for commands in lists}) == 1

    def word(node: NodeRun, line: int, place: int) -> str:
        if alike and _is_rank(lists, line, place):
            return NODE_RANK
        return _word(_commands(node)[line][place], node)

    for node, commands in zip(nodes, lists, strict=True):
        yield (
            node,
            [[word(node, k, i) for i in range(len(argv))] for k, argv in enumerate(commands)],
        )


def _is_rank(lists: Sequence[list[tuple[str, ...]]], line: int, place: int) -> bool:
    return all(commands[line][place] == str(rank) for rank, commands in enumerate(lists))


def _body(node: NodeRun, commands: list[list[str]]) -> list[str]:
    """Return what a node does between the lines of its setup and of its teardown."""
    lines = [
        f"printf '%s' {_word(text, node)} > {_word(f'{node.dir}/{name}', node)}"
        for name, text in node.files.items()
    ]
    if not commands:
        return [*lines, "echo 'the launcher of node rank 0 starts the processes of this node'"]
    if len(commands) == 1:
        return [*lines, _wrapped(commands[0])]
    lines += [f"{_wrapped(command)} &" for command in commands]
    return [*lines, 'for process in $(jobs -p); do wait "$process"; done']


def _groups(bodies: Sequence[str]) -> list[tuple[str, str]]:
    """Return what differs among the nodes: the ranks that do it, as `case` has them, and what."""
    ranks: dict[str, list[str]] = {}
    for rank, body in enumerate(bodies):
        ranks.setdefault(body, []).append(str(rank))
    return [("|".join(rank_patterns), body) for body, rank_patterns in ranks.items()]


def _word(text: str, node: NodeRun) -> str:
    """Quote a word; a folder of the run's, and what only a job knows, become variables."""
    marks = {node.dir: '"$RUN_DIR"', **OF_A_JOB}
    if node.scratch:
        marks[node.scratch] = '"$SCRATCH"'
    pattern = "|".join([*map(re.escape, marks), ADDRESS.pattern.replace("(", "(?:")])
    parts = [piece for piece in re.split(f"({pattern})", text) if piece]
    return "".join(marks.get(piece) or _address(piece) or quoted(piece) for piece in parts) or "''"


def _address(part: str) -> str:
    rank = ADDRESS.fullmatch(part)
    return f'"$({HOST} | sed -n {int(rank[1]) + 1}p)"' if rank else ""


def _in_job(word: str) -> str:
    """Quote a word of srun's; the job's id becomes Slurm's variable."""
    return '"$SLURM_JOB_ID"'.join(
        shlex.quote(piece) if piece else "" for piece in word.split(JOB_ID)
    )


def _wrapped(words: Sequence[str]) -> str:
    """Join words to lines of a readable length."""
    lines: list[list[str]] = [[]]
    for word in words:
        if lines[-1] and len(" ".join([*lines[-1], word])) > WIDTH:
            lines.append([])
        lines[-1].append(word)
    return " \\\n  ".join(" ".join(line) for line in lines)

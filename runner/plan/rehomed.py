"""A run that somebody else recorded, on nodes of one's own: what stands in the place of what. Pure.

What was recorded is executed, word for word. Only what names a machine is another's: the nodes,
their root folder, the first one's address, the run's own folder, and the variables that the own
inventory sets. Whoever wrote the run may be hostile: a folder that is not the run's own is refused.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from node.supervisor import names
from node.supervisor.placeholders import MASTER_ADDR
from node.supervisor.scratch import PREFIX
from runner.base.errors import UserError
from runner.terms.cluster import Cluster, Node
from runner.terms.orders import NodeRun
from runner.terms.run import Run

_ADDRESS = re.compile(r"(?<![\w./-])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![\w./-])", re.ASCII)
_NO_MACHINE = ("127.", "0.", "255.", "169.254.")  # addresses that are each machine's own


@dataclass(frozen=True)
class Substitution:
    """What is put in the place of what was recorded: `what` it names, on which node (rank)."""

    rank: int
    what: str
    was: str
    now: str


@dataclass(frozen=True)
class Rehomed:
    """The run as it would have been recorded on the own nodes, and all that is not as recorded.

    `variables` are those of the own inventory, by name: what was recorded (None: nothing), and what
    it is on every node.
    """

    run: Run
    recorded: Run
    substitutions: tuple[Substitution, ...]
    variables: Mapping[str, tuple[str | None, str]]


def rehome(run: Run, cluster: Cluster) -> Rehomed:
    """Put a run on the first nodes of a cluster. Raises UserError where they cannot have it."""
    _check(run, cluster)
    found: list[Substitution] = []
    nodes = []
    for rank, node in enumerate(run.nodes):
        substitutions = list(_substitutions(run, node, cluster, cluster.nodes[rank]))
        found += substitutions
        nodes.append(_moved(run, node, cluster, rank, substitutions))
    variables = {
        name: (run.nodes[0].env.get(name), value)
        for name, value in cluster.env.items()
        if name not in run.cell.env and run.nodes[0].env.get(name) != value
    }
    moved = replace(run, master_address=cluster.nodes[0].address, nodes=tuple(nodes))
    return Rehomed(moved, run, tuple(found), variables)


def _check(run: Run, cluster: Cluster) -> None:
    """Refuse what no substitution mends. Raises UserError."""
    where = f"the inventory {cluster.name}"
    on_slurm = run.master_address == MASTER_ADDR
    if on_slurm != cluster.engine.in_jobs:
        kinds = ("Slurm", "ssh") if on_slurm else ("ssh", "Slurm")
        raise UserError(
            f"the run was made by {kinds[0]}, and {where} is of {kinds[1]}; name one like it"
        )
    if len(run.nodes) > len(cluster.nodes):
        raise UserError(f"the run has {len(run.nodes)} nodes, and {where} {len(cluster.nodes)}")
    if [node.node_rank for node in run.nodes] != list(range(len(run.nodes))):
        raise UserError("the run's nodes are not in the order of their ranks; it is refused")
    for node, own in zip(run.nodes, cluster.nodes, strict=False):
        if node.device != cluster.device:
            raise UserError(
                f"the run was made on {node.device}, and {where} is of {cluster.device}"
            )
        if own.devices < run.cell.devices_per_node:
            raise UserError(
                f"{own.host} has {own.devices} devices, not {run.cell.devices_per_node}"
            )
        _check_folders(run, node, on_slurm=on_slurm)
    if lacking := sorted(set(run.secrets) - set(cluster.secrets)):
        raise UserError(
            f"the run is given the secrets {', '.join(lacking)}, which {where} does not have; set"
            " them in its cluster_env"
        )


def _check_folders(run: Run, node: NodeRun, *, on_slurm: bool) -> None:
    """Refuse a node that would write elsewhere than in the run's own folder. Raises UserError."""
    runs, own = PurePosixPath(node.runs), PurePosixPath(node.dir)
    if on_slurm:
        first = PurePosixPath(run.nodes[0].dir).parents
        whole = len(first) > 1 and own == first[1] / names.node(node.node_rank, node.host)
    else:
        whole = own in (runs / run.id, runs / node.host / run.id)
    scratch = PurePosixPath(node.scratch)
    temporary = not node.scratch or re.fullmatch(rf"{PREFIX}[0-9a-f]{{12}}", scratch.name)
    paths = (runs, own, scratch)
    if not whole or not temporary or any(".." in path.parts for path in paths):
        raise UserError(
            f"the run's folder on {node.host}, {node.dir}, is not one that bench gives a run; it is"
            " refused"
        )
    if runs.name != "runs" or not runs.is_absolute() or runs.parent == PurePosixPath("/"):
        raise UserError(f"{node.runs} is no folder of runs below a cluster_root; it is refused")


def _substitutions(run: Run, node: NodeRun, cluster: Cluster, own: Node) -> Iterator[Substitution]:
    """Yield what of a node's words names the machine, the longest first."""
    rank = node.node_rank
    if not cluster.engine.in_jobs:
        folder = str(cluster.run_folder(own, run.id))
        if node.dir != folder:
            yield Substitution(rank, "the run's folder", node.dir, folder)
    if node.scratch:
        above = cluster.scratch or PurePosixPath("/tmp")  # noqa: S108  # as bench plans it: 0700
        scratch = str(above / PurePosixPath(node.scratch).name)
        if node.scratch != scratch:
            yield Substitution(rank, "a folder on its own disk", node.scratch, scratch)
    was = str(PurePosixPath(node.runs).parent)
    if was != str(own.root):
        yield Substitution(rank, "cluster_root", was, str(own.root))
    address = cluster.nodes[0].address
    if run.master_address != address:
        yield Substitution(rank, "the address of node rank 0", run.master_address, address)


def _moved(
    run: Run, node: NodeRun, cluster: Cluster, rank: int, found: list[Substitution]
) -> NodeRun:
    """Return the node's part as it would have been planned for the own node."""
    own = cluster.nodes[rank]
    put = _putter(found)
    env = {name: put(value) for name, value in node.env.items()}
    env |= {name: value for name, value in cluster.env.items() if name not in run.cell.env}
    moved = replace(
        node,
        host=own.host,
        argv=tuple(map(put, node.argv)),
        env=env,
        cwd=put(node.cwd),
        files={name: put(text) for name, text in node.files.items()},
        requires={put(path): size for path, size in node.requires.items()},
        runs=str(own.root / "runs"),
        dir=put(node.dir),
        scratch=put(node.scratch),
        after=tuple(tuple(map(put, argv)) for argv in node.after),
        step=tuple(map(put, node.step)),
        processes=tuple(tuple(map(put, argv)) for argv in node.processes),
    )
    _refuse_others(run, moved, cluster)
    return moved


def _putter(found: list[Substitution]) -> Callable[[str], str]:
    """Return what puts all of them into a text at once, so that none is put into another."""
    now = {each.was: each.now for each in found}
    if not now:
        return str
    words = sorted(now, key=len, reverse=True)
    # A whole name: not the beginning, the end or the middle of another one.
    pattern = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, words))})(?![\w.-])")
    return lambda text: pattern.sub(lambda match: now[match[0]], text)


def _refuse_others(run: Run, node: NodeRun, cluster: Cluster) -> None:
    """Refuse a node that is told of a machine which is none of the own. Raises UserError."""
    own = {each.address for each in cluster.nodes}
    texts = (*node.argv, *node.env.values(), *node.files.values())
    for text in texts:
        for found in _ADDRESS.findall(text):
            if found not in own and not found.startswith(_NO_MACHINE):
                raise UserError(
                    f"node rank {node.node_rank} of {run.id} is told the address {found}, and the"
                    " run does not say which of your nodes that is; it cannot be made elsewhere"
                )

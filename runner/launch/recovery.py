"""How a run goes on after a failure: on which nodes, and whether it can."""

from dataclasses import dataclass, field, replace

from node.causes import Cause
from runner.base.errors import UserError
from runner.folder.attempt import Attempt
from runner.plan.checks import check_cell
from runner.results.story import faults_of
from runner.terms.cell import Cell
from runner.terms.cluster import Cluster
from runner.terms.faults import SHRINK, SPARE
from runner.terms.outcome import Outcome

MOST_RESTARTS = 10  # of a run without planned faults
FURTHER = 2  # failures that nobody planned, of one with them
# What another attempt would meet again, or what was asked for.
FINAL = frozenset(
    (Cause.INTERRUPTED, Cause.MISSING, Cause.CHANGED, Cause.TIME_LIMIT, Cause.UNREADABLE)
)
OF_A_NODE = frozenset((Cause.NODE_LOST, Cause.SUPERVISOR_LOST))
PASSING = OF_A_NODE | {Cause.DISK_FULL, Cause.NODE_BUSY}  # that may be over by the next attempt


def can_go_on(ended: Outcome, attempt: Attempt) -> bool:
    """Whether another attempt may end otherwise: not where the first step never came, unless a
    planned fault or a lost node was why.
    """
    if ended.cause in FINAL or attempt.run is None:
        return False
    caused = ended.cause in PASSING or bool(faults_of(attempt))
    return caused or ended.status != "did_not_run"


@dataclass
class RecoveryPlan:
    """The attempts of one repeat: the first one's number, and the nodes for the next.

    `cell` and `cluster` are what the next attempt is planned with: nodes that failed come last.
    """

    cell: Cell
    begun: int
    cluster: Cluster
    lost: list[str] = field(default_factory=list)

    @property
    def most(self) -> int:
        """How many attempts may follow the first."""
        planned = len(self.cell.faults.planned) if self.cell.faults else 0
        return planned + FURTHER if planned else MOST_RESTARTS

    def failed(self, attempt: Attempt) -> None:
        """Take note of how an attempt failed, and choose the nodes of the next."""
        policy = self.cell.recovery
        host = failed_host(attempt)
        if policy not in (SPARE, SHRINK) or host is None:
            return
        self.lost = [host_name for host_name in self.lost if host_name != host] + [host]
        order = {host: number for number, host in enumerate(self.lost, 1)}
        nodes = sorted(self.cluster.nodes, key=lambda node: order.get(node.host, 0))
        self.cluster = replace(self.cluster, nodes=tuple(nodes))
        if policy == SHRINK:
            self.cell = fewer_nodes(self.cell, self.cluster)


def failed_host(attempt: Attempt) -> str | None:
    """Return the node that the last fault was on, else the one that was lost."""
    hosts = attempt.hosts
    if faults := faults_of(attempt):
        return hosts.get(faults[-1].node)
    halt = attempt.halt
    return halt.host if halt and halt.cause in OF_A_NODE else None


def fewer_nodes(cell: Cell, cluster: Cluster) -> Cell:
    """Return the cell on as many fewer nodes as it can run on, at least one fewer; else as it is.

    The batch of all devices stays, so that it learns the same.
    """
    for nodes in range(cell.nodes - 1, 0, -1):
        smaller = replace(cell, nodes=nodes)
        try:
            check_cell(replace(smaller, faults=None, recovery=""), cluster, None)
        except UserError:
            continue
        return smaller
    return cell

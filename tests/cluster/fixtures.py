"""pytest: test nodes shared by a session, healed after each test.

Register with ``pytest_plugins = ["tests.cluster.fixtures"]`` in tests/conftest.py, then

    def test_something(real_nodes: RealNodes) -> None:
        group = real_nodes(2, variables={"devices_per_node": 1})
        group.nodes[1].link(False)
        subprocess.run(["ansible", "-i", str(group.inventory), "nodes", "-m", "ping"])

All plain groups are nodes of one cluster of four, brought up when first asked for and lent to one
test at a time (lending.py): a pair may be node3 and node4.  So is the one Slurm cluster, a login
node and four compute nodes:

    def test_something_else(slurm_cluster: SlurmCluster) -> None:
        slurm_cluster.run(["sbatch", "--wait", "--wrap", "srun hostname"], check=True)

Without root the tests skip, saying why; with CI=true in the environment they fail instead.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
from xdist.workermanage import WorkerController

from . import registry
from .cluster import Cluster, remove
from .lending import Lender, Loan
from .node import Node
from .slurm import SlurmCluster, lacks_slurm
from .system import identity, missing

# (nodes, upper_size_mib, memory_mib)
OddClusters = Callable[[int, int | None, int | None], Cluster]


@dataclass
class Group:
    """The nodes that a test got, and an inventory of them alone."""

    cluster: Cluster
    nodes: list[Node]
    inventory: Path


class RealNodes(Protocol):
    """``real_nodes(2)``: the fixture's type."""

    def __call__(
        self,
        nodes: int = 4,
        *,
        variables: Mapping[str, Any] | None = None,
        upper_size_mib: int | None = None,
        memory_mib: int | None = None,
    ) -> Group:
        """Nodes for this test, with the variables in its inventory's group_vars/all."""


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker."""
    config.addinivalue_line("markers", "network: needs a package index on the network")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Tell a worker of pytest-xdist whose the clusters are."""
    node.workerinput["owner"] = os.getpid()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Take down what this run brought up."""
    if not hasattr(config, "workerinput"):
        for record in registry.records():
            if record.owner == identity(os.getpid()):
                remove(record)


@pytest.fixture(scope="session")
def lender(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Lender:
    """Clusters of this run; skips (fails with CI=true) where the machine cannot have any."""
    _skip_without(missing())
    own = tmp_path_factory.getbasetemp()
    if not hasattr(pytestconfig, "workerinput"):
        return Lender(own, os.getpid())
    return Lender(own.parent, pytestconfig.workerinput["owner"])


@pytest.fixture(scope="session")
def odd_clusters() -> Iterator[OddClusters]:
    """Clusters with limits, which no two files share; this worker's own."""
    made: dict[tuple[int, int | None, int | None], Cluster] = {}

    def give(nodes: int, upper_size_mib: int | None, memory_mib: int | None) -> Cluster:
        key = (nodes, upper_size_mib, memory_mib)
        if key not in made:
            cluster = Cluster(nodes, upper_size_mib=upper_size_mib, memory_mib=memory_mib)
            made[key] = cluster.up()
        return made[key]

    yield give
    for cluster in made.values():
        cluster.down()


def _skip_without(lacking: str | None) -> None:
    if lacking and os.environ.get("CI") == "true":
        pytest.fail(lacking, pytrace=False)
    if lacking:
        pytest.skip(lacking)


@pytest.fixture
def real_nodes(lender: Lender, odd_clusters: OddClusters, tmp_path: Path) -> Iterator[RealNodes]:
    """Nodes for one test; what it leaves running on them is killed and is an error."""
    loans: dict[tuple[int | None, int | None], Loan] = {}

    def give(
        nodes: int = 4,
        *,
        variables: Mapping[str, Any] | None = None,
        upper_size_mib: int | None = None,
        memory_mib: int | None = None,
    ) -> Group:
        key = (upper_size_mib, memory_mib)
        if key not in loans and key == (None, None):
            loans[key] = lender.lend(nodes)
        elif key not in loans:
            cluster = odd_clusters(nodes, *key)
            loans[key] = Loan(cluster, cluster.nodes, [])
        loan = loans[key]
        assert nodes <= len(loan.nodes), "ask for the most nodes first"
        group = loan.nodes[:nodes]
        folder = tmp_path / f"inventory-{len(list(tmp_path.glob('inventory-*')))}"
        loan.cluster.write_inventory(folder, nodes=group, variables=variables)
        return Group(loan.cluster, group, folder)

    yield give
    left = [line for loan in loans.values() for line in loan.give_back()]
    if left:
        pytest.fail("left running on the nodes (killed now):\n" + "\n".join(left), pytrace=False)


@pytest.fixture
def slurm_cluster(lender: Lender) -> Iterator[SlurmCluster]:
    """Slurm for one test; what it leaves running, jobs too, is ended and is an error."""
    _skip_without(lacks_slurm())
    with lender.slurm() as slurm:
        yield slurm
        left = slurm.heal()
    if left:
        pytest.fail("left running on Slurm (ended now):\n" + "\n".join(left), pytrace=False)

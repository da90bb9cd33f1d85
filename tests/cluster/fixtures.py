"""pytest: test nodes shared by a session, healed after each test.

Register with ``pytest_plugins = ["tests.cluster.fixtures"]`` in tests/conftest.py, then

    def test_something(real_nodes: RealNodes) -> None:
        group = real_nodes(2, variables={"devices_per_node": 1})
        group.nodes[1].link(False)
        subprocess.run(["ansible", "-i", str(group.inventory), "nodes", "-m", "ping"])

All plain groups are the first nodes of one cluster of four, brought up when first asked for.
So is the one Slurm cluster, a login node and four compute nodes:

    def test_something_else(slurm_cluster: SlurmCluster) -> None:
        slurm_cluster.run(["sbatch", "--wait", "--wrap", "srun hostname"], check=True)

Without root the tests skip, saying why; with CI=true in the environment they fail instead.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from .cluster import Cluster
from .node import Node
from .slurm import SlurmCluster, lacks_slurm
from .system import missing

SHARED_NODES = 4


@dataclass
class Group:
    """The nodes that a test got, and an inventory of them alone."""

    cluster: Cluster
    nodes: list[Node]
    inventory: Path


class ClusterFactory(Protocol):
    """``cluster_factory(nodes, upper_size_mib=..., memory_mib=...)``: one cluster per options."""

    def __call__(
        self, nodes: int = 4, *, upper_size_mib: int | None = None, memory_mib: int | None = None
    ) -> Cluster:
        """The cluster, brought up once a session."""


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


@pytest.fixture(scope="session")
def cluster_factory() -> Iterator[ClusterFactory]:
    """Clusters of this session; skips (fails with CI=true) where the machine cannot have any."""
    _skip_without(missing())
    made: dict[tuple[int, int | None, int | None], Cluster] = {}

    def make(
        nodes: int = 4, *, upper_size_mib: int | None = None, memory_mib: int | None = None
    ) -> Cluster:
        plain = upper_size_mib is None and memory_mib is None
        size = max(nodes, SHARED_NODES) if plain else nodes
        key = (size, upper_size_mib, memory_mib)
        if key not in made:
            cluster = Cluster(size, upper_size_mib=upper_size_mib, memory_mib=memory_mib)
            made[key] = cluster.up()
        return made[key]

    yield make
    for cluster in made.values():
        cluster.down()


def _skip_without(lacking: str | None) -> None:
    if lacking and os.environ.get("CI") == "true":
        pytest.fail(lacking, pytrace=False)
    if lacking:
        pytest.skip(lacking)


@pytest.fixture
def real_nodes(cluster_factory: ClusterFactory, tmp_path: Path) -> Iterator[RealNodes]:
    """Nodes for one test; what it leaves running on them is killed and is an error."""
    used: list[Cluster] = []

    def give(
        nodes: int = 4,
        *,
        variables: Mapping[str, Any] | None = None,
        upper_size_mib: int | None = None,
        memory_mib: int | None = None,
    ) -> Group:
        cluster = cluster_factory(nodes, upper_size_mib=upper_size_mib, memory_mib=memory_mib)
        if cluster not in used:
            used.append(cluster)
        folder = tmp_path / f"inventory-{len(list(tmp_path.glob('inventory-*')))}"
        cluster.write_inventory(folder, nodes=nodes, variables=variables)
        return Group(cluster, cluster.nodes[:nodes], folder)

    yield give
    left = [
        f"{host}: pid {pid}: {' '.join(argv)}"
        for cluster in used
        for host, processes in cluster.heal().items()
        for pid, argv in processes
    ]
    if left:
        pytest.fail("left running on the nodes (killed now):\n" + "\n".join(left), pytrace=False)


@pytest.fixture(scope="session")
def shared_slurm() -> Iterator[SlurmCluster]:
    """This session's Slurm cluster; skips (fails with CI=true) where there cannot be one."""
    _skip_without(missing() or lacks_slurm())
    with SlurmCluster(SHARED_NODES) as slurm:
        yield slurm


@pytest.fixture
def slurm_cluster(shared_slurm: SlurmCluster) -> Iterator[SlurmCluster]:
    """Slurm for one test; what it leaves running, jobs too, is ended and is an error."""
    yield shared_slurm
    left = shared_slurm.heal()
    if left:
        pytest.fail("left running on Slurm (ended now):\n" + "\n".join(left), pytrace=False)

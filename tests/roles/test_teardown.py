"""teardown.yml takes off what setup put into the root folder, and leaves what it found there.

What conda's own runs leave is laid down by hand here; test_conda.py takes off the real one.
"""

from collections.abc import Iterator

import pytest

from tests.cluster.fixtures import Group, RealNodes
from tests.roles.play import play

pytestmark = pytest.mark.cluster
ROOT_FOLDER = "/opt/trainbench-teardown"
VARIABLES = {"cluster_root": ROOT_FOLDER, "cluster_systems": [], "setup_privileged": False}
# Ours on the first node, an installation that broke off on the second, on the third another's.
CONDA = f"mkdir -p {ROOT_FOLDER}/conda/bin && touch {ROOT_FOLDER}/conda/bin/conda"
LAID_DOWN = [
    f"{CONDA} {ROOT_FOLDER}/conda/trainbench.json",
    f"{CONDA}; mkdir {ROOT_FOLDER}/conda-installer",
    CONDA,
]


@pytest.fixture
def group(real_nodes: RealNodes) -> Iterator[Group]:
    group = real_nodes(3, variables=VARIABLES)
    yield group
    for node in group.nodes:
        node.exec(["rm", "-rf", ROOT_FOLDER], check=True)


@pytest.mark.nightly("setup", by_day="test_command takes off, too")
def test_conda_goes_if_it_is_ours(group: Group) -> None:
    for node, script in zip(group.nodes, LAID_DOWN, strict=True):
        node.exec(["sh", "-c", script], check=True)
    gone = play(group.inventory, "-e", "teardown=yes", playbook="teardown.yml")
    assert gone.changed() == {"node1": 1, "node2": 1, "node3": 0}, gone.out
    left = [node.exec(["ls", ROOT_FOLDER]).stdout.split() for node in group.nodes]
    assert left == [[], [], ["conda"]]

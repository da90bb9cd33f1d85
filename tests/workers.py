"""Which tests a worker of pytest-xdist begins with, so that together they keep the cores busy.

Tests on nodes mostly wait. Two workers begin with those, one for each pair of nodes; the others
begin with those that compute.
"""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.cluster.lending import NODES


class SomeCompute(LoadFileScheduling):  # type: ignore[misc]  # xdist is untyped
    """File by file; whose files are out takes the others'."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        waits = node in self.nodes[: NODES // 2]
        files = (file for file in self.workqueue if self._waits(file) == waits)
        self.workqueue.move_to_end(next(files, next(iter(self.workqueue))), last=False)
        super()._assign_work_unit(node)

    def _waits(self, file: str) -> bool:
        return "pytest.mark.cluster" in (self.config.rootpath / file).read_text()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SomeCompute:
    """Give pytest-xdist this scheduler."""
    return SomeCompute(config, log)

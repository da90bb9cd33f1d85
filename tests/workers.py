"""Which tests a worker of pytest-xdist begins with, so that together they keep the cores busy.

Tests on nodes mostly wait; one worker begins with those that compute instead.
"""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class OneComputes(LoadFileScheduling):  # type: ignore[misc]  # xdist is untyped
    """File by file; the first worker takes those without nodes, the others those with nodes.

    Whose files are out takes the others'.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        computes = node is self.nodes[0]
        files = (file for file in self.workqueue if self._waits(file) != computes)
        self.workqueue.move_to_end(next(files, next(iter(self.workqueue))), last=False)
        super()._assign_work_unit(node)

    def _waits(self, file: str) -> bool:
        return "pytest.mark.cluster" in (self.config.rootpath / file).read_text()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneComputes:
    """Give pytest-xdist this scheduler."""
    return OneComputes(config, log)

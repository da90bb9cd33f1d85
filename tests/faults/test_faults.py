"""Every fault of docs/reliability.md over ssh, on four real nodes with the stand-in trainer."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.fixtures import RealNodes
from tests.faults.faults import FAULTS, Fault, play
from tests.faults.stage import VARIABLES, Stage


@pytest.mark.cluster
@pytest.mark.nightly("faults", by_day="row")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.usefixtures("stand_in_root")
def test_it_ends_as_it_should(
    fault: Fault[Stage],
    real_nodes: RealNodes,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    variables = {**VARIABLES, **fault.variables}
    group = real_nodes(
        variables=variables, upper_size_mib=fault.disk_mib, memory_mib=fault.memory_mib
    )
    play(fault, Stage(fault.name, tmp_path, group, fault.act, fault.matrix), record_property)

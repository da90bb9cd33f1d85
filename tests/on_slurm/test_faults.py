"""Every fault of docs/reliability.md on real Slurm, and the document's table of them."""

import re
from collections.abc import Callable, Iterator

import pytest

from runner.base.paths import PROJECT
from tests.cluster.slurm import SlurmCluster
from tests.faults.faults import play
from tests.on_slurm.campaign import install_stand_in
from tests.on_slurm.faults import FAULTS, SlurmFault, stage_of


@pytest.fixture
def slurm(fault: SlurmFault, request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    """The session's cluster, or one that the fault wants for itself."""
    if fault.memory_mib is None and fault.shared_mib is None:
        yield request.getfixturevalue("slurm_cluster")
    else:
        with SlurmCluster(
            4, memory_mib=fault.memory_mib, shared_size_mib=fault.shared_mib
        ) as of_its_own:
            yield of_its_own


@pytest.mark.cluster
@pytest.mark.nightly("slurm-faults", by_day="row")
@pytest.mark.usefixtures("lender")  # skips without root
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_it_ends_as_it_should(
    fault: SlurmFault, slurm: SlurmCluster, record_property: Callable[[str, object], None]
) -> None:
    install_stand_in(slurm)
    play(fault, stage_of(fault, slurm), record_property)


def test_the_documents_table_has_the_suites_faults_and_how_they_must_end() -> None:
    text = (PROJECT / "docs" / "reliability.md").read_text()
    section = text.partition("## On Slurm\n")[2].partition("\n## ")[0].replace("\n  ", " ")
    ends = {fault.name: fault.ends for fault in FAULTS}
    rows = re.findall(r"(?m)^- (\w+)(?:, `(\w+)`)?: (.+)$", section)
    named = [(name, (status, cause)) for status, cause, names in rows for name in names.split("; ")]
    assert sorted(name for name, _ in named) == sorted(ends)
    assert [name for name, end in named if end not in ends[name]] == []

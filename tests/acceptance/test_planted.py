"""Each fault of docs/reliability.md is planted on one of four real nodes, and accept names it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.acceptance.bed import SHARE, Accepting, bed
from tests.acceptance.plants import ALIKE, PLANTS, Plant

REPEATS = 3  # of a fault that figures show, which have noise


def cases() -> Iterator[Any]:
    """Each fault; by day those that take 20 s, also on a busy machine."""
    for plant in PLANTS:
        by_day = "row" if plant.stages == ALIKE else "a minute, or it wants an idle machine"
        for number in range(REPEATS if plant.measured else 1):
            mark = pytest.mark.nightly("acceptance", by_day=by_day)
            yield pytest.param(plant, id=f"{plant.name} {number + 1}", marks=mark)


@pytest.mark.cluster
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("lender")  # skips without root
@pytest.mark.parametrize("plant", [*cases()])
def test_it_is_named(plant: Plant, record_property: Callable[[str, object], None]) -> None:
    record_property("fault of one node", plant.name)
    record_property("severity", plant.severity)
    record_property("made by", plant.made_by)
    record_property("way", plant.way)
    with bed(share=SHARE if plant.measured else None, disk_mib=plant.disk_mib) as made:
        plant.before(made)
        accepting = Accepting(made, plant.stages, *plant.options)
        plant.during(accepting)
        ended = accepting.end()
    record_property("s", f"{ended.took_s:.0f}")
    faults = [fault for fault in ended.detail.get("faults", []) if fault["nodes"]]
    words = [f"{'+'.join(fault['nodes'])} {fault['words']}" for fault in faults]
    assert set(ended.detail.get("failing", {})) == set(plant.nodes), [*words, ended.words]
    assert any(
        fault["test"].startswith(plant.tests) and set(fault["nodes"]) <= set(plant.nodes)
        for fault in faults
    ), words

"""The order of a campaign's runs. Selections are in tests/runner/launch/test_campaign.py."""

from dataclasses import replace

import pytest

from runner.matrix.select import in_order
from tests.runner.builders import small_matrix

CELLS = small_matrix({"zero_stage": [0, 1, 2], "seed": [1, 2]}).cells


@pytest.mark.parametrize("seed", [None, 0, 7])
def test_each_round_has_every_cell_once(seed: int | None) -> None:
    runs = in_order(CELLS, (1, 2, 3), seed)
    rounds = [runs[start : start + len(CELLS)] for start in range(0, len(runs), len(CELLS))]
    assert [{repeat for _, repeat in one} for one in rounds] == [{1}, {2}, {3}]
    for one in rounds:
        assert {cell.id for cell, _ in one} == {cell.id for cell in CELLS}


def test_without_a_seed_cells_run_as_they_stand() -> None:
    assert in_order(CELLS, (1, 2)) == [(cell, repeat) for repeat in (1, 2) for cell in CELLS]


def test_a_seed_shuffles_each_round_by_itself_and_always_the_same_way() -> None:
    names = [[cell.name for cell, _ in in_order(CELLS, (1, 2), seed)] for seed in (7, 7, 8)]
    assert names[0] == names[1] != names[2]
    assert names[0][:6] != names[0][6:]


def test_a_later_version_shuffles_as_this_one_so_that_a_campaign_goes_on_in_its_order() -> None:
    cells = [replace(cell, id=f"c-0000000{number}") for number, cell in enumerate(CELLS)]
    assert [cells.index(cell) for cell, _ in in_order(cells, (1,), 7)] == [5, 1, 0, 3, 2, 4]


def test_cells_that_are_not_selected_move_no_others() -> None:
    some = [cell for cell in CELLS if "zero_stage=1" not in cell.name]
    assert in_order(some, (1, 2), 7) == [
        run for run in in_order(CELLS, (1, 2), 7) if run[0] in some
    ]

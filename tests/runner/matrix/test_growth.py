"""A campaign that ran and today's matrix: what is kept, new and hidden, by what a cell runs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from runner.base.errors import UserError
from runner.folder.campaign import begun_with
from runner.matrix.growth import Growth, grown
from runner.terms.cell import MOST_REPEATS, Cell, Matrix
from runner.terms.settings import Settings
from tests.runner.builders import small_cluster, small_matrix

MATRIX = small_matrix({"zero_stage": [0, 1]}, repeats=2)


def settings(matrix: Matrix = MATRIX) -> Settings:
    return begun_with(matrix, small_cluster())


def grow(
    matrix: Matrix, was: Settings | None = None, ran: Mapping[str, int] | None = None
) -> Growth:
    """Grow a campaign, all of whose repeats ran."""
    was = was or settings()
    every = {cell.id: was.repeats for cell in (*was.cells, *was.hidden)}
    return grown(was, matrix, every if ran is None else ran)


def asked(growth: Growth) -> list[tuple[str, int]]:
    return [(cell.id, repeat) for cell, repeat in growth.settings.asked()]


def ids(matrix: Matrix) -> list[str]:
    return [cell.id for cell in matrix.cells]


def test_the_same_matrix_changes_nothing() -> None:
    was = settings()
    growth = grow(MATRIX, was)
    assert growth.settings == was
    assert growth.matrix == MATRIX


def test_another_value_of_an_axis_is_one_more_cell() -> None:
    growth = grow(small_matrix({"zero_stage": [0, 1, 3]}, repeats=2))
    assert ids(growth.matrix)[:2] == ids(MATRIX)
    assert len(asked(growth)) == 6
    assert growth.settings.hidden == ()


def test_a_cell_keeps_its_folder_under_another_name() -> None:
    """A second axis names what was a default, and the cells run what they ran."""
    growth = grow(small_matrix({"zero_stage": [0, 1], "micro_batch_size": [4, 8]}, repeats=2))
    default = MATRIX.cells[0].parameters["micro_batch_size"]
    assert default == 4
    names = [cell.name for cell in growth.matrix.cells]
    assert names[:2] == ["zero_stage=0,micro_batch_size=4", "zero_stage=0,micro_batch_size=8"]
    assert [ids(growth.matrix)[0], ids(growth.matrix)[2]] == ids(MATRIX)
    recorded = growth.settings.cells[0]
    assert (recorded.name, recorded.axes["micro_batch_size"]) == (names[0], 4)


def test_what_a_cell_runs_is_another_cell_and_the_old_one_is_hidden() -> None:
    growth = grow(small_matrix({"zero_stage": [0, 1]}, {"lr": 0.5}, repeats=2))
    assert not set(ids(growth.matrix)) & set(ids(MATRIX))
    assert [cell.id for cell in growth.settings.hidden] == ids(MATRIX)


def test_what_was_taken_out_comes_back_when_it_is_named_again() -> None:
    fewer = grow(small_matrix({"zero_stage": [1, 2]}, repeats=2))
    assert [cell.name for cell in fewer.settings.hidden] == ["zero_stage=0"]
    again = grow(MATRIX, fewer.settings, ran=dict.fromkeys(ids(MATRIX), 2))
    assert ids(again.matrix) == ids(MATRIX)
    assert again.settings.hidden == ()  # zero_stage=2 never ran: nothing of it is to be kept


@pytest.mark.parametrize(
    ("more", "repeats"), [({"repeats": 3}, [1, 2, 3]), ({"repeats": 1}, [1]), ({}, [1])]
)
def test_repeats_are_added_and_left_out(more: dict[str, Any], repeats: list[int]) -> None:
    growth = grow(small_matrix({"zero_stage": [0, 1]}, **more))
    assert growth.matrix.numbers == repeats
    assert asked(growth) == [(cell, repeat) for cell in ids(MATRIX) for repeat in repeats]
    back = grow(MATRIX, growth.settings, ran=dict.fromkeys(ids(MATRIX), 2))
    assert (back.matrix.numbers, back.settings.left_out) == ([1, 2], ())


def test_a_seed_keeps_the_repeat_that_ran_with_it() -> None:
    was = settings(small_matrix({"zero_stage": [0, 1]}, seeds=[5, 6, 7]))
    growth = grow(small_matrix({"zero_stage": [0, 1]}, seeds=[7, 9, 5]), was)
    assert growth.settings.seeds == (5, 6, 7, 9)
    assert growth.settings.left_out == (2,)
    assert growth.matrix.numbers == [1, 3, 4]
    seeds = [cell.parameters["seed"] for cell, _ in growth.settings.asked()]
    assert seeds == [5, 7, 9] * 2
    assert growth.matrix.cells == was.cells or ids(growth.matrix) == [c.id for c in was.cells]


def test_seeds_in_place_of_repeats_are_other_runs_and_those_come_back() -> None:
    growth = grow(small_matrix({"zero_stage": [0, 1]}, seeds=[5, 6]))
    assert growth.settings.seeds == (None, None, 5, 6)
    assert growth.matrix.numbers == [3, 4]
    three = grow(small_matrix({"zero_stage": [0, 1]}, repeats=3), growth.settings)
    assert three.settings.seeds == (None, None, 5, 6, None)
    assert three.matrix.numbers == [1, 2, 5]


def test_repeats_of_which_none_ran_leave_nothing() -> None:
    was = settings()
    many = grow(replace(MATRIX, repeats=MOST_REPEATS), was)
    assert grow(MATRIX, many.settings, ran=dict.fromkeys(ids(MATRIX), 2)).settings == was
    with pytest.raises(UserError, match=r"would have more than 1000 repeats .* another `name:`"):
        grow(replace(MATRIX, seeds=(3,), repeats=1), many.settings)


@pytest.mark.parametrize(
    "changes",
    [
        {"baseline": "zero_stage=0"},
        {"warmup_iters": 3},
        {"shuffle_seed": 7},
        {"target_loss": 3.0},
        {"layout": {"shape": "osdi"}},
        {"published": ({"source": "a"},)},
    ],
)
def test_how_runs_are_ordered_counted_and_shown_changes_none(changes: dict[str, Any]) -> None:
    growth = grow(replace(MATRIX, **changes))
    assert asked(growth) == [(cell, repeat) for cell in ids(MATRIX) for repeat in (1, 2)]
    name, value = next(iter(changes.items()))
    assert getattr(growth.settings, {"layout": "table"}.get(name, name)) == value


def test_a_cell_of_an_older_version_is_the_one_that_it_is_read_as() -> None:
    """A key that this version has and that one had not, where it did then what is asked for now."""
    old = [without(cell, "attention_backend") for cell in megatron("unfused").cells]
    was = replace(settings(megatron("unfused")), cells=tuple(old))
    assert old[0].digest != megatron("unfused").cells[0].digest
    assert ids(grow(megatron("unfused"), was).matrix) == [cell.id for cell in old]
    assert grow(megatron("sdpa"), was).settings.hidden == tuple(old)


def megatron(attention: str) -> Matrix:
    keys = {"system": "megatron_core", "attention_backend": attention}
    return small_matrix(None, keys)


def without(cell: Cell, key: str) -> Any:
    parameters = {name: value for name, value in cell.parameters.items() if name != key}
    recorded = replace(settings().cells[0], **{**vars(cell), "parameters": parameters, "id": ""})
    return recorded

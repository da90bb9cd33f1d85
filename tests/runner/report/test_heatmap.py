"""Heatmaps: every number as it is, by two axes, and readable on its colour."""

import re
from dataclasses import replace
from typing import Any

import pytest

from runner.base.paths import TEMPLATES
from runner.report.heatmap import DEEPEST, heatmaps, share
from runner.tables.build import rows
from runner.terms.record import Record
from tests.runner.documents import render
from tests.runner.report.test_report import EVIL, Page, failed, record


def cells(nodes: tuple[int, ...] = (1, 2), zero: tuple[int, ...] = (0, 1, 3)) -> list[Record]:
    return [record(f"{n}-{z}", nodes=n, zero=z) for n in nodes for z in zero]


def texts(grid: dict[str, Any]) -> list[list[str]]:
    return [[" / ".join(c["text"] for c in one) for one in row["cells"]] for row in grid["rows"]]


def test_the_two_axes_with_the_most_values_and_each_number_as_the_table_has_it() -> None:
    table = rows(cells(), None)
    (pair,) = heatmaps(table)
    assert (pair["down"], pair["across"]) == ("zero_stage", "nodes")
    (grid,) = pair["grids"]
    assert grid["columns"] == ["1", "2"]
    assert [row["value"] for row in grid["rows"]] == ["0", "1", "3"]
    assert texts(grid)[0] == ["231.0", "461.0"]
    heats = [cell["heat"] for row in grid["rows"] for one in row["cells"] for cell in one]
    assert (min(heats), max(heats)) == (0, DEEPEST)


def test_each_setting_of_the_other_axes_has_a_table_of_its_own() -> None:
    lots = [
        replace(one, cell=f"{one.cell}-{lr}", axes={**one.axes, "lr": lr})
        for one in cells()
        for lr in (0.1, 0.01)
    ]
    pairs = heatmaps(rows(lots, None))
    assert [(pair["down"], pair["across"]) for pair in pairs] == [
        ("zero_stage", "nodes"),
        ("zero_stage", "lr"),
        ("nodes", "lr"),
    ]
    assert [grid["title"] for grid in pairs[0]["grids"]] == ["lr 0.1", "lr 0.01"]
    assert pairs[1]["grids"][0]["columns"] == ["0.01", "0.1"]  # numbers by size
    for pair in pairs:  # every cell once
        assert sum(len(one) for g in pair["grids"] for r in g["rows"] for one in r["cells"]) == 12


def test_a_cell_without_a_result_says_how_it_ended_and_one_that_is_not_there_has_a_dash() -> None:
    *most, last = cells()
    page = render([failed(most[0]), *most[1:]], "html")
    heat = page[page.index('id="heatmap"') : page.index('id="plots"')]
    assert "did_<wbr>not_<wbr>run" in heat
    assert ">–</td>" in heat
    assert heat.count('class="hot"') == 4
    assert last.cell not in heat


def test_two_cells_of_the_same_axes_both_stand_there() -> None:
    twice = [*cells(), replace(cells()[0], cell="again", cell_id="again")]
    (pair,) = heatmaps(rows(twice, None))
    assert texts(pair["grids"][0])[0][0] == "231.0 / 231.0"


def test_cells_that_lack_an_axis_are_counted_and_several_campaigns_are_told_apart() -> None:
    extra = replace(record("x", zero=2), axes={"nodes": 1}, parameters={})
    (pair, *_) = heatmaps(rows([*cells(), extra], None))
    assert pair["left_out"] == 1
    both = [*cells(), *(replace(one, campaign="other") for one in cells())]
    titles = [grid["title"] for grid in heatmaps(rows(both, None))[0]["grids"]]
    assert titles == ["campaign zero", "campaign other"]


@pytest.mark.parametrize(
    "table",
    [
        [],
        cells((1,)),
        [failed(one) for one in cells()],
        [record("a"), record("b", nodes=2, zero=1)],
    ],
    ids=["empty", "one axis", "no number", "no table of two by two"],
)
def test_without_two_axes_or_a_number_there_is_none(table: list[Record]) -> None:
    assert heatmaps(rows(table, None)) == []


def test_names_of_axes_are_text() -> None:
    bad = [replace(c, axes={**c.axes, EVIL: f"{EVIL}{k % 2}"}) for k, c in enumerate(cells())]
    page = render(bad, "html")
    assert Page(page).open == []
    assert EVIL not in page


def test_colour_goes_by_the_logarithm() -> None:
    assert [share(rate, (1, 100)) for rate in (1, 10, 100)] == [0, 0.5, 1]
    assert share(5, (5, 5)) == 1
    assert share(1e300, (1e-308, 1e300)) == 1  # of which the quotient is no float
    assert 0 <= share(1.0, (1e-320, 1e308)) <= 1


def _luminance(colour: tuple[float, ...]) -> float:
    parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


@pytest.mark.parametrize("dark", [False, True])
def test_a_number_can_be_read_on_the_deepest_colour(dark: bool) -> None:
    style = (TEMPLATES / "page" / "style.css").read_text()
    light, night = style.split("prefers-color-scheme: dark", 1)
    found = dict(re.findall(r"--([\w]+): #([0-9a-f]{6});", (night if dark else light)[:1500]))
    rgb = {n: tuple(int(h[i : i + 2], 16) / 255 for i in (0, 2, 4)) for n, h in found.items()}
    for percent in range(DEEPEST + 1):
        part = percent / 100
        mixed = tuple(
            part * a + (1 - part) * b for a, b in zip(rgb["c0"], rgb["page"], strict=True)
        )
        low, high = sorted((_luminance(mixed), _luminance(rgb["text"])))
        assert (high + 0.05) / (low + 0.05) >= 4.5

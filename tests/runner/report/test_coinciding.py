"""Curves that one line would hide: found, named, and drawn by turns."""

from dataclasses import replace

from runner.report.coinciding import coinciding, taking_turns
from runner.terms.record import Interval, Measurement, Record
from tests.runner.documents import render
from tests.runner.report.test_report import record

FALLS = [(1.0, 9.0), (2.0, 5.0), (3.0, 4.0)]


def lifted(by: float) -> list[tuple[float, float]]:
    return [(x, y + by) for x, y in FALLS]


def test_equal_and_nearly_equal_curves_are_named_apart() -> None:
    curves = [FALLS, lifted(0.02), lifted(1), list(FALLS), lifted(0.02), FALLS[:2]]
    (found,) = coinciding(curves, 5.0)
    assert found.sentence("abcdef") == "a = d ≈ b = e"
    assert coinciding([FALLS, lifted(1)], 5.0) == []
    assert coinciding([], 1.0) == []


def test_each_of_them_is_drawn_where_the_others_have_their_gaps() -> None:
    for of in (2, 3, 7):
        turns = taking_turns(of)
        for at in range(of * 10):  # half a dash each, along the path
            place = at * 2.5 + 0.1
            inside = [(place + offset) % (on + off) < on for offset, (on, off) in turns]
            assert sum(inside) == 1
            assert inside[int(place // 5) % of]


def learns(name: str, stage: int, offset: float = 0.0, steps: int = 20) -> Record:
    lines = (Interval(n, 1, 100.0 + stage, None, 9 - n / 10 + offset) for n in range(1, steps + 1))
    return replace(record(name, zero=stage), measurement=Measurement(tuple(lines)))


def test_the_page_says_which_cells_have_one_loss_curve() -> None:
    cells = [learns("a", 0), learns("b", 1), learns("c", 2, 0.5), learns("d", 3, steps=7)]
    page = render(cells, "html")
    assert page.count("Curves that coincide:") == 1
    words = "Curves that coincide: zero_stage 0 = zero_stage 1</p>"
    assert words in page.replace("<wbr>", "")
    assert "drawn as alternating dashes" in page
    assert "alternating dashes" not in render(cells[1:3], "html")
    assert page.index("<title>c</title>") < page.index("<title>d</title>")  # the short one on top

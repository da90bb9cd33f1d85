"""The roofline: achieved rates under what the device can do, and why a cell is not on it."""

from dataclasses import replace
from typing import Any

import pytest

from runner.report.formats import render
from runner.report.roofs import roofline
from runner.tables.build import rows
from runner.terms.record import Reached, Record
from tests.runner.report.test_report import EVIL, Page, failed, record


def on_h200(name: str = "a", **more: Any) -> Record:
    known = {"device": "NVIDIA H200", "arithmetic": "bf16", "device_kind": "cuda"}
    parallel = {"parallel": {"data_parallel": 8}, "reached": Reached(741.0, "")}
    return record(name, **{**known, **parallel, **more})


def test_a_point_a_cell_under_the_data_sheet_and_what_doctor_reached() -> None:
    found = roofline(rows([on_h200("a"), on_h200("b", zero=1)], None))
    assert found is not None
    svg = str(found["svg"])
    assert "data sheet 989.5" in svg
    assert "doctor's product 741.0" in svg
    assert svg.count(" FLOP a byte</title>") == 2
    assert "TFLOP/s, " in svg
    assert found["bars"] == []
    assert [entry["label"] for entry in found["legend"]] == ["zero_stage 0", "zero_stage 1"]


def test_a_cell_without_a_peak_is_not_drawn_and_the_page_says_why() -> None:
    page = render([on_h200(), on_h200("b", device="a toaster"), failed(record("c"))], "html")
    words = page[page.index("<h3>Roofline") :]
    assert (
        "Not drawn: no data sheet&#39;s peak is known for the device &#39;a toaster&#39;" in words
    )
    assert roofline(rows([record(), failed(record("b"))], None)) is None
    assert "Roofline" not in render([record()], "html")


def test_without_its_flops_a_byte_a_cell_is_a_bar_against_the_peak() -> None:
    recomputes = on_h200("again", activation_checkpointing=True)
    found = roofline(rows([recomputes, on_h200("fp", device="NVIDIA B200")], None))
    assert found is not None
    assert found["svg"] == ""
    again, other = found["bars"]
    assert float(again["product"]) == pytest.approx(741 / 989.5 * 100, abs=0.01)
    assert "computed again" in again["title"]
    assert "the rate of its memory is not known" in other["title"]
    page = render([recomputes], "html")
    assert "Rates against the data sheet" in page
    assert "model TFLOP/s of a device over FLOPs" not in page.lower()


def test_products_much_alike_have_one_line() -> None:
    one, other = (on_h200(n, reached=Reached(rate, "")) for n, rate in (("a", 700.0), ("b", 720.0)))
    found = roofline(rows([one, replace(other, axes={"zero_stage": 1})], None))
    assert found is not None
    assert "doctor's product 700.0 to 720.0" in found["svg"]


def test_names_on_it_are_text() -> None:
    page = render([on_h200(EVIL), on_h200(EVIL * 2, activation_checkpointing=True)], "html")
    assert Page(page).open == []
    assert "<script>alert" not in page

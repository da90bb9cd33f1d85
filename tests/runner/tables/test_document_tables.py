"""Tables in the documents' shapes, published figures, and the documents' own figures again."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.base.errors import UserError
from runner.matrix.dialect import read_yaml
from runner.matrix.file import load_matrix
from runner.matrix.published import Printed, PublishedRow, check_published, published_rows
from runner.matrix.table_shape import shape_of
from runner.tables.shapes import entries, render_shape, sheets
from runner.tables.sheet import Line
from runner.terms.record import Interval, Measurement, Record, Utilisation
from tests.budget import examples
from tests.documented_schemas import fits
from tests.runner.builders import one_device, small_matrix
from tests.runner.documents import render, rows
from tests.runner.tables.test_tables import OSDI, any_records, cell

ROOT = Path(__file__).resolve().parents[3]
TEXT_FORMATS = ("table", "markdown", "csv", "json")


def document(name: str) -> list[PublishedRow]:
    (path,) = (ROOT / "matrices").glob(f"*/published/{name}.yaml")
    return published_rows(check_published(read_yaml(path.read_text(encoding="utf-8"), name), name))


# --- document 003, as it stands in the document ---------------------------------------------------

# test_num, memory in MB, utilisation, throughput, printed memory and throughput differences.
DOCUMENT_003 = """
test-10-1 | 5603 | 73 | 104
test-10-2 | 3849(-1754,↓31.3%) | 43 | 89(↓14.4%)
test-10-3 | 11301 | 95 | 239
test-10-4 | 9547(-1754,↓15.5%) | 88 | 235(↓1.7%)
test-14-1 | 11087 | 96 | 412
test-14-2 | 9160(-1927,11.4↓%) | 92 | 395(4.1↓%)
test-19-1 | 11089 | 95 | 717
test-19-2 | 9082(-2727,↓23.1%) | 92 | 742(↑3.4%)
"""
# What the document's own figures give where it printed something else.
PUT_RIGHT = {
    ("test-14-2", "memory_used_mib", "percent"): (-11.4, -17.4),
    ("test-19-2", "memory_used_mib", "difference"): (-2727, -2007),
    ("test-19-2", "memory_used_mib", "percent"): (-23.1, -18.1),
    ("test-19-2", "samples_per_s", "percent"): (3.4, 3.5),
}


def printed(text: str) -> tuple[float, dict[str, float]]:
    """`9160(-1927,11.4↓%)` -> 9160, {"difference": -1927, "percent": -11.4}."""
    value, _, rest = text.partition("(")
    found: dict[str, float] = {}
    if difference := re.match(r"[-+]\d+", rest):
        found["difference"] = float(difference[0])
    if percent := re.search(r"(↓|↑)?(\d+\.\d)(↓|↑)?%", rest):
        found["percent"] = float(percent[2]) * (-1 if "↓" in percent[0] else 1)
    return float(value), found


def of_document_003() -> dict[str, Line]:
    found = sheets([], document("osdi"), shape_of({}, "osdi"))
    assert [sheet.title for sheet in found] == [
        "1 node x 8 devices",
        "2 nodes x 8 devices",
        "4 nodes x 8 devices",
    ]
    return {str(line.cells["test_num"].value): line for sheet in found for line in sheet.lines}


def test_document_003_is_rebuilt_and_differs_exactly_where_it_is_wrong() -> None:
    lines, differ = of_document_003(), {}
    table = [row.split(" | ") for row in DOCUMENT_003.strip().splitlines()]
    assert list(lines) == [row[0] for row in table]
    for name, memory, busy, rate in table:
        cells = lines[name].cells
        assert cells["utilisation_percent"].value == float(busy)
        for key, text in (("memory_used_mib", memory), ("samples_per_s", rate)):
            value, said = printed(text)
            assert cells[key].value == value
            ours = cells[key].difference
            assert bool(ours) == bool(said)
            for part, number in said.items():
                assert ours is not None
                computed = ours["absolute"] if part == "difference" else round(ours["percent"], 1)
                if computed != number:
                    differ[name, key, part] = (number, computed)
    assert differ == PUT_RIGHT


def test_what_the_document_printed_is_kept_and_its_deviation_noted() -> None:
    lines = of_document_003()
    kept = lines["test-19-2"].cells["memory_used_mib"]
    assert kept.printed == Printed(-2727, -23.1)
    assert kept.text == "9082(-2007,↓18.1%)¶"
    text = render([], layout=shape_of({}, "osdi"), published=document("osdi"))
    for number, right in PUT_RIGHT.values():
        assert f"{number:+g}" in text
        assert f"(its figures give {right:+g}" in text
    assert text.count("the document prints") == len(PUT_RIGHT)
    assert all("¶" not in lines[name].cells[key].text
               for name in lines for key in ("memory_used_mib", "samples_per_s")
               if not any((name, key) == wrong[:2] for wrong in PUT_RIGHT))  # fmt: skip


# --- document 004 ---------------------------------------------------------------------------------

DOCUMENT_004 = """
8p-竞品V | 345M | 26.375 | 37.8 | 1024 | 500000
8p-NPU | 345M | 26.485 | 59.7 | 1024 | 500000
8p-竞品V | 1.3B | – | 15.71 | 1024 | –
8p-NPU | 1.3B | – | 21.47 | 1024 | –
8p-竞品V | 2.7B | – | 4.125 | 2048 | –
8p-NPU | 2.7B | – | 5.28 | 2048 | –
8p-竞品V | 3.7B | – | 3.12 | 2048 | –
8p-NPU | 3.7B | – | 4.558 | 2048 | –
8p-竞品A | 345M | 28.67 | 235 | 1024 | 100000
8p-NPU | 345M | 28.71 | 227 | 1024 | 100000
"""


def test_document_004_is_rebuilt() -> None:
    found = sheets([], document("ascend"), shape_of({}, "ascend"))
    assert [len(sheet.lines) for sheet in found] == [8, 2]
    keys = ("name", "params", "perplexity", "samples_per_s", "seq_len", "steps")
    ours = [
        " | ".join(line.cells[key].text.replace(",", "") for key in keys)
        for sheet in found
        for line in sheet.lines
    ]
    assert ours == DOCUMENT_004.strip().splitlines()


def test_our_rows_stand_behind_the_documents_of_their_cell() -> None:
    run = replace(cell("345M", 60.0, axes={"model": "345M"}), parameters={"train_iters": 12})
    table = rows([run, cell("extra", axes={"model": "9B"})])
    wanted = shape_of({"shape": "ascend", "labels": {"name": "8p-ours", "params": "{model}"}})
    lines = [line for s in sheets(table, document("ascend"), wanted) for line in s.lines]
    names = [(line.cells["name"].text, line.cells["params"].text, line.status) for line in lines]
    assert names[2] == ("8p-ours", "345M", "ok")
    assert ("8p-ours", "9B", "did_not_run") in names
    assert len(names) == 12
    assert lines[2].cells["steps"].value == 12
    assert lines[2].cells["steps_measured"].value == 10


SIZES = ("345M", "1.3B", "2.7B", "3.7B", "345M_without_mp")


@pytest.mark.parametrize(
    ("name", "rates"),
    [("ascend", (59.7, 21.47, 5.28, 4.558, 227)), ("ascend-cuda", (37.8, 15.71, 4.125, 3.12, 235))],
)
def test_on_npus_ours_stand_beside_the_npus_rows_and_on_gpus_beside_the_competitors(
    name: str, rates: tuple[float, ...]
) -> None:
    found = load_matrix(ROOT / "matrices" / "documents" / f"{name}.yaml", one_device)
    runs = [cell(one.name, 60.0, axes=one.axes) for one in found.cells]
    printed = published_rows(found.published)
    table = rows(runs, published=printed)
    beside = {
        row["axes"]["model"]: [
            document["figures"]["samples_per_s"] for document in row["published"]
        ]
        for row in table
    }
    assert beside == {size: [rate] for size, rate in zip(SIZES, rates, strict=True)}
    lines = entries(table, printed, {})
    before = [lines[place - 1].figure("samples_per_s") for place, e in enumerate(lines) if e.row]
    assert before == list(rates)  # in the document's shape, right behind it


def test_the_competitors_rows_are_the_documents_too() -> None:
    def plain(name: str) -> list[tuple[Any, ...]]:
        return [(row.source, row.labels, row.figures) for row in document(name)]

    assert plain("ascend-cuda") == plain("ascend")
    for one, other in zip(document("ascend"), document("ascend-cuda"), strict=True):
        assert (one.cell is None) != (other.cell is None)


def test_ours_keep_their_order_and_competitors_their_place() -> None:
    names = ("3.7B", "345M", "extra")
    table = rows([cell(name, 60.0, axes={"model": name}) for name in names])
    found = [(e.name, e.row is not None) for e in entries(table, document("ascend"), {})]
    ours_ = [name for name, mine in found if mine]
    assert ours_ == list(names)
    at = [place for place, (name, mine) in enumerate(found) if mine]
    assert [found[place - 1][0] for place in at[:2]] == ["8p-NPU", "8p-NPU"]
    assert [found[place - 2][0] for place in at[:2]] == ["8p-竞品V", "8p-竞品V"]
    assert len(found) == 13


# --- our cells in the shapes ----------------------------------------------------------------------

BESIDE = [
    {
        "source": "the document",
        "baseline": {"optimization": "off"},
        "rows": [
            {"cell": {"optimization": "off", "batch": 4}, "samples_per_s": 200.0},
            {
                "cell": {"optimization": "on", "batch": 4},
                "labels": {"test_num": "doc-4"},
                "samples_per_s": 220.0,
                "printed": {"samples_per_s": {"percent": 10.0}},
            },
        ],
    }
]


def ours() -> list[Record]:
    failed = cell("10-5", axes={"optimization": "on", "batch": 8}, per_device=8)
    busy = Utilisation(93.0, "samples")
    with_busy = replace(OSDI[3], measurement=replace(OSDI[3].measurement, utilisation=busy))
    return [OSDI[2], with_busy, failed]


def test_a_sheet_says_that_our_figures_are_means() -> None:
    text = render(ours(), layout=shape_of({}, "osdi"))
    assert "Ours: work over the time of the counted steps;" in text


def test_osdi_shape_of_our_own_cells() -> None:
    content = {
        "shape": "osdi",
        "labels": {"test_desc": "{optimization}_opt", "test_num": "t{number}"},
    }
    text = render(
        ours(),
        baseline="optimization=off",
        layout=shape_of(content),
        published=published_rows(BESIDE),
    )
    lines = text.splitlines()
    assert lines[0] == "1 node x 8 devices"
    assert all(unit in lines[2] for unit in ("(MiB)", "(%)", "(samples/s)", "steps measured"))
    (row,) = [line for line in lines if "t2 " in line]
    assert "9547(-1754,↓15.5%)" in row
    assert "235.0(-4.0,↓1.7%)" in row
    assert row.split()[-1] == "ok"
    assert "1n_8g_dp_4bs" in row
    assert " 93 " in row
    assert "220(+20,↑10.0%)" in text
    (failed,) = [line for line in lines if "t3 " in line]
    assert failed.split()[-1] == "did_not_run"
    assert "10-5: did_not_run: no training step was logged" in text
    assert "published: the document" in text


def test_flat_table_shows_what_was_published_beside_ours() -> None:
    found = published_rows(BESIDE)
    text = render(ours(), width=300, wide=True, published=found)
    assert "220 (+6.8%)" in text
    assert "published: the document; in brackets how much more ours is." in text
    row = json.loads(render(ours(), "json", published=found))["rows"][1]
    assert row["published"][0]["figures"]["samples_per_s"] == 220
    assert [each["source"] for each in row["published"]] == ["the document"]
    assert "published" not in render(ours(), "csv")


def test_frameworks_shape_sets_systems_side_by_side() -> None:
    records = [
        cell("m-4", 100.0, 5000.0, axes={"tp": 4}, system="megatron_deepspeed"),
        cell("l-4", 120.0, 4500.0, axes={"tp": 4}, system="libai"),
        cell("m-8", 90.0, 4000.0, axes={"tp": 8}, system="megatron_deepspeed"),
        cell("l-8", axes={"tp": 8}, system="libai"),
    ]
    text = render(
        records,
        "csv",
        baseline="system=megatron_deepspeed",
        layout=shape_of({}, "frameworks"),
    )
    first, second = csv.DictReader(io.StringIO(text))
    assert (first["tp"], first["libai:samples_per_s"]) == ("4", "120.0")
    assert first["libai:samples_per_s_difference_percent"] == "20.0"
    assert first["libai:memory_used_mib_difference"] == "-500.0"
    assert first["megatron_deepspeed:steps_measured"] == "10"
    assert (second["libai:samples_per_s"], second["libai:status"]) == ("", "did_not_run")
    shown = render(records, baseline="system=megatron_deepspeed", layout=shape_of({}, "frameworks"))
    assert "libai samples/s" in shown
    assert "120.0 (+20.0 %)" in shown


def test_pivot_has_the_rows_columns_and_values_it_is_told() -> None:
    content = {
        "shape": "pivot",
        "rows": ["optimization"],
        "columns": ["batch"],
        "values": ["step_time_ms"],
    }
    records = [*OSDI, ours()[2]]
    (sheet,) = sheets(rows(records), [], shape_of(content))
    keys = [head.key for head in sheet.heads]
    assert keys[:4] == ["optimization", "1:step_time_ms", "1:steps_measured", "1:status"]
    assert [line.cells["optimization"].text for line in sheet.lines] == ["off", "on"]
    assert sheet.lines[0].cells["8:status"].text == "–"
    assert sheet.lines[1].cells["8:status"].text == "did_not_run"
    assert (
        len(
            sheets(
                rows(records),
                [],
                shape_of(
                    {**content, "rows": ["optimization"], "split": ["batch"], "columns": ["system"]}
                ),
            )
        )
        == 3
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"rows": ["optimisation"]}, "(did you mean 'optimization'?)"),
        ({"values": ["sample_per_s"]}, "did you mean 'samples_per_s'"),
        ({"rows": ["system"]}, "are in the same place; name in `rows` or `columns`"),
    ],
)
def test_a_pivot_that_cannot_be_says_why(content: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as caught:
        render(OSDI, layout=shape_of({"shape": "pivot", **content}))
    assert words in str(caught.value)


def test_doubts_stand_in_the_shapes_too() -> None:
    slower = tuple(Interval(n, 1, None, 100.0 - n) for n in range(1, 40))
    records = [replace(OSDI[0], measurement=Measurement(slower), warmup_iters=None)]
    for shape in ("osdi", "ascend", "pivot"):
        text = render(records, layout=shape_of({}, shape))
        assert "§ drift: step time +" in text
        assert "Warm-up found in the step times" in text


@pytest.mark.parametrize("shape", ["osdi", "ascend", "frameworks", "pivot"])
@pytest.mark.parametrize("format", TEXT_FORMATS)
def test_shapes_of_nothing_are_no_error(shape: str, format: str) -> None:
    assert render([], format, layout=shape_of({}, shape)).endswith("\n")


# --- formats by their schemas ---------------------------------------------------------------------


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(any_records, max_size=4), st.booleans())
def test_formats_show_any_records_and_json_keeps_its_schema(
    records: list[Record], compared: bool
) -> None:
    # Of records of one cell that name several systems the row has one.
    baseline = f"system={rows(records)[0]['system']}" if records and compared else None
    found = published_rows(BESIDE)
    texts = {name: render(records, name, baseline, published=found) for name in TEXT_FORMATS}
    assert all(text.endswith("\n") for text in texts.values())
    fits(json.loads(texts["json"]), "table")


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(any_records, max_size=4), st.sampled_from(["osdi", "ascend"]))
def test_sheets_keep_their_schema_whatever_the_records(records: list[Record], shape: str) -> None:
    found = [*published_rows(BESIDE), *document(shape)]
    for format in TEXT_FORMATS:
        text = render(records, format, layout=shape_of({}, shape), published=found)
        if format == "json":
            fits(json.loads(text), "sheets")


def test_every_format_has_each_line_once() -> None:
    layout, found = shape_of({}, "osdi"), document("osdi")
    table = rows(OSDI, "optimization=off")
    lines = list(csv.DictReader(io.StringIO(render_shape(table, found, layout, "csv"))))
    assert [line["from"] for line in lines].count("ours") == 4
    assert next(n for n in lines if n["cell"] == "10-4")["samples_per_s_difference"] == "-4.0"
    assert {line["memory_used_mib_printed_difference"] for line in lines} == {
        *("", "-1754", "-1927", "-2727")
    }
    markdown = render_shape(table, found, layout, "markdown")
    assert markdown.count("| test-") == 8
    assert "**2 nodes x 8 devices**" in markdown


# --- the matrix -----------------------------------------------------------------------------------

ROWS = [{"cell": {"zero_stage": 1}, "samples_per_s": 3}]


def test_a_matrix_carries_its_documents_and_layout() -> None:
    found = small_matrix(
        {"zero_stage": [0, 1]},
        published=[{"source": "paper", "rows": ROWS}],
        table={"shape": "pivot", "rows": ["zero_stage"]},
    )
    (row,) = published_rows(found.published)
    assert (row.source, row.figures, row.cell) == (
        "paper",
        {"samples_per_s": 3.0},
        {"zero_stage": 1},
    )
    assert shape_of(found.layout).rows == ("zero_stage",)
    assert shape_of(found.layout, "osdi").rows is None
    assert small_matrix({"zero_stage": [0, 1]}).cells[0].digest == found.cells[0].digest


def test_a_matrix_names_a_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "paper.yaml").write_text("- source: paper\n  rows: [{samples_per_s: 3}]\n")
    (tmp_path / "m.yaml").write_text("defaults: {system: torch_gpt}\npublished: paper.yaml\n")
    assert (
        published_rows(load_matrix(tmp_path / "m.yaml", one_device).published)[0].source == "paper"
    )
    (tmp_path / "m.yaml").write_text("defaults: {system: torch_gpt}\npublished: gone.yaml\n")
    with pytest.raises(UserError, match=r"gone\.yaml cannot be read"):
        load_matrix(tmp_path / "m.yaml", one_device)


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        ({}, "must be a list of documents"),
        ([{"rows": ROWS}], "published 1 has no source"),
        ([{"source": "p"}], "has no rows"),
        ([{"source": "p", "row": ROWS}], "unknown key 'row' (did you mean 'rows'?)"),
        ([{"source": "p", "rows": [{"cell": {}}]}], "row 1 has no figure"),
        ([{"source": "p", "rows": [{"samples_per_s": 0}]}], "a number above zero"),
        ([{"source": "p", "rows": [{"samples_per_s": True}]}], "a number above zero"),
        ([{"source": "p", "rows": [{"sample_per_s": 1}]}], "did you mean 'samples_per_s'"),
        (
            [{"source": "p", "rows": [{"samples_per_s": 1, "cell": {"zero_stag": 1}}]}],
            "no cell has the key 'zero_stag' (did you mean 'zero_stage'?)",
        ),
        (
            [{"source": "p", "rows": [{"samples_per_s": 1, "cell": {"zero_stage": 4}}]}],
            "no cell has zero_stage: 4",
        ),
        (
            [{"source": "p", "rows": [{"samples_per_s": 1, "printed": {"steps": {}}}]}],
            "the row has no figure 'steps'",
        ),
    ],
)
def test_wrong_documents_are_refused_by_row_and_key(documents: Any, words: str) -> None:
    with pytest.raises(UserError) as caught:
        small_matrix({"zero_stage": [0, 1]}, published=documents)
    assert words in str(caught.value)
    assert str(caught.value).startswith("m.yaml: published")


def test_a_row_may_stand_for_a_cell_that_nobody_here_runs() -> None:
    row = {"samples_per_s": 1, "cell": {"zero_stage": 4}, "ours": False}
    assert small_matrix({"zero_stage": [0]}, published=[{"source": "p", "rows": [row]}])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([], "table must be a mapping"),
        ({"shape": "osdy"}, "table: shape is 'osdy' (did you mean 'osdi'?)"),
        ({"shap": "osdi"}, "unknown key 'shap' (did you mean 'shape'?)"),
        ({"shape": "pivot", "rows": "a"}, "write a list such as [nodes]"),
        ({"shape": "osdi", "rows": ["a"]}, "shape osdi has no rows; frameworks, pivot have"),
        ({"shape": "osdi", "labels": {"test_no": "x"}}, "did you mean 'test_num'"),
    ],
)
def test_wrong_layouts_are_refused(table: Any, words: str) -> None:
    with pytest.raises(UserError) as caught:
        small_matrix({"zero_stage": [0, 1]}, table=table)
    assert words in str(caught.value)


def test_the_documents_shipped_are_valid() -> None:
    for path in (ROOT / "matrices").glob("*/published/*.yaml"):
        assert document(path.stem)

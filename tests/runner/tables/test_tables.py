"""Rows, baseline, scaling and the four text formats."""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st

from runner.base.errors import UserError
from runner.figures.between_runs import ONE_RUN, RateDifference
from runner.figures.flops import Decoder
from runner.report.formats import FORMATS
from runner.report.plots import plots
from runner.tables.baseline import difference
from runner.tables.build import measured
from runner.tables.campaign_table import MORE, to_csv, to_markdown, to_table
from runner.tables.formatting import change_text, difference_text, number_text, value_text
from runner.tables.notes import notes
from runner.tables.row import RowDifference, RowRun, finished
from runner.terms.record import STATUSES, Interval, Measurement, Record
from tests.runner.documents import render, rows

SHAPE = Decoder(12, 768, 12, 1024, 50257)


def cell(
    name: str,
    rate: float | None = None,
    memory: float | None = None,
    *,
    axes: Mapping[str, Any] | None = None,
    nodes: int = 1,
    per_device: int = 4,
    batch: int | None = None,
    **more: Any,
) -> Record:
    """A cell of one run that trained iterations 3 to 12 at `rate` samples/s on 8-device nodes."""
    intervals = [Interval(n, 1, None, 1.0) for n in (1, 2) if rate]
    intervals += [Interval(n, 1, None, rate, loss=14.0 - n) for n in range(3, 13) if rate]
    devices = nodes * 8
    given_ = {
        "campaign": "osdi",
        "cell": name,
        "cell_id": name,
        "system": "oneflow_gpt",
        "status": "ok" if rate else "did_not_run",
        "reason": "" if rate else "no training step was logged",
        "axes": axes or {},
        "nodes": nodes,
        "devices_per_node": 8,
        "parallel": {"data_parallel": devices, "tensor_parallel": 1, "pipeline_parallel": 1},
        "micro_batch_size": per_device,
        "global_batch_size": batch or per_device * devices,
        "warmup_iters": 2,
        "model": SHAPE,
        "measurement": Measurement(tuple(intervals), memory_used_mib=memory),
        "log": f"{name}/launcher.log",
    }
    return Record(**(given_ | more))


# Document 003's own figures, one node: its differences and percentages are what we must print.
OSDI = [
    cell("10-1", 104, 5603, axes={"optimization": "off", "batch": 1}, per_device=1),
    cell("10-2", 89, 3849, axes={"optimization": "on", "batch": 1}, per_device=1),
    cell("10-3", 239, 11301, axes={"optimization": "off", "batch": 4}),
    cell("10-4", 235, 9547, axes={"optimization": "on", "batch": 4}),
]


def text_of(difference: RowDifference, places: int) -> str:
    return difference_text(difference["absolute"], difference["percent"], places)


def by_name(records: list[Record], baseline: str | None = None) -> dict[str, Any]:
    return {row["cell"]: row for row in rows(records, baseline)}


# --- baseline -------------------------------------------------------------------------------------


def test_baseline_repeats_document_003() -> None:
    table = by_name(OSDI, "optimization=off")
    expected = {
        "10-2": ("-1754,↓31.3%", "-15.0,↓14.4%"),
        "10-4": ("-1754,↓15.5%", "-4.0,↓1.7%"),
    }
    for name, (memory, throughput) in expected.items():
        found = table[name]["comparison"]["differences"]
        assert text_of(found["memory_used_mib"], 0) == memory
        assert text_of(found["samples_per_s"], 1) == throughput
    assert table["10-1"]["comparison"]["is_baseline"]
    assert not table["10-1"]["comparison"]["differences"]
    assert table["10-4"]["comparison"]["cell"] == "10-3"


@pytest.mark.parametrize(
    ("baseline", "words"),
    [
        ("optimisation=off", "did you mean 'optimization'"),
        ("batch=3", "no cell has batch=3; values: "),  # no guess at a number
        ("optimization=of", "did you mean 'off'"),
        ("optimization", "should read AXIS=VALUE"),
        ("=off", "should read AXIS=VALUE"),
        ("optimization=", "should read AXIS=VALUE"),
    ],
)
def test_a_wrong_baseline_names_the_nearest_right_one(baseline: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        rows(OSDI, baseline)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("baseline", ["optimization=none", "nothing=1", "nothing"])
def test_a_baseline_of_the_matrix_that_no_cell_has_is_a_note(baseline: str) -> None:
    found = rows(OSDI, baseline, requested=False)
    assert rows([], baseline, requested=False) == []
    assert not any(row["comparison"] and row["comparison"]["differences"] for row in found)
    assert any("no cell with " in note for note in notes(found))


def test_a_baseline_of_no_cells_is_refused() -> None:
    with pytest.raises(UserError, match="no cell"):
        rows([], "zero_stage=0")


@pytest.mark.parametrize("value", ["True", "true", "TRUE"])
def test_baseline_values_are_read_as_a_matrix_writes_them(value: str) -> None:
    records = [cell(str(flag), 10.0, axes={"flash": flag}) for flag in (True, False)]
    assert by_name(records, f"flash={value}")["False"]["comparison"]["cell"] == "True"


def test_systems_are_an_axis_even_where_the_matrix_names_none() -> None:
    records = [cell("a", 100.0), cell("b", 150.0, system="torch_gpt")]
    found = by_name(records, "system=oneflow_gpt")["b"]["comparison"]
    change = found["differences"]["samples_per_s"]
    assert (change["absolute"], change["percent"]) == (50.0, 50.0)
    assert change_text(change) == "+50.0 %"


def test_no_counterpart_two_counterparts_and_unfinished_ones_are_said() -> None:
    lonely = cell("lonely", 10.0, axes={"optimization": "on", "batch": 8})
    assert (
        "no cell with"
        in by_name([*OSDI, lonely], "optimization=off")["lonely"]["comparison"]["note"]
    )
    twin = replace(OSDI[0], cell="twin", cell_id="twin")
    assert (
        "2 cells match" in by_name([*OSDI, twin], "optimization=off")["10-2"]["comparison"]["note"]
    )
    failed = replace(OSDI[0], status="failed", reason="out of memory")
    found = by_name([failed, *OSDI[1:]], "optimization=off")["10-2"]["comparison"]
    assert (found["differences"], found["note"]) == ({}, "10-1 has no finished run")


def test_a_note_says_how_many_first_iterations_a_found_warmup_left_out() -> None:
    """Of a run that went on from 5,000 it said `iterations 1 to 1`."""
    lines = tuple(Interval(n, 1, None, 100.0) for n in range(5001, 5021))
    run = replace(OSDI[0], warmup_iters=None, measurement=Measurement(lines))
    said = " ".join(to_table(rows([run]), all_notes=True).split())
    assert "left out: the first 1 iteration (most" in said


def test_different_windows_are_marked() -> None:
    short = replace(OSDI[1], warmup_iters=5)
    table = rows([OSDI[0], short], "optimization=off")
    assert table[1]["comparison"] is not None
    assert "different iterations" in table[1]["comparison"]["note"]
    assert "-14.4 %‡" in to_markdown(table)


# --- scaling --------------------------------------------------------------------------------------


def test_lines_over_other_numbers_of_iterations_make_no_difference_doubtful() -> None:
    """Only medians and percentiles would be, and none is compared with the baseline's."""
    tens = [Interval(n, 10, None, 120.0, loss=1.0) for n in range(12, 53, 10)]
    ours = cell("b", axes={"x": "b"}, status="ok", measurement=Measurement(tuple(tens)))
    compared = by_name([cell("a", 100.0, axes={"x": "a"}), ours], "x=a")["b"]["comparison"]
    assert (compared["note"], set(compared["differences"])) == (
        "the two were measured over different iterations",
        {"samples_per_s"},
    )


def test_weak_and_strong_scaling() -> None:
    records = [
        cell("n1", 239, nodes=1, axes={"nodes": 1}),
        cell("n2", 412, nodes=2, axes={"nodes": 2}),
        cell("n4", 717, nodes=4, axes={"nodes": 4}),
        cell("n4-same-batch", 600, nodes=4, axes={"nodes": 4}, batch=32),
    ]
    table = by_name(records)
    weak = {name: table[name]["scaling"]["weak"]["efficiency"] for name in ("n1", "n2", "n4")}
    assert weak == pytest.approx({"n1": 1.0, "n2": 412 / 478, "n4": 717 / 956})
    assert "weak" not in table["n4-same-batch"]["scaling"]
    strong = table["n4-same-batch"]["scaling"]["strong"]
    assert strong["efficiency"] == pytest.approx(600 / 956)
    assert (strong["base_cell"], strong["base_devices"]) == ("n1", 8)


def test_weak_scaling_over_the_devices_of_one_node() -> None:
    half = cell("d4", 130, axes={"devices_per_node": 4}, batch=16, devices_per_node=4)
    whole = cell("d8", 239, axes={"devices_per_node": 8})
    table = by_name([half, whole])
    assert table["d8"]["scaling"]["weak"]["efficiency"] == pytest.approx(239 / 260)
    assert table["d8"]["scaling"]["weak"]["base_cell"] == "d4"
    assert "strong" not in table["d8"]["scaling"]


def test_rates_of_a_device_are_those_of_the_job_over_all_devices() -> None:
    row = by_name([cell("n2", 412, nodes=2)])["n2"]
    assert row["figures"]["samples_per_s_per_device"] == pytest.approx(412 / 16)
    assert row["figures"]["tokens_per_s"] == pytest.approx(412 * 1024)
    assert row["figures"]["tokens_per_s_per_device"] == pytest.approx(412 * 1024 / 16)


@pytest.mark.parametrize(
    "other",
    [
        {"system": "libai"},
        {"parallel": {"data_parallel": 8, "tensor_parallel": 2, "pipeline_parallel": 1}},
        {"activation_checkpointing": True},
        {"parameters": {"fp16": True}},
        {"status": "failed"},
        {"micro_batch_size": 2},
    ],
)
def test_only_cells_that_differ_in_devices_alone_are_one_series(other: dict[str, Any]) -> None:
    table = rows([cell("n1", 239), cell("n2", 412, nodes=2, **other)])
    assert [dict(row["scaling"]) for row in table] == [{}, {}]


# --- rows -----------------------------------------------------------------------------------------


def test_did_not_run_carries_no_numbers_and_a_reason() -> None:
    (row,) = rows([replace(OSDI[0], status="did_not_run", reason="ImportError")])
    numbers = ("samples_per_s", "tokens_per_s", "step_time_ms", "model_tflop_per_s_per_device")
    assert [row["figures"][name] for name in (*numbers, "steps_measured")] == [None] * 5
    assert row["reason"] == "ImportError"


def test_unfinished_numbers_are_marked() -> None:
    table = rows([replace(OSDI[0], status="timed_out", reason="over the limit"), OSDI[2]])
    assert "104.0†" in to_table(table)
    assert "not a result" in to_table(table)
    assert table[0]["numbers_from"] == "steps before the run ended"


def test_repeats_become_one_row_with_the_worst_status() -> None:
    again = replace(OSDI[0], repeat=2, status="failed", reason="out of memory")
    (row,) = rows([OSDI[0], again])
    assert (row["status"], row["reason"], finished(row)) == ("failed", "out of memory", True)
    assert (row["figures"]["repeats_ok"], row["figures"]["repeats_total"]) == (1, 2)
    assert "†" not in to_table([row])


def test_the_validation_loss_is_of_the_last_evaluation_and_hidden_without_one() -> None:
    first = replace(
        OSDI[0], measurement=replace(OSDI[0].measurement, validation=((5, 4.0), (9, 3)))
    )
    again = replace(first, repeat=2)
    again = replace(again, measurement=replace(again.measurement, validation=((9, 3.5),)))
    cells, (row,) = measured([first, again])
    assert row["figures"]["validation_loss"] == 3.25
    assert "validation" in to_table([row], 2000, wide=True, all_notes=True)
    assert plots(cells, [row])["validation"]
    (row,) = rows([OSDI[0], again])  # one run has none
    assert row["figures"]["validation_loss"] is None
    assert "validation" not in to_table([row], 2000, wide=True, all_notes=True)
    assert plots(*measured([OSDI[0]]))["validation"] is None


def test_tflops_and_tokens_of_a_row() -> None:
    (row,) = rows([OSDI[2]])
    assert row["figures"]["tokens_per_s"] == 239 * 1024
    # 6 x 124M parameters x 30592 tokens/s is 22.8 TFLOP/s; attention adds some.
    assert row["figures"]["model_tflop_per_s_per_device"] == pytest.approx(26.4, abs=0.3)


# --- formats --------------------------------------------------------------------------------------


def test_golden_table() -> None:
    failed = cell("10-5", axes={"optimization": "on", "batch": 8}, per_device=8)
    assert to_table(rows([OSDI[2], OSDI[3], failed], "optimization=off")) == GOLDEN


# Wide lines are the table's own.
# ruff: noqa: E501
GOLDEN = """\
optimization  batch  samples/s        vs   step  TFLOP/s    used  mark
                                baseline     ms  /device     MiB
-----------------------------------------------------------------------------
off           4          239.0  baseline  133.9    26.14  11,301  few_repeats
on            4          235.0    -1.7 %  136.2    25.70    9547  few_repeats
on            8              –         –      –        –       –  did_not_run

In all rows: campaign osdi, system oneflow_gpt, nodes x devices 1x8, parallel dp8 tp1 pp1, window 3-12, warm-up given 2,
  FLOP vocabulary 50257 unpadded.
few_repeats: 1 repeat. did_not_run: no training step was logged.
To be sure: Set repeats to 3 or more (few_repeats).
More: --wide has every column, --notes what each figure is, --format html the plots.
"""


def test_a_difference_in_rss_has_the_noise_of_its_runs() -> None:
    """Of single runs it has no interval, and nothing calls it better or worse."""

    def runs(name: str, axis: str, *mib: float) -> list[Record]:
        one = cell(name, 100.0, axes={"a": axis})
        return [
            replace(one, repeat=n, measurement=replace(one.measurement, memory_rss_mib=each))
            for n, each in enumerate(mib, 1)
        ]

    for mib, real in (((1000.0, 1059.0, 1030.0), False), ((1300.0, 1301.0, 1302.0), True)):
        table = rows([*runs("x", "1", 1000.0, 1001.0, 1002.0), *runs("y", "2", *mib)], "a=1")
        assert table[1]["comparison"] is not None
        found = table[1]["comparison"]["differences"]["memory_rss_mib"]
        assert found["low"] is not None
        assert found["real"] == real
    table = rows([*runs("x", "1", 1000.0), *runs("y", "2", 1059.0)], "a=1")
    assert table[1]["comparison"] is not None
    assert not table[1]["comparison"]["differences"]["memory_rss_mib"]["real"]


@pytest.mark.parametrize("width", [40, 80, 100, 120, 160])
def test_what_a_table_is_for_stays_at_any_width(width: int) -> None:
    header = to_table(rows(OSDI, "optimization=off"), width).partition("---")[0]
    words = ("optimization", "batch", "samples/s", "baseline")
    assert all(word in header for word in words)
    assert ("used" in header) == (width >= 80)


def test_columns_that_alone_tell_rows_apart_stay() -> None:
    named = [cell("left", 10.0), cell("right", 20.0)]
    assert "left" in to_table(rows(named), 40).partition("---")[2]
    split = [
        replace(OSDI[0], cell=f"tp{n}", axes={"tensor_parallel": n}, parallel=parallel)
        for n in (1, 2)
        for parallel in [{**OSDI[0].parallel, "tensor_parallel": n}]
    ]
    assert "tp2 pp1" in to_table(rows(split), 60).partition("---")[2]


def test_parallel_sizes_are_those_that_the_systems_of_the_table_name() -> None:
    plain = replace(cell("plain", 10.0), system="toy", parallel={"data_parallel": 8})
    experts = {"data_parallel": 4, "context_parallel": 2, "expert_parallel": 4}
    (alone,) = csv.DictReader(io.StringIO(to_csv(rows([plain]))))
    assert [name for name in alone if name.endswith("_parallel")] == ["data_parallel"]
    both = rows([plain, replace(plain, cell="moe", cell_id="moe", parallel=experts)])
    lines = list(csv.DictReader(io.StringIO(to_csv(both))))
    found = [{name: line[name] for name in line if name.endswith("_parallel")} for line in lines]
    assert found[0] == {"data_parallel": "8", "context_parallel": "1", "expert_parallel": "1"}
    assert found[1] == {name: str(size) for name, size in experts.items()}
    assert "dp4 cp2 ep4" in to_table(both, 400, wide=True, all_notes=True)
    assert "expert" not in to_csv(rows([plain]))


def test_an_included_cell_shows_its_defaults_in_the_axes_of_others() -> None:
    included = cell("b", 10.0, parameters={"zero_stage": 3})
    found = rows([cell("a", 10.0, axes={"zero_stage": 1}), included])
    assert list(csv.DictReader(io.StringIO(to_csv(found))))[1]["axis_zero_stage"] == "3"


def test_markdown_escapes_its_own_signs() -> None:
    text = to_markdown(rows([cell("a|b_c_*d*", 10.0)]))
    assert r"a\|b_c\_\*d\*" in text


def test_terminal_text_has_no_control_characters() -> None:
    text = to_table(rows([cell("a", reason="\x1b[31mred\x1b[0m\r\nline \x07two")]))
    assert "red line two" in text
    assert not any(ord(c) < 32 and c != "\n" for c in text)


def test_csv_is_full_precision_with_empty_fields() -> None:
    records = [cell("a", 1000 / 3, axes={"zero_stage": 1}), cell("b, c")]
    first, second = csv.DictReader(io.StringIO(to_csv(rows(records))))
    assert float(first["samples_per_s"]) == 1000 / 3
    assert (first["nodes"], first["axis_zero_stage"], first["memory_used_mib"]) == ("1", "1", "")
    assert (second["cell"], second["samples_per_s"], second["status"]) == (
        "b, c",
        "",
        "did_not_run",
    )


def test_json_is_as_documented() -> None:
    document = json.loads(render(OSDI, "json", "optimization=off"))
    names = {"schema", "title", "description", "campaign", "hidden", "environment", "rows"}
    assert set(document) == names | {"published"}
    assert (document["schema"], document["campaign"]) == (1, "osdi")
    row = document["rows"][1]
    assert row["axes"]["optimization"] == "on"
    assert row["formula"]["id"] == "model-flops"
    assert row["comparison"]["differences"]["memory_used_mib"]["absolute"] == -1754
    assert row["figures"]["samples_per_s_difference_percent"] == pytest.approx(-14.42, abs=0.01)
    assert row["figures"]["memory_allocated_mib"] is None
    assert "allocator" in row["missing"]["memory_allocated_mib"]
    (run,) = row["runs"]
    assert {key: run[key] for key in RowRun.__annotations__} == {
        **{"repeat": 1, "attempt": 1, "status": "ok", "reason": "", "seed": None},
        "log": "10-2/launcher.log",
        "hosts": [],
        "samples_per_s": pytest.approx(89),
        "step_time_ms": pytest.approx(8000 / 89),
        "memory_rss_mib": None,
        **dict.fromkeys(("iterations_to_target", "iterations_trained", "iterations_per_loss")),
    }


def test_different_windows_get_a_column() -> None:
    table = rows([OSDI[0], replace(OSDI[2], warmup_iters=6)])
    assert "window" in to_table(table, wide=True).partition("---")[0]


@pytest.mark.parametrize("format", FORMATS)
def test_no_records_is_no_error(format: str) -> None:
    assert render([], format).endswith("\n")


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UserError, match="choose one of table"):
        render([], "xlsx")


# --- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0.012345, "0.0123"),
        (1.23456, "1.235"),
        (104.0, "104.0"),
        (5603.4, "5603"),
        (298668.1, "298,668"),
    ],
)
def test_numbers_for_people(value: float | None, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "null"), (True, "true"), (1, "1"), ({"A": 1, "B": "x"}, "A=1 B=x"), ([1, 2], "1,2")],
)
def test_axis_values_for_people(value: Any, text: str) -> None:
    assert value_text(value) == text


# --- properties -----------------------------------------------------------------------------------

texts = st.text(max_size=12)
numbers = st.one_of(st.none(), st.floats())
sizes = st.integers(0, 64)
intervals = st.builds(
    Interval,
    iteration=st.integers(-1, 10**6),
    iterations=st.integers(0, 100),
    step_time_ms=numbers,
    samples_per_s=numbers,
    loss=numbers,
    skipped=st.integers(0, 2),
    nan=st.integers(0, 2),
)
measurements = st.builds(
    Measurement,
    st.lists(intervals, max_size=4).map(tuple),
    memory_allocated_mib=numbers,
    memory_reserved_mib=numbers,
    memory_used_mib=numbers,
    memory_rss_mib=numbers,
    padded_vocab_size=st.one_of(st.none(), sizes),
)
any_value = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts)
any_records = st.builds(
    Record,
    campaign=st.sampled_from(["a", "b"]),
    cell=texts,
    cell_id=st.sampled_from(["1", "2", "3"]),
    system=st.sampled_from(["torch_gpt", "libai"]),
    status=st.sampled_from(sorted(STATUSES)),
    reason=texts,
    axes=st.dictionaries(st.sampled_from(["zero_stage", "nodes", "env"]), any_value, max_size=3),
    parameters=st.dictionaries(texts, any_value, max_size=2),
    target_loss=st.one_of(st.none(), st.floats(0, 10)),
    nodes=sizes,
    devices_per_node=sizes,
    parallel=st.fixed_dictionaries(
        {"data_parallel": sizes}, optional={"tensor_parallel": sizes, "expert_parallel": sizes}
    ),
    global_batch_size=st.one_of(st.none(), sizes),
    warmup_iters=st.integers(0, 10),
    model=st.one_of(st.none(), st.builds(Decoder, *[sizes] * 5)),
    measurement=measurements,
    last_words=texts,
    environment=st.dictionaries(texts, any_value, max_size=2),
)


@pytest.mark.parametrize("format", ["table", "markdown", "csv", "json", "html"])
def test_a_cell_that_no_format_can_show_is_a_row_that_says_why(format: str) -> None:
    """One run's figures end no table: the other cells' stand there."""
    good, bad = (cell(name, 100.0, 1.0, axes={"x": name}) for name in ("good", "bad"))
    steps = tuple(Interval(n, 1, 10**400, None, loss=1.0) for n in range(1, 20))
    bad = replace(bad, measurement=replace(bad.measurement, intervals=steps))
    text = render([good, bad], format, "x=good")
    assert "its figures cannot be shown: int too large to convert to float" in text
    assert "unreadable" in text
    assert "100.0" in text


def test_a_whole_number_of_many_digits_is_written_as_it_is() -> None:
    records = [cell("a", 1.0, 1.0, axes={"x": 10**400}), cell("b", 1.0, 1.0, axes={"x": 1 << 63})]
    for format in ("table", "markdown", "csv", "json"):
        text = render(records, format)
        assert str(10**400) in text
        assert str(1 << 63) in text


# --- what a terminal gets of it -------------------------------------------------------------------


BROKEN: dict[str, Any] = {"status": "failed", "reason": "exit code 3"}


def named(count: int) -> list[Record]:
    names = (f"lr={n},zero_stage=1,model=gpt-1.3b-and-more-words" for n in range(count))
    return [
        replace(OSDI[2], cell=name, cell_id=name, axes={"lr": n}) for n, name in enumerate(names)
    ]


def test_a_terminal_gets_four_lines_of_notes_and_where_the_rest_is() -> None:
    table = rows([*named(4), replace(named(1)[0], cell="x", cell_id="x", axes={"lr": 9}, **BROKEN)])
    shared, marks, cure, more = (
        line for line in to_table(table, 2000).partition("\n\n")[2].splitlines()
    )
    assert shared.startswith("In all rows: campaign osdi, ")
    assert marks.startswith("few_repeats: 1 repeat. failed: exit code 3. †: ")
    assert cure.startswith("To be sure: Set repeats to 3 or more (few_repeats)")
    assert more == MORE
    whole = to_table(table, 2000, all_notes=True)
    assert all(note in whole for note in notes(table))
    assert "x: failed: exit code 3" in whole


@pytest.mark.parametrize("format", ["table", "markdown", "json", "html"])
def test_what_the_campaign_hides_is_said_in_each_format(format: str) -> None:
    said = "hidden: 3 runs not in this matrix any more"
    assert said in render(OSDI, format, hidden=said)
    assert "hidden:" not in render(OSDI, format)


def test_a_difference_is_real_where_its_interval_leaves_zero_out() -> None:
    def between(low: float, high: float) -> RowDifference:
        return difference(95.0, 100.0, RateDifference(-5.0, (low, high)))

    assert between(-7.0, -3.0)["real"]
    assert not between(-11.0, 1.0)["real"]
    assert change_text(between(-9.4, -1.0)) == "-5.0 % ± 4.4"
    lopsided = between(-12.9, -0.1)
    assert (change_text(lopsided), lopsided["real"]) == ("-5.0 % ± 7.9", False)
    single = difference(95.0, 100.0, RateDifference(-5.0, missing=ONE_RUN))
    assert (change_text(single), single["real"]) == ("-5.0 %", False)
    assert not difference(95.0, 100.0)["real"]


def test_an_axis_that_implies_the_system_is_compared_across_systems() -> None:
    ours = cell("a", 110.0, axes={"size": "345M", "trainer": "ours"}, system="torch_gpt")
    theirs = cell("b", 100.0, axes={"size": "345M", "trainer": "theirs"}, system="command")
    first, _ = rows([ours, theirs], "trainer=theirs")
    assert first["comparison"] is not None
    assert first["comparison"]["cell"] == "b"
    assert first["comparison"]["differences"]["samples_per_s"]["percent"] == pytest.approx(10.0)
    both = {"trainer": "x"}
    named = [cell("a", 1.0, axes=both, system="command"), cell("b", 2.0, axes=both)]
    assert [
        row["comparison"] and row["comparison"]["note"] for row in rows(named, "trainer=x")
    ] == [
        "",
        "",
    ]

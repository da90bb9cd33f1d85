"""Two campaigns side by side: what is worse beyond noise, what is gone, and the exit code."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.__main__ import main
from runner.base.errors import UserError
from runner.compare.rendering import to_json, to_markdown, to_table
from runner.compare.side import Side, saved
from runner.compare.verdicts import ComparedCell, compare_campaigns, thresholds
from runner.figures.between_runs import FEW_SLOW
from runner.folder.campaign import Campaign as RunFolder
from runner.tables.row import Row
from runner.terms.cell import Cell as MatrixCell
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import OUT_OF_MEMORY, Story, inspected, torch_gpt, write
from tests.runner.rows import row_of as row
from tests.runner.rows import runs_of as runs
from tests.runner.rows import with_more

LIMITS = thresholds([])
HALT = {"cause": "exit", "host": "n2", "message": "n2: exit code 1"}


FAILED: dict[str, Any] = {
    "status": "failed",
    "numbers_from": None,
    "samples_per_s": None,
    "reason": "why",
}
PENDING = {**FAILED, "status": "pending", "reason": "not run yet"}
STEPS_HALF = "samples_per_s_steps_half_percent"
FEW_SLOW_STEPS: dict[str, Any] = {
    "missing": {"samples_per_s_ci_low": FEW_SLOW.format(0.011)},
    STEPS_HALF: 3.3,
}
RUNS = {**PENDING, "status": "running", "reason": "bench runs now"}


def one(
    a: Row | None,
    b: Row | None,
    *limits: str,
    live: bool = False,
    allow_missing: bool = False,
) -> ComparedCell:
    """The comparison of one cell, beside one that is the same; `live`: bench runs B."""
    was, now = (
        Side(name, [*([it] if it else []), row("z")], {}, live and name == "B")
        for name, it in (("A", a), ("B", b))
    )
    found = compare_campaigns(was, now, thresholds(limits), allow_missing=allow_missing)
    return next(cell for cell in found.cells if cell.name != "z")


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        (row(), row(rate=98.0), "same"),
        (row(), row(rate=96.0), "slower"),
        (row(), row(rate=104.0), "faster"),
        (row(), row(rate=90.0, runs=runs(82.0, 90.0, 98.0)), "cannot_tell"),
        (row(runs=runs(88.0, 100.0, 112.0)), row(rate=92.0), "cannot_tell"),
        (row(), row(rate=100.0, runs=runs(91.0, 100.0, 109.0)), "cannot_tell"),  # 3 % may hide
        (row(), row(rate=90.0, runs=runs(90.0)), "cannot_tell"),
        (row(runs=runs(100.0)), row(runs=runs(100.0)), "cannot_tell"),
        (row(runs=runs(100.0)), row(rate=90.0, runs=runs(*[90.0] * 10)), "cannot_tell"),
        (row(), row(rate=90.0, missing={"samples_per_s_ci_low": "a tail"}), "cannot_tell"),
        (row(), row(rate=50.0, missing={"samples_per_s_ci_low": "a tail"}), "cannot_tell"),
        (row(), row(rate=50.0, **FEW_SLOW_STEPS), "slower"),
        (row(), row(rate=50.0, **{**FEW_SLOW_STEPS, STEPS_HALF: 20.0}), "cannot_tell"),
        (row(), row(rate=50.0, **{**FEW_SLOW_STEPS, STEPS_HALF: None}), "cannot_tell"),
        (row(), row(rate=85.0, **FEW_SLOW_STEPS), "cannot_tell"),
        (row(), row(rate=90.0, samples_per_s_steps_half_percent=15.0), "cannot_tell"),
        (row(), row(rate=90.0, runs=[]), "cannot_tell"),  # a table of an older version
        (row(), row(memory_used_mib=1020.0), "same"),
        (row(), row(memory_used_mib=1050.0), "more_memory"),
        (row(), row(memory_used_mib=900.0), "less_memory"),
        (row(), row(rate=110.0, memory_used_mib=1050.0), "more_memory"),
        (row(), row(rate=90.0, memory_used_mib=900.0), "slower"),
        (row(), row(**FAILED), "broke"),
        (row(**FAILED), row(), "recovered"),
        (row(**FAILED), row(**FAILED), "not_ok"),
        (row(**FAILED), row(**{**FAILED, "status": "did_not_run"}), "not_ok"),
        (row(), row(**PENDING), "vanished"),
        (row(), row(status="pending"), "vanished"),  # not every repeat was run
        (row(**PENDING), row(), "appeared"),
        (row(**PENDING), row(**PENDING), "not_ok"),
        (row(), row(status="failed"), "broke"),  # one repeat failed, the others count
        (row(status="failed"), row(**FAILED), "broke"),
        (row(status="failed"), row(status="failed", rate=90.0), "slower"),
        (row(), None, "vanished"),
        (None, row(), "appeared"),
        (None, row(**FAILED), "appeared"),
    ],
)
def test_the_verdict_on_a_cell(a: Any, b: Any, verdict: str) -> None:
    found = one(a, b)
    assert found.verdict == verdict
    assert found.regressed == (verdict in ("slower", "more_memory", "broke", "vanished"))


GOOD: dict[str, Any] = {
    "verdict": "publishable",
    "system": "torch_gpt",
    "parameters": {"seq_length": 64, "seed": 1234},
}


@pytest.mark.parametrize(
    ("b", "word", "why"),
    [
        (row(rate=104.0, **GOOD), "faster", ""),
        (row(rate=96.0, **GOOD), "slower", ""),
        (row(rate=101.0, **GOOD), "no_difference_shown", ""),
        (row(rate=90.0, runs=runs(82.0, 90.0, 98.0), **GOOD), "none", "cannot_tell"),
        (row(rate=104.0, **{**GOOD, "verdict": "few_repeats"}), "none", "second: few_repeats"),
        (row(rate=104.0, **{**GOOD, "parameters": {"seq_length": 32, "seed": 1234}}),
         "none", "other_work: seq_length"),
        (row(rate=104.0, **{**GOOD, "parameters": {"seq_length": 64, "seed": 7}}),
         "none", "other_work: seed"),
        (row(rate=104.0, **{**GOOD, "system": "command"}), "none", "torch_gpt, then command"),
        (row(rate=104.0, **GOOD, final_loss=4.9), "none", "other_loss: 5, then 4.9"),
        (row(rate=104.0, **GOOD, final_loss=float("nan")), "none", "other_loss"),
        (row(rate=104.0, **GOOD, final_loss=None), "none", "no_loss"),
        (row(**{**GOOD, **FAILED}), "none", "not_ok: the second"),
        (row(rate=None, **GOOD), "none", "no_speed"),
        (None, "none", "not_ok: the second"),
    ],
)  # fmt: skip
def test_what_may_be_said_of_a_speed(b: Any, word: str, why: str) -> None:
    """No word of a cheaper work, a loss that went wrong, or a cell that nobody may publish."""
    found = one(row(**GOOD), b)
    assert found.may_say == word
    assert why in "; ".join(found.why_not)
    assert bool(found.why_not) == (word == "none")


def test_memory_of_a_process_is_judged_by_its_runs() -> None:
    """RSS differed by 5.9 % between two runs of the same cell, and was called more_memory."""
    name = "memory_rss_mib"
    alone = one(row(memory_rss_mib=1000.0), row(memory_rss_mib=1059.0))
    assert (alone.verdict, alone.measures[name].verdict) == ("same", "not_judged")
    for half, verdict in ((50.0, "cannot_tell"), (5.0, "more_memory")):
        was, now = (
            with_more(
                row(),
                memory_rss_mib=at,
                runs=[
                    {**run, name: at + by}
                    for by, run in zip((-half, 0, half), row()["runs"], strict=True)
                ],
            )
            for at in (1000.0, 1059.0)
        )
        assert one(was, now).verdict == verdict
    single = with_more(now, runs=now["runs"][:1])
    (note,) = (note for note in one(was, single).notes if "RSS" in note)
    assert note.startswith("RSS MiB: one run does not show how runs differ")


def test_a_cell_that_learns_slower_does_so_without_another_figure() -> None:
    """It was called the same, beside a note that it learns slower."""
    bare: dict[str, Any] = {"rate": None, "memory_used_mib": None, "target_loss": 3.0}
    early, late = (
        [
            {"seed": seed, "iterations_to_target": first + seed, "iterations_trained": 99}
            for seed in range(6)
        ]
        for first in (10, 50)
    )
    assert one(row(**bare, runs=early), row(**bare, runs=late)).verdict == "learns_slower"
    assert one(row(**bare, runs=early), row(**bare, runs=early)).verdict == "same"


@pytest.mark.parametrize(
    ("b", "verdict"),
    [
        (row(**RUNS), "running"),
        (row(**PENDING), "running"),
        (row(status="running", rate=90.0), "slower"),  # a repeat has ended, another runs
        (row(status="pending"), "same"),
        (row(**FAILED), "broke"),
        (None, "vanished"),
    ],
)
def test_a_running_campaign_is_compared_in_what_has_ended(b: Any, verdict: str) -> None:
    found = one(row(), b, live=True)
    assert found.verdict == verdict
    assert found.regressed == (verdict in ("slower", "broke", "vanished"))
    partly = verdict in ("slower", "same")
    assert ("not every repeat of the second has ended" in found.notes) == partly


@pytest.mark.parametrize(
    ("b", "verdict"),
    [
        (None, "left_out"),
        (row(**PENDING), "left_out"),
        (row(status="pending", rate=90.0), "slower"),
        (row(**FAILED), "broke"),
    ],
)
def test_what_is_left_out_on_purpose_is_no_regression(b: Any, verdict: str) -> None:
    found = one(row(), b, allow_missing=True)
    assert found.verdict == verdict
    assert found.regressed == (verdict in ("slower", "broke"))


def test_only_some_cells_are_compared() -> None:
    cells = [row(name, rate) for name, rate in (("nodes=1,zero_stage=0", 100), ("nodes=2", 100))]
    slow = [row(cell["cell"], 50.0) for cell in cells]
    a, b = Side("A", cells, {}), Side("B", slow[1:], {})
    for only in ("nodes=2", "*=2"):
        found = compare_campaigns(a, b, LIMITS, only=[only])
        assert [(cell.name, cell.verdict) for cell in found.cells] == [("nodes=2", "slower")]
    found = compare_campaigns(a, b, LIMITS, only=["zero_stage=0", "nodes=2"])
    assert {cell.verdict for cell in found.cells} == {"vanished", "slower"}
    with pytest.raises(UserError, match="no cell in common: of those that --only names"):
        compare_campaigns(a, b, LIMITS, only=["zero_stage=0"])
    with pytest.raises(UserError, match="--only nodes=3 matches no cell; cells are named like"):
        compare_campaigns(a, b, LIMITS, only=["nodes=3"])


def test_noise_is_that_of_the_runs_of_both_sides() -> None:
    """Three runs of a standard deviation of 0.5 % a side: t of 4 times 0.5 % * sqrt(2 / 3)."""
    found = one(row(), row(rate=95.0)).measures["samples_per_s"]
    assert found.noise_percent == pytest.approx(2.776 * 0.5 * (2 / 3) ** 0.5 * 0.95, rel=0.02)
    assert found.difference_percent == pytest.approx(-5.0)
    assert found.verdict == "slower"
    assert found.visible_percent == pytest.approx(1.5, abs=0.1)


def test_what_cannot_be_told_says_how_many_repeats_it_takes() -> None:
    noisy = one(row(), row(rate=98.0, runs=runs(92.0, 98.0, 104.0)))
    (note,) = noisy.notes
    assert noisy.verdict == "cannot_tell"
    assert noisy.measures["samples_per_s"].repeats_needed == 36
    assert (
        note
        == "samples/s: differences below 21 % do not show, about 36 repeats on each side show 3 %"
    )
    (note,) = one(row(), row(rate=90.0, runs=runs(90.0))).notes
    assert note.startswith("samples/s: one run does not show how runs differ, at least 3 repeats")


def test_a_step_time_is_judged_like_a_rate_the_other_way_round() -> None:
    a, b = (row(rate=rate, step_time_ms=8000 / rate) for rate in (100.0, 95.0))
    found = one(a, b, "step_time_ms=2%").measures
    assert found["step_time_ms"].verdict == "slower"
    assert found["step_time_ms"].difference_percent == pytest.approx(100 / 0.95 - 100)
    assert found["step_time_ms"].noise_percent == pytest.approx(
        found["samples_per_s"].noise_percent or 0, rel=0.15
    )


def test_noise_of_a_step_time_is_in_percent_of_the_first_sides_time() -> None:
    """Twice the time, +100 %: its noise is four times that of -50 % of the rate."""
    a, b = (row(rate=rate, step_time_ms=8000 / rate) for rate in (100.0, 50.0))
    found = one(a, b, "step_time_ms=2%").measures
    time, rate = (found[name].noise_percent or 0 for name in ("step_time_ms", "samples_per_s"))
    assert time == pytest.approx(4 * rate, rel=0.05)


@pytest.mark.parametrize(
    "odd",
    [
        {"runs": [{"samples_per_s": -1.0}, {"samples_per_s": -1.0}]},
        {"samples_per_s_steps_half_percent": 1e-90},
        {"samples_per_s_steps_half_percent": 1e300},
        {"samples_per_s_steps_half_percent": -5.0},
        {"runs": [{"samples_per_s": 1e200}, {"samples_per_s": 1e200}]},
        {"runs": [{"samples_per_s": 1e-200}]},
    ],
)
def test_odd_numbers_of_a_saved_table_are_compared_or_cannot_be_told(odd: dict[str, Any]) -> None:
    for a, b in ((row(), row(**odd)), (row(**odd), row())):
        verdict = one(a, b).verdict
        assert verdict in ("cannot_tell", "same")


@pytest.mark.parametrize(
    ("limits", "verdict"),
    [
        ((), "slower"),
        (("samples_per_s=5%",), "same"),
        (("samples_per_s = 5",), "same"),
        (("samples_per_s=5%,memory_used_mib=1%",), "more_memory"),
        (("samples_per_s=5%", "memory_used_mib=1%"), "more_memory"),
        (("samples_per_s=5%", "final_loss=0.5%"), "worse"),
    ],
)
def test_a_threshold_of_ones_own(limits: tuple[str, ...], verdict: str) -> None:
    assert (
        one(row(), row(rate=96.0, memory_used_mib=1015.0, final_loss=5.1), *limits).verdict
        == verdict
    )


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("sample_per_s=3%", "did you mean 'samples_per_s'?"),
        ("samples_per_s", "write it as samples_per_s=3%"),
        ("samples_per_s=", "write it as"),
        ("samples_per_s=fast", "write it as"),
        ("samples_per_s=-1", "write it as"),
        ("samples_per_s=nan", "write it as"),
        ("", "there is no quantity ''"),
    ],
)
def test_a_threshold_that_is_none_is_refused(said: str, words: str) -> None:
    with pytest.raises(UserError) as refused:
        thresholds([said])
    assert words in str(refused.value)


def test_what_a_reader_should_know_of_a_pair_is_noted() -> None:
    other = row(final_loss=7.0, window_first_iteration=11, reason="r")
    other["verdict_reasons"] = {"drift": "it drifts", "few_repeats": "1 repeat"}
    notes = "; ".join(one(row(), other).notes)
    assert "final loss 5, then 7: do both train the same?" in notes
    assert "measured over iterations 1-50, then 11-50" in notes
    assert "the second does not meet the publishing rules: drift" in notes
    assert "few_repeats" not in notes  # it makes no speed doubtful
    assert one(row(), row(**FAILED)).notes == ("why",)


@pytest.mark.parametrize(
    ("was", "now", "notes"),
    [
        ([["n1", "n2"]], [["n7", "n2"]], ("ran on n1, n2, then on n7, n2",)),
        ([["n1", "n2"], ["n3", "n4"]], [["n1", "n2"]], ()),
        ([["n1"]], [["n1", "n2"]], ()),
        ([], [["n1"]], ()),
    ],
)
def test_a_pair_that_ran_on_other_nodes_is_noted(
    was: list[list[str]], now: list[list[str]], notes: tuple[str, ...]
) -> None:
    assert one(row(hosts=was), row(hosts=now)).notes == notes


def test_cells_are_paired_by_what_they_are_then_by_name() -> None:
    was = [row("x", cell_id="x-1", parameters={"pin": "torch-2.11"}), row("y", cell_id="y-1")]
    now = [row("y", cell_id="y-1"), row("x", cell_id="x-2", parameters={"pin": "torch-2.13"})]
    found = compare_campaigns(Side("A", was, {}), Side("B", now, {}), LIMITS)
    assert [cell.verdict for cell in found.cells] == ["same", "same"]
    assert found.notes == ["parameters differ, pin: torch-2.11, then torch-2.13 (1 cells)"]
    twice = [row("x", cell_id="x-3"), row("x", cell_id="x-4"), row("y", cell_id="y-1")]
    found = compare_campaigns(Side("A", was, {}), Side("B", twice, {}), LIMITS)
    assert [cell.verdict for cell in found.cells] == ["vanished", "appeared", "appeared", "same"]


def test_what_ran_on_other_machines_is_said_first() -> None:
    a = Side("A", [row()], {"campaign": "a", "node driver": "450", "torch": "2.11", "old": "1"})
    b = Side("B", [row()], {"campaign": "b", "node driver": "535", "torch": "2.11"})
    found = compare_campaigns(a, b, LIMITS)
    assert found.environment == [("node driver", "450", "535"), ("old", "1", "–")]
    assert to_table(found, 100).splitlines()[:3] == [
        "B against A",
        "node driver: 450, then 535",
        "old: 1, then –",
    ]
    silent = compare_campaigns(a, Side("B", [row()]), LIMITS)
    assert silent.notes == ["B does not say what it ran on, so that machines are not compared"]
    both = compare_campaigns(Side("A", [row()]), Side("B", [row()]), LIMITS)
    assert both.notes == ["A and B do not say what they ran on, so that machines are not compared"]


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ([], [], "no cell in common"),
        ([row("a")], [row("b")], "no cell in common"),
        ([row(**FAILED)], [row()], "no cell of A ended ok"),
        ([row()], [row(**RUNS)], "no cell of B has ended yet"),
    ],
)
def test_nothing_to_compare_is_bad_input(a: list[Any], b: list[Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        compare_campaigns(Side("A", a), saved("B", {"rows": b}), LIMITS)


def test_a_saved_table_says_where_its_cells_ran() -> None:
    """A campaign's folder said "ran on n1, n2, then on n3, n4", and its saved table nothing."""
    a, b = (
        saved(name, {"rows": [row(hosts=[on])]})
        for name, on in (("a", ["n1", "n2"]), ("b", ["n3", "n4"]))
    )
    (compared,) = compare_campaigns(a, b, LIMITS, allow_missing=False).cells
    assert compared.notes == ("ran on n1, n2, then on n3, n4",)


@pytest.mark.parametrize(
    "document", [[], {}, {"rows": 3}, {"rows": [3]}, {"rows": [{"cell": "a"}]}]
)
def test_json_that_is_no_table_is_refused(document: Any) -> None:
    with pytest.raises(UserError, match="x is not a saved table"):
        saved("x", document)


def test_markdown_is_a_table_whatever_a_cell_is_called() -> None:
    found = compare_campaigns(Side("A", [row("a|b")], {}), Side("B", [row("a|b")], {}), LIMITS)
    lines = [line for line in to_markdown(found).splitlines() if line.startswith("|")]
    assert r"a\|b" in lines[2]
    assert len({line.replace(r"\|", "").count("|") for line in lines}) == 1


# --- whole commands -------------------------------------------------------------------------------

MATRIX = replace(small_matrix({"zero_stage": [0, 1]}, {"nodes": 2}), repeats=3)
Campaign = Callable[..., Path]


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    def of(name: str, *, rate: float = 100.0, failing: bool = False, kernel: str = "6.1") -> Path:
        def story(cell: MatrixCell, repeat: int) -> Story:
            if failing and cell.parameters["zero_stage"]:
                return Story({0: torch_gpt(3, of=50), 1: OUT_OF_MEMORY}, HALT)
            return Story({0: torch_gpt(50, rate=rate * (1 + 0.004 * (repeat - 2)))})

        found = write(
            tmp_path / name,
            MATRIX,
            small_cluster(),
            story,
            facts=lambda host: inspected(host, kernel=kernel),
        )
        return found.path

    return of


def test_the_exit_code_is_for_a_pipeline(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    a, slow, broken = campaign("a"), campaign("b", rate=90.0), campaign("c", failing=True)
    assert main(["compare", str(a), str(a)]) == 0
    assert "no regression: 2 same" in capsys.readouterr().out
    assert main(["compare", str(a), str(slow)]) == 1
    assert "2 regressions: 2 slower" in capsys.readouterr().out
    assert main(["compare", str(a), str(slow), "--threshold", "samples_per_s=12%"]) == 0
    assert main(["compare", str(slow), str(a)]) == 0
    capsys.readouterr()
    assert main(["compare", str(a), str(a), "--threshold", "samples_per_s=0.5%"]) == 3
    assert "no regression: 2 cannot_tell" in capsys.readouterr().out
    assert main(["compare", str(a), str(broken), "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["regressions"], document["cells"][0]["verdict"]) == (1, "broke")
    assert "memory ran out" in document["cells"][0]["notes"][0]


def test_a_campaign_that_bench_runs_now_and_one_that_ran_less_pass(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """The issue's own words: the running cell "broke", and a deliberate subset "vanished"."""
    a, b = campaign("a"), campaign("b")
    last = list(b.glob("*zero_stage=1*/repeat*/attempt1"))
    for attempt in last:
        (attempt / "outcome.json").unlink()
    with RunFolder(b).locked():
        for attempt in last:
            os.utime(attempt / "run.json")
        assert main(["compare", str(a), str(b)]) == 0
    assert "no regression: 1 running, 1 same" in capsys.readouterr().out
    shutil.rmtree(last[0].parent.parent)
    assert main(["compare", str(a), str(b)]) == 1
    assert main(["compare", str(a), str(b), "--allow-missing"]) == 0
    assert main(["compare", str(a), str(b), "--only", "zero_stage=0"]) == 0


def test_folders_archives_and_saved_tables_compare_alike(
    campaign: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = campaign("a"), campaign("b", rate=90.0, kernel="6.8")
    archived, table = tmp_path / "a.tar.gz", tmp_path / "a.json"
    assert main(["export", str(a), "-o", str(archived)]) == 0
    assert main(["collect", "--campaign", str(a), "--format", "json", "--output", str(table)]) == 0
    capsys.readouterr()
    found = []
    for one in (a, archived, table):
        assert main(["compare", str(one), str(b), "--format", "json"]) == 1
        document = json.loads(capsys.readouterr().out)
        assert document.pop("a") == str(one)
        found.append(document)
    assert found[0] == found[1] == found[2]
    assert {"key": "node kernel", "a": "6.1", "b": "6.8"} in found[0]["environment"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"text", "neither an archive of `export` nor a table"),
        (b"{}", "is not a saved table"),
        (b"\x1f\x8bx", "is not a whole export of a campaign"),
        (None, "there is no file or folder"),
    ],
)
def test_a_side_that_is_none_is_one_sentence_and_exit_code_2(
    content: bytes | None,
    words: str,
    campaign: Campaign,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "side"
    if content is not None:
        path.write_bytes(content)
    a = campaign("a")
    for pair in ((path, a), (a, path)):
        assert main(["compare", *map(str, pair)]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("error: ")
        assert said.err.count("\n") == 1
        assert words in said.err


def test_a_narrow_comparison_has_a_row_a_quantity() -> None:
    name = "devices_per_node=1,zero_stage=1"
    was, now = (
        Side(side, [row(name, rate), row("gone" if side == "A" else "new")], {})
        for side, rate in (("A", 100.0), ("B", 90.0))
    )
    found = compare_campaigns(was, now, thresholds(["final_loss=1%"]))
    wide, narrow = to_table(found, 200), to_table(found, 64)
    assert "samples/s was, is" in wide
    lines = narrow.splitlines()
    assert max(map(len, lines)) <= 64
    (first,) = (number for number, line in enumerate(lines) if line.startswith("SLOWER"))
    assert lines[first] == f"SLOWER: {name}"
    assert lines[first + 1].startswith("  samples/s  100.0, 90.00  ")
    assert "-10.0%" in lines[first + 1]
    for words in ("gone", "new", "final loss", "1000, 1000"):
        assert words in narrow


def test_a_person_is_shown_twelve_letters_of_a_checksum() -> None:
    a = Side("a", [row()], {"commit": "a" * 40, "driver": "580"})
    b = Side("b", [row()], {"commit": "b" * 40, "driver": "580"})
    found = compare_campaigns(a, b, LIMITS)
    assert f"commit: {'a' * 12}…, then {'b' * 12}…" in to_table(found, 120)
    assert "a" * 40 in to_json(found)

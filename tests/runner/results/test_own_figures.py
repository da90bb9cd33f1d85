"""What a trainer works out itself stands beside our own figures: energy, TFLOP/s, its start."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from runner.base.text import blocks
from runner.figures.flops import Decoder
from runner.logs.kinds import readers_of
from runner.logs.measure import measure
from runner.results.samples import with_fetched
from runner.systems.common.registry import load_system
from runner.tables.campaign_table import to_table
from runner.tables.columns import select
from runner.tables.notes import notes
from runner.tables.row import Row
from runner.terms.record import FirstStep, Measurement, Record
from tests.runner.documents import rows
from tests.runner.logs.made_lines import megatron, primus
from tests.runner.results.test_samples import a_run, fetched, run_folder
from tests.runner.tables.test_tables import cell

LOG = Path(__file__).resolve().parents[2] / "data/megatron_core/h200_log_energy/launcher.log"


@pytest.fixture
def recorded() -> Record:
    """A 345M GPT on an H200 with Megatron core's `--log-energy` and `--log-throughput`."""
    measured = load_system("megatron_core").parse({0: blocks(LOG)})
    run = replace(cell("a", 10.0), system="megatron_core", nodes=1, devices_per_node=1)
    run = replace(run, model=Decoder(24, 1024, 16, 1024, 50304), global_batch_size=64)
    return with_fetched(replace(run, warmup_iters=10, measurement=measured), {0: LOG}, {0: [0]})


def table(run: Record) -> Row:
    """The row of one run."""
    (row,) = rows([run])
    return row


def test_energy_by_megatron_and_by_our_counter_are_alike(recorded: Record) -> None:
    """Its lines said nothing to anybody: 640 J an iteration of 65,536 tokens."""
    row = table(recorded)
    assert row["figures"]["energy_method"] == "counter"
    assert row["figures"]["energy_per_token_log_j"] == pytest.approx(640 / 65536, rel=0.01)
    assert row["figures"]["energy_per_token_j"] == pytest.approx(640 / 65536, rel=0.03)
    assert not any("Energy of" in note for note in notes([row]))


def test_energy_is_the_logs_where_nothing_was_sampled(recorded: Record) -> None:
    run = replace(recorded, measurement=load_system("megatron_core").parse({0: blocks(LOG)}))
    row = table(run)
    assert row["figures"]["energy_method"] == "log"
    assert row["figures"]["energy_per_token_j"] == row["figures"]["energy_per_token_log_j"]
    assert "energy_per_token_j" not in row["missing"]
    assert any("by the trainer's own lines" in note for note in notes([row]))


def test_energy_of_several_devices_is_their_sum_and_a_line_without_one_has_none(
    recorded: Record,
) -> None:
    one = table(recorded)["figures"]["energy_per_token_log_j"]
    assert one is not None
    four = replace(recorded, devices_per_node=4)
    assert table(four)["figures"]["energy_per_token_log_j"] == pytest.approx(4 * one)
    first, second, *more = recorded.measurement.intervals
    steps = (first, replace(second, energy_j=None), *more)
    run = replace(recorded, measurement=replace(recorded.measurement, intervals=steps))
    assert table(run)["figures"]["energy_per_token_log_j"] is None


def test_an_energy_of_another_size_is_named(recorded: Record) -> None:
    steps = tuple(
        replace(step, energy_j=(step.energy_j or 0) * 1.25)
        for step in recorded.measurement.intervals
    )
    run = replace(recorded, measurement=replace(recorded.measurement, intervals=steps))
    (note,) = (note for note in notes([table(run)]) if "Energy of" in note)
    assert "+25." in note or "+24." in note


def test_the_logs_own_tflops_stand_beside_ours(recorded: Record) -> None:
    row = table(recorded)
    assert row["figures"]["log_tflop_per_s_per_device"] == pytest.approx(146.5)
    assert row["figures"]["model_tflop_per_s_per_device"] is not None
    assert any("log's TFLOP/s" in note for note in notes([row]))
    assert "log_tflop_per_s_per_device" in table(cell("b", 10.0))["missing"]


@pytest.mark.made_log
@pytest.mark.parametrize(
    ("line", "tflops"),
    [
        (megatron(1, rate=1.5), 8.55),
        (primus(1), 210.5),
        (
            primus(1).replace("throughput per", "compute per").replace("/217.3 ", " (avg 217.3) "),
            210.5,
        ),
        (megatron(1), None),
        (megatron(1) + " throughput per GPU (TFLOP/s/GPU): 12", None),
    ],
)
def test_each_form_of_the_logs_tflops(line: str, tflops: float | None) -> None:
    (step,) = measure(readers_of("megatron_core"), {0: [line.encode() + b"\r\n"]}).intervals
    assert (step.tflop_per_s, step.energy_j) == (tflops, None)


def test_the_first_step_is_timed_from_the_launchers_start(tmp_path: Path) -> None:
    """The line of step 1 was there at 971 s, by the poll that saw it."""
    log = run_folder(tmp_path / "n1", "")
    (log.parent / "samples.csv").unlink()
    assert fetched(a_run(), {0: log}, {}).measurement.first_step is None
    done = {"schema": 1, "ended_by": "exit", "rc": 0, "started_at": 950.5}
    (log.parent / "done.json").write_text(json.dumps(done))
    found = fetched(a_run(), {0: log}, {})
    assert found.measurement.first_step == FirstStep(20.5, 1)
    row = table(found)
    assert row["figures"]["time_to_first_step_s"] == 20.5
    assert row["figures"]["first_logged_iteration"] == 1
    assert any("(iteration 1)" in note for note in notes([row]))
    assert "time_to_first_step_s" in table(a_run())["missing"]
    (log.parent / "done.json").write_text("half")
    assert fetched(a_run(), {0: log}, {}).measurement.first_step is None


def test_what_was_compiled_is_added_up(recorded: Record) -> None:
    """Megatron's index builder and kernels are two things, LiBai's second line holds its first;
    of DeepSpeed's operators the slowest rank counts.
    """
    assert table(recorded)["figures"]["compile_s"] == pytest.approx(0.026 + 0.460)
    done = "[03/08 10:00:01 lb.engine.default]: >>> done with {}. Compilation time: {} seconds"
    libai = [done.format("dataset index builder", 0.101), done.format("compiling", 0.105)]
    loads = [f"Time to load fused_adam op: {took} seconds" for took in (30.5, 0.4, 31.25)]
    loads += ["[rank1]: Time to load utils op: 0.25 seconds"]
    for lines, system, expected in (
        (libai, "libai", 0.105),
        (loads, "megatron_deepspeed", 31.5),
        (["Time to load x op: 3"], "libai", None),
    ):
        text = "".join(line + "\n" for line in lines).encode()
        assert measure(readers_of(system), {0: [text]}).compile_s == expected
        by_byte = (text[at : at + 1] for at in range(len(text)))
        assert measure(readers_of(system), {0: by_byte}).compile_s == expected
    assert "compile_s" in table(replace(cell("a", 1.0), measurement=Measurement()))["missing"]


def started(*caches: str) -> Row:
    """The row of one repeat a cache that its log speaks of."""
    facts = ({"compile_cache": cache} if cache else {} for cache in caches)
    runs = [replace(cell("a", 1.0), repeat=number) for number in range(1, len(caches) + 1)]
    each = zip(runs, facts, strict=True)
    first = FirstStep(9.0, 1)
    (row,) = rows(
        [replace(r, measurement=replace(r.measurement, facts=f, first_step=first)) for r, f in each]
    )
    return row


def test_what_the_compiler_found_in_its_caches_is_shown_where_it_is_said() -> None:
    warm, silent, eager = started("warm", "warm"), started("", ""), started("none", "none")
    assert warm["figures"]["compile_cache"] == "warm"
    assert "compile cache warm" in to_table([warm], 200, wide=True, all_notes=True)
    for other in (silent, eager):
        assert "compile cache" not in to_table([other], 200, wide=True, all_notes=True)
    assert silent["figures"]["compile_cache"] is None
    assert not any("different compile caches" in note for note in notes([warm, silent, eager]))


def test_repeats_with_cold_and_with_warm_caches_are_no_one_start() -> None:
    row = started("cold", "warm", "warm")
    assert row["figures"]["compile_cache"] == "cold; warm"
    (note,) = (note for note in notes([row]) if "different compile caches" in note)
    assert "first step and compile of a: " in note
    assert "(cold; warm); compare only runs whose caches are alike" in note


def test_attention_that_ran_stands_beside_the_one_that_was_asked_for() -> None:
    asked = [
        replace(cell(name, 1.0), axes={"attention_backend": name}, attention=ran)
        for name, ran in (("auto", "cudnn"), ("flash", "flash"))
    ]
    assert "attention" in {column.key for column in select(rows(asked))[0]}
    assert "attention" not in {column.key for column in select(rows(asked[1:]))[0]}


def test_what_samples_did_not_tell_has_its_reason() -> None:
    """On an H200 a run alone on its node had no idle power, and no word of it."""
    reasons = table(cell("b", 10.0))["missing"]
    keys = ("mean_power_w", "idle_power_w", "temperature_max_c", "sm_clock_min_mhz", "throttled")
    assert all(reasons[key] for key in keys)
    assert "waited for each other" in reasons["idle_power_w"]


def test_the_header_of_energy_says_whose_it_is_and_the_notes_how_well_it_is_known(
    recorded: Record,
) -> None:
    """Issue 30, point 12: J/token of the devices was read as that of the machine."""
    row = table(recorded)
    shown = {column.key: column.one_line_title for column in select([row])[0]}
    assert shown["energy_per_token_j"] == "devices' J/token"
    assert row["figures"]["energy_within_percent"] == pytest.approx(0.1, abs=0.05)
    assert any("what the devices took" in n and "up to ±0.1 % open" in n for n in notes([row]))


def test_of_several_runs_energy_is_as_open_as_that_of_the_one_that_is_most(
    recorded: Record,
) -> None:
    energy = replace(recorded.measurement.energy, within_percent=2.5)
    other = replace(recorded, repeat=2, measurement=replace(recorded.measurement, energy=energy))
    (row,) = rows([recorded, other])
    assert row["figures"]["energy_within_percent"] == 2.5

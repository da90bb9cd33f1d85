"""Samples laid over steps, and what else a run's folder holds."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.base.text import blocks
from runner.folder.packed import pack
from runner.results import samples as reading
from runner.results.sample_table import read_samples
from runner.results.samples import with_fetched
from runner.systems.common.registry import load_system
from runner.terms.record import Interval, Measurement, Record, Utilisation
from tests.runner.results.made_samples import rows_of
from tests.runner.tables.test_tables import cell

DATA = Path(__file__).resolve().parents[2] / "data"
LINE = (
    "torch_gpt step={n}/20 samples_per_s=10.0 step_time_ms=100.0 loss=5.0 grad_norm=1.0 lr=1e-3"
    " skipped=0 nan=0 memory_allocated_mib=- memory_used_mib=300.0\n"
)
GPU_HEADER = "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n"


def gpu_row(second: int, index: int, busy: str, used: int) -> str:
    return f"1970/01/01 00:16:{second:02}.000, {index}, {busy}, {used} MiB, 16384 MiB\n"


def run_folder(node: Path, samples: str) -> Path:
    """A node whose 20 steps came one a second from 970 s on, polled each second."""
    node.mkdir(parents=True)
    log, polls = b"", []
    for step in range(1, 21):
        log += LINE.format(n=step).encode()
        polls.append({"node": 970.0 + step, "log_bytes": len(log) - 20 * (step % 3 == 0)})
    polls.append({"node": 991.0, "log_bytes": len(log)})
    (node / "launcher.log").write_bytes(log)
    (node / "timeline.jsonl").write_text("".join(json.dumps(poll) + "\n" for poll in polls))
    (node / "samples.csv").write_text(samples)
    return node / "launcher.log"


def a_run() -> Record:
    steps = tuple(Interval(n, 1, 1000.0, 10.0, loss=5.0) for n in range(1, 21))
    return replace(
        cell("a", 10.0),
        system="torch_gpt",
        warmup_iters=5,
        measurement=Measurement(steps, memory_used_mib=300.0),
    )


def fetched(run: Record, logs: dict[int, Path], devices: dict[int, list[int]]) -> Record:
    """The run with what is beside its logs, read as `collect` does."""
    places = load_system(run.system).parse({rank: blocks(log) for rank, log in logs.items()}).places
    measured = replace(run.measurement, places=places)
    return with_fetched(replace(run, measurement=measured), logs, devices)


def test_utilisation_is_of_the_counted_steps_and_of_the_runs_own_devices(tmp_path: Path) -> None:
    samples = GPU_HEADER
    for second in range(10, 59):
        steady = 15 <= second <= 31  # step 5's line was there at 975 s: 16 min 15 s
        samples += gpu_row(second, 0, "90 %" if steady else "10 %", 5000 + second)
        samples += gpu_row(second, 1, "80 %" if steady else "0 %", 4000)
        samples += gpu_row(second, 7, "100 %", 16000)  # somebody else's
    path = run_folder(tmp_path / "n1", samples)
    found = fetched(a_run(), {0: path}, {0: [0, 1]}).measurement
    assert found.utilisation is not None
    assert found.utilisation.source == "samples"
    assert found.utilisation.percent == pytest.approx(85, abs=5)
    assert found.memory_used_mib == 5058


def test_samples_that_were_packed_say_the_same(tmp_path: Path) -> None:
    """By the node, and then with those of all nodes of the run."""
    samples = GPU_HEADER + "".join(gpu_row(s, 0, "90 %", 5000 + s) for s in range(10, 59))
    path = run_folder(tmp_path / "run/nodes/0000-rank0", samples)
    node = path.parent
    found = [fetched(a_run(), {0: path}, {0: [0]}).measurement]
    with zipfile.ZipFile(node / "samples.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for name in ("samples.csv", "timeline.jsonl"):
            packed.write(node / name, name)
            (node / name).unlink()
    found.append(fetched(a_run(), {0: path}, {0: [0]}).measurement)
    pack(tmp_path / "run")
    assert sorted(each.name for each in node.iterdir()) == ["launcher.log"]
    found.append(fetched(a_run(), {0: path}, {0: [0]}).measurement)
    assert found[0].utilisation is not None
    assert found[0].memory_used_mib == 5058
    assert found[0] == found[1] == found[2]


def test_a_recorded_run_of_four_gpus() -> None:
    """98 to 100 % while it trains, by nvidia-smi; the start-up's idle seconds are not counted."""
    log = DATA / "torch_gpt" / "h200_4_devices" / "launcher.log"
    measured = load_system("torch_gpt").parse({0: blocks(log)})
    assert len(measured.intervals) == 60
    asked = replace(cell("a", 10.0), system="torch_gpt", warmup_iters=10, measurement=measured)
    found = fetched(asked, {0: log}, {0: [0, 1, 2, 3]}).measurement
    assert found.utilisation is not None
    assert found.utilisation.percent == pytest.approx(99, abs=1)
    assert found.memory_used_mib == 15857


def test_a_node_that_logs_no_step_is_laid_over_the_one_that_does(tmp_path: Path) -> None:
    both = [
        GPU_HEADER + "".join(gpu_row(s, 0, f"{busy} %", 1000) for s in range(10, 59))
        for busy in (90, 50)
    ]
    one, other = (run_folder(tmp_path / f"n{n}", text) for n, text in enumerate(both))
    other.write_bytes(b"nothing here\n")
    found = fetched(a_run(), {0: one, 1: other}, {0: [0], 1: [0]}).measurement
    assert found.utilisation == Utilisation(70.0, "samples")


def test_processors_give_utilisation_but_no_memory(tmp_path: Path) -> None:
    samples = "timestamp, utilization.cpu [%], memory.used [MiB], memory.total [MiB]\n"
    samples += "".join(f"{s}.500, 60 %, 9000 MiB, 16000 MiB\n" for s in range(960, 1000))
    found = fetched(a_run(), {0: run_folder(tmp_path / "n", samples)}, {0: [0]}).measurement
    assert found.utilisation == Utilisation(60.0, "samples")
    assert found.memory_used_mib == 300.0


def test_npu_smis_tables_are_samples_by_chip() -> None:
    table = """\
timestamp, 971.5
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
| 0     910B2C              | OK            | 86.8        35                0    / 0             |
| 0                         | 0000:66:00.0  | 40          0    / 0          59356/ 65536         |
| 1     910B2C              | OK            | 103.1       37                0    / 0             |
| 0                         | 0000:19:00.0  | 60          0    / 0          59351/ 65536         |
"""
    found = rows_of(read_samples(table.encode()))
    assert [(s.time, s.device, s.utilisation_percent, s.memory_used_mib) for s in found] == [
        (971.5, "0", 40.0, 59356.0),
        (971.5, "1", 60.0, 59351.0),
    ]


def test_without_samples_a_record_is_left_as_it_is(tmp_path: Path) -> None:
    run = a_run()
    assert with_fetched(run, {0: tmp_path / "launcher.log"}, {}) is run


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_samples_are_read_without_an_error(data: bytes) -> None:
    read_samples(data)
    read_samples(GPU_HEADER.encode() + data)
    read_samples(b"timestamp, 1.0\n" + data)


@pytest.mark.parametrize(
    "stamp", ["100 MiB", "1e9", "Infinity", "nan", "9" * 400, "-5", "1_0", "\u0661"]
)
def test_a_timestamp_that_is_none_leaves_its_row_out(stamp: str) -> None:
    """Issue 12, point 7: `100 MiB` crashed the closing table and every later collect."""
    rows = f"{GPU_HEADER}{stamp}, 0, 97 %, 5 MiB, 9 MiB\n{gpu_row(1, 0, '50 %', 7)}"
    left = [
        sample for sample in rows_of(read_samples(rows.encode())) if sample.memory_used_mib == 5
    ]
    assert left == [] or stamp == "1e9"
    assert len(read_samples(rows.encode())) == 1 + len(left)


@pytest.mark.parametrize("cell_of_a_row", ["9" * 400, "1e999", "-3", "Infinity", "1_0", "\u0663"])
def test_a_reading_that_is_no_number_is_none(cell_of_a_row: str) -> None:
    row = f"2026/01/01 00:00:00.000, 0, {cell_of_a_row} %, {cell_of_a_row} MiB, 9 MiB\n"
    (sample,) = rows_of(read_samples((GPU_HEADER + row).encode()))
    assert (sample.utilisation_percent, sample.memory_used_mib) == (None, None)


@pytest.mark.parametrize(
    "poll",
    [
        '{"node": Infinity, "log_bytes": 5}',
        '{"node": 1.0, "log_bytes": -5}',
        '{"node": ' + "9" * 5000 + ', "log_bytes": 1}',
        "\udcff",
    ],
    ids=lambda poll: poll[:30],
)
def test_a_poll_that_is_none_is_passed_over(tmp_path: Path, poll: str) -> None:
    """Issue 12, points 7 and 13: `size: Infinity` and brackets within brackets were tracebacks."""
    rows = "".join(gpu_row(second, 0, "50 %", 5) for second in range(10, 60))
    log = run_folder(tmp_path / "n1", GPU_HEADER + rows)
    before = fetched(a_run(), {0: log}, {}).measurement
    timeline = log.with_name("timeline.jsonl")
    timeline.write_bytes(poll.encode(errors="surrogateescape") + b"\n" + timeline.read_bytes())
    assert fetched(a_run(), {0: log}, {}).measurement == before


def test_a_last_line_that_was_polled_late_was_there_when_the_launcher_ended(tmp_path: Path) -> None:
    """An H200's runs had no energy: the sampler was ended with the run, half a second before."""
    rows = "".join(
        f"{second}.5, 0, 99 %, 5 MiB, 16384 MiB, 100.00 W, {100_000 * second} mJ\n"
        for second in range(960, 990)
    )
    header = GPU_HEADER.replace("\n", ", power.draw [W], total_energy [mJ]\n")
    log = run_folder(tmp_path / "n1", header + rows)
    done = {"ended_by": "exit", "rc": 0, "started_at": 960.0}
    for wall_s, joules in ((29.4, 1500.0), (29.6, None)):  # the sampler's last look is at 989.5
        log.with_name("done.json").write_text(json.dumps({**done, "wall_s": wall_s}))
        used = fetched(a_run(), {0: log}, {0: [0]}).measurement.energy
        assert used is not None
        assert used.joules == (None if joules is None else pytest.approx(joules))


def gpu_rows(device: int, watts: int, *, ahead: int = 0) -> str:
    """A row a second, of a device that takes so much, by a clock that is so many seconds ahead."""
    return "".join(
        f"{second + ahead}.5, {device}, 99 %, 5 MiB, 16384 MiB, {watts} W,"
        f" {watts * 1000 * second} mJ\n"
        for second in range(960, 995)
    )


GPU_POWER_HEADER = GPU_HEADER.replace("\n", ", power.draw [W], total_energy [mJ]\n")


def test_no_energy_of_a_run_of_which_a_device_or_a_node_has_no_samples(tmp_path: Path) -> None:
    """Issue 30, point 11: half of the joules over all of the tokens, and its method `counter`."""
    log = run_folder(tmp_path / "n1", GPU_POWER_HEADER + gpu_rows(0, 100) + gpu_rows(7, 700))
    run = replace(a_run(), hosts=("n1", "n2"))
    whole = fetched(run, {0: log}, {0: [0]}).measurement.energy
    assert whole.joules == pytest.approx(1500)
    assert whole.method == "counter"
    lost = fetched(run, {0: log}, {0: [0, 3]}).measurement.energy
    assert (lost.joules, lost.missing) == (None, "device 3 of n1 has no samples")
    other = run_folder(tmp_path / "n2", "")
    other.with_name("samples.csv").unlink()
    without = fetched(run, {0: log, 1: other}, {0: [0], 1: [0]}).measurement
    assert (without.energy.joules, without.energy.missing) == (None, "n2 was not sampled")
    assert without.telemetry.missing == "a node's devices were not sampled"


def test_a_pause_that_a_line_states_ties_it_to_the_line_before(tmp_path: Path) -> None:
    """Megatron's line after a save: 0.4 of its 1 s is the checkpoint's, not its step time's."""
    log = run_folder(tmp_path / "n1", GPU_POWER_HEADER + gpu_rows(0, 100))
    run = a_run()
    steps = [
        replace(step, step_time_ms=600.0, paused_ms=400.0) if step.iteration % 4 == 0 else step
        for step in run.measurement.intervals
    ]
    measured = replace(run.measurement, intervals=tuple(steps))
    found = fetched(replace(run, measurement=measured), {0: log}, {0: [0]}).measurement
    assert found.energy.joules == pytest.approx(1500)
    assert found.energy.within_percent == pytest.approx(0, abs=1e-6)


def test_a_nodes_window_is_anothers_by_its_own_clock(tmp_path: Path) -> None:
    """The second node's clock is 100 s ahead, as the control node saw by when it answered."""
    log = run_folder(tmp_path / "n1", GPU_POWER_HEADER + gpu_rows(0, 100))
    other = run_folder(tmp_path / "n2", GPU_POWER_HEADER + gpu_rows(0, 300, ahead=100))
    other.write_bytes(b"nothing here\n")
    for path, ahead in ((log, 0), (other, 100)):
        timeline = path.with_name("timeline.jsonl")
        polls = [json.loads(poll) for poll in timeline.read_text().splitlines()]
        lines: list[str] = []
        for poll in polls:
            seen = {"sent": poll["node"], "received": poll["node"] + 0.1}
            poll |= {"node": poll["node"] + ahead}
            lines += [json.dumps({**seen, **poll}) + "\n"]
        timeline.write_text("".join(lines))
    found = fetched(a_run(), {0: log, 1: other}, {0: [0], 1: [0]}).measurement
    assert found.energy.joules == pytest.approx(1500 + 4500)
    assert found.telemetry.mean_power_w == pytest.approx(200)


def test_a_timeline_of_empty_lines_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by fuzzing: each empty line was parsed; and polls had no end but their bytes."""
    timeline = tmp_path / "timeline.jsonl"
    poll = '{"sent": 1.0, "received": 1.6, "node": 1.5, "log_bytes": 7}\n'
    timeline.write_text("\n" * 100_000 + 9 * poll + poll[:30])
    assert reading._polls_of(tmp_path) == 9 * [(1.5, 7, 1.6)]
    monkeypatch.setattr(reading, "MOST_POLLS", 5)
    assert len(reading.looks(tmp_path)) == 5

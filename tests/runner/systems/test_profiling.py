"""The key `profile`: how it reads, what is refused, and what each trainer is told."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from runner.base.errors import UserError
from runner.figures.cell_statistics import cell_statistics
from runner.plan import checks
from runner.terms.profile import Profile
from runner.terms.record import Interval, Measurement, Record
from tests.runner.builders import small_cluster, small_matrix, small_run

EIGHT = small_cluster(2, 8, device="cuda")
TORCH: dict[str, Any] = {"tool": "torch", "steps": "20-22", "ranks": [0, 9]}
NSYS = {**TORCH, "tool": "nsys"}
CELL: dict[str, dict[str, Any]] = {
    "torch_gpt": {"system": "torch_gpt", "global_batch_size": 64},
    "torchtitan": {"system": "torchtitan", "pin": "0.3.0"},
    "megatron_core": {"system": "megatron_core", "mock_data": True, "global_batch_size": 128},
    "command": {
        "system": "command",
        **{"argv": ["/opt/train"], "cwd": "/opt", "log": {"step": r"(\d+)"}},
    },
}


def cell(system: str, profile: Any, **more: Any) -> dict[str, Any]:
    return {
        **CELL.get(system, {"system": system}),
        "nodes": 2,
        "devices_per_node": 8,
        "profile": profile,
        **more,
    }


def argv(system: str, profile: Any, rank: int = 0, **more: Any) -> str:
    return " ".join(small_run(cell(system, profile, **more), EIGHT).nodes[rank].argv)


def check(values: dict[str, Any], cluster: Any = EIGHT) -> None:
    checks.check_cells(small_matrix(defaults=values).cells, cluster, None)


def profile_of(value: Any) -> Profile | None:
    return small_matrix(defaults={"system": "torch_gpt", "profile": value}).cells[0].profile


def test_a_word_has_the_defaults_of_the_long_form() -> None:
    assert profile_of("torch") == Profile("torch", 10, 12, (0,))
    assert profile_of({"tool": "torch"}) == profile_of("torch")
    assert profile_of({"tool": "nsys", "steps": 7, "ranks": [1, 0], "program": "/x/nsys"}) == (
        Profile("nsys", 7, 7, (1, 0), "/x/nsys")
    )
    assert profile_of(None) is profile_of("none") is None


def test_a_traced_cell_is_another_cell_and_one_without_is_as_before() -> None:
    plain, traced, other = (
        small_matrix(defaults={"system": "torch_gpt", "profile": value}).cells[0].id
        for value in (None, "torch", {"tool": "torch", "steps": 8})
    )
    assert len({plain, traced, other}) == 3
    assert plain == small_matrix(defaults={"system": "torch_gpt"}).cells[0].id


@pytest.mark.parametrize(
    ("system", "profile", "more", "said"),
    [
        ("torch_gpt", "perf", {}, "'perf' is not one of torch, nsys"),
        ("torch_gpt", {"steps": "4-5"}, {}, "None is not one of torch, nsys"),
        ("torch_gpt", {"tool": "torch", "step": 4}, {}, "'step' (did you mean 'steps'?); it has"),
        *(("torch_gpt", {**TORCH, "steps": s}, {}, "as 10-12") for s in ("5-4", "x", 0)),
        *(("torch_gpt", {**TORCH, "ranks": r}, {}, "rank once") for r in ([], [0, 0], [-1], 0)),
        ("torch_gpt", {"tool": "torch", "program": "/x"}, {}, "program is the path of nsys"),
        ("torch_gpt", {**NSYS, "program": "nsys"}, {}, "write the absolute path of nsys"),
        ("torch_gpt", {**NSYS, "program": "/x; rm"}, {}, "write the absolute path of nsys"),
        ("libai", "torch", {}, "libai can be profiled by neither torch nor nsys"),
        ("megatron_lm", "nsys", {}, "megatron_lm can be profiled by neither torch nor nsys"),
        ("command", "torch", {}, "command can be profiled by nsys alone"),
        ("torchtitan", "nsys", {}, "torchtitan can be profiled by torch alone"),
        ("torchtitan", {"tool": "torch", "ranks": [0]}, {}, "on all ranks; leave ranks out"),
        ("command", {"tool": "nsys", "steps": 5}, {}, "is traced as a whole; leave steps out"),
        ("torch_gpt", {**TORCH, "ranks": [16]}, {}, "ranks has 16, and the cell has 0 to 15"),
        ("torch_gpt", {**TORCH, "steps": "48-49"}, {}, "train_iters is 50; make it 51 or more"),
        ("torch_gpt", {**TORCH, "steps": "3-4"}, {}, "begin at 4 or later"),
        ("torch_gpt", NSYS, {"launcher": "deepspeed"}, "launcher deepspeed starts those of"),
        ("torchtitan", {"tool": "torch"}, {"pin": "0.2.2"}, "trace again from iteration 19 on"),
        ("megatron_core", TORCH, {"tensorboard": True}, "takes the folder of tensorboard"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    system: str, profile: Any, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError) as refused:
        check(cell(system, profile, **more))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_nsys_is_refused_on_processors() -> None:
    with pytest.raises(UserError, match="nsys traces CUDA, and cluster_device is cpu"):
        check({"system": "torch_gpt", "profile": "nsys"}, small_cluster())


@pytest.mark.parametrize(
    ("system", "profile", "more"),
    [
        ("torch_gpt", TORCH, {}),
        ("torch_gpt", NSYS, {}),
        ("torchtitan", {"tool": "torch"}, {}),
        ("torchtitan", {"tool": "torch"}, {"pin": "0.2.2", "train_iters": 18}),
        ("megatron_core", TORCH, {"train_iters": 60}),
        ("command", "nsys", {}),
    ],
)
def test_what_can_run_is_not_refused(system: str, profile: Any, more: dict[str, Any]) -> None:
    check(cell(system, profile, **more))


def test_torch_gpt_is_told() -> None:
    words = "--profile torch --profile-steps 20-22 --profile-ranks 0,9 --profile-dir /opt/tb/runs/"
    assert words in argv("torch_gpt", TORCH)
    assert argv("torch_gpt", TORCH).endswith("/profile")
    assert "--profile" not in argv("torch_gpt", None)


@pytest.mark.parametrize("pin", ["core_v0.13.0", "core_v0.18.2"])
def test_megatron_is_told(pin: str) -> None:
    run = small_run(cell("megatron_core", TORCH, pin=pin), EIGHT).nodes[0]
    assert " ".join(run.argv).endswith(
        "--profile --profile-step-start 20 --profile-step-end 23 --profile-ranks 0 9"
        f" --use-pytorch-profiler --tensorboard-dir {run.dir}/profile/events"
    )
    assert argv("megatron_core", NSYS, pin=pin).endswith(
        "--profile --profile-step-start 19 --profile-step-end 22 --profile-ranks 0 9"
    )


def test_torchtitan_is_told() -> None:
    steps = {"tool": "torch", "steps": "20-22"}
    words = "save_traces_folder profile .profile_freq 22 .profiler_active 3 .profiler_warmup 3"
    for pin, section in (("0.2.2", "--profiling."), ("0.3.0", "--profiler.")):
        said = argv("torchtitan", steps, pin=pin)
        assert f"{section}enable_profiling {section}{words.replace(' .', f' {section}')}" in said
        assert ("--profiler.profiler_repeat 1" in said) == (pin == "0.3.0")
        assert "no_enable_profiling" not in said
    assert ".profiler_warmup 1" in argv("torchtitan", {"tool": "torch", "steps": "2-5"})


def test_nsys_stands_before_what_a_node_with_a_traced_rank_starts() -> None:
    run = small_run(cell("torch_gpt", {**NSYS, "ranks": [9]}), EIGHT)
    first, second = run.nodes
    assert first.argv[0].endswith("/env/bin/python3")
    assert second.argv[: second.argv.index("-m")] == (
        *("/usr/local/cuda/bin/nsys", "profile", "--sample=none", "--cpuctxsw=none"),
        *("--trace=cuda,nvtx", "--capture-range=cudaProfilerApi", "--capture-range-end=stop"),
        *("--force-overwrite=true", f"--output={second.dir}/node1", first.argv[0]),
    )
    assert "/usr/local/cuda/bin/nsys" in second.requires
    assert "/usr/local/cuda/bin/nsys" not in first.requires
    assert "--profile nsys --profile-steps 20-22 --profile-ranks 9" in " ".join(first.argv)


def test_command_is_traced_from_begin_to_end() -> None:
    found = argv("command", {"tool": "nsys", "program": "/x/nsys"})
    assert found.startswith("/x/nsys profile --sample=none --cpuctxsw=none --trace=cuda,nvtx --fo")
    assert found.endswith("/node0 /opt/train")
    values = cell("command", {"tool": "nsys", "ranks": [1, 8]}, launcher="processes")
    nodes = small_run(values, EIGHT).nodes
    traced = [[part[0].endswith("nsys") for part in node.processes] for node in nodes]
    assert traced == [[False, True, *[False] * 6], [True, *[False] * 7]]
    assert nodes[0].argv == nodes[0].processes[0]
    assert f"--output={nodes[1].dir}/rank8" in nodes[1].processes[0]


def recorded(schedule: Callable[[int], Any], iterations: int, first: int) -> list[int]:
    """Iterations from 1 that torch records, where the schedule's `first` step is iteration 1."""
    steps = range(iterations)
    return [step + 1 for step in steps if "RECORD" in schedule(step + first).name]


@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
def test_torchs_own_schedule_records_what_was_asked_for() -> None:
    """Built as torchtitan's and Megatron's sources build it of these options."""
    schedule = pytest.importorskip("torch").profiler.schedule

    def option(words: str, name: str) -> int:
        parts = words.split()
        return int(parts[parts.index(name) + 1])

    for steps, wanted in (("20-22", [20, 21, 22]), ("2-2", [2]), ("1-3", [1, 2, 3])):
        profile = {"tool": "torch", "steps": steps}
        words = argv("torchtitan", profile)
        names = ("profile_freq", "profiler_warmup", "profiler_active")
        freq, warmup, active = (option(words, f"--profiler.{name}") for name in names)
        wait = freq - (active + warmup)
        assert recorded(schedule(wait=wait, warmup=warmup, active=active, repeat=1), 60, 0) == (
            wanted
        )
        words = argv("megatron_core", profile)
        start, end = (option(words, f"--profile-step-{name}") for name in ("start", "end"))
        waits = {"wait": max(start - 1, 0), "warmup": 1 if start > 0 else 0}
        assert recorded(schedule(**waits, active=end - start, repeat=1), 60, 1) == wanted


def test_torchtitan_0_2_2_records_no_more_in_a_run_that_is_not_refused() -> None:
    schedule = pytest.importorskip("torch").profiler.schedule
    of = schedule(wait=6, warmup=3, active=3)  # --profiling.profile_freq 12
    assert [step + 1 for step in range(18) if of(step).name != "NONE"] == [7, 8, 9, 10, 11, 12]
    assert of(18).name == "WARMUP"


def record(profile: Profile | None, warmup: int | None = None) -> Record:
    steps = tuple(Interval(step, 1, 100.0 if step > 12 else 500.0, 80.0) for step in range(1, 21))
    return replace(
        Record("c", "a", "a-1", "torch_gpt", "ok", ""),
        measurement=Measurement(intervals=steps),
        warmup_iters=warmup,
        profile=profile,
    )


def test_traced_steps_are_never_counted() -> None:
    traced = Profile("torch", 10, 12, (0,))
    assert cell_statistics([record(traced)]).window == (14, 20)
    assert cell_statistics([record(traced, 2)]).window == (14, 20)
    assert cell_statistics([record(traced, 15)]).window == (16, 20)
    assert cell_statistics([record(None, 2)]).window == (3, 20)


def test_of_a_run_that_was_traced_as_a_whole_nothing_is_counted() -> None:
    found = cell_statistics([record(Profile("nsys"))])
    assert (found.window, found.samples_per_s) == (None, None)
    assert found.missing["samples_per_s"] == ("a profiler ran along in all logged iterations")

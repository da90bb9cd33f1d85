"""What public logs broke, each kind with a form of its own (regressions.md)."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from runner.__main__ import main

pytestmark = pytest.mark.made_log

NEOX = (
    " samples/sec: {rate} | iteration {n:8d}/   50 | elapsed time per iteration (ms): 1000.0 |"
    " learning rate: 1.200E-09 | {label}: {loss} | number of skipped iterations:   0 |"
    " number of nan iterations:   0 |"
)
HF = " {n}%|# | {n}/60 [00:0{n}<00:09,  3.10s/it]{{'loss': {loss}, 'grad_norm': {norm}, 'epoch': 0.1}}"


@pytest.fixture
def parsed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def of(*logs: str | bytes) -> dict[str, Any]:
        paths = [tmp_path / f"node{number}.log" for number in range(len(logs))]
        for path, log in zip(paths, logs, strict=True):
            path.write_bytes(log if isinstance(log, bytes) else log.encode())
        capsys.readouterr()
        assert main(["parse", *map(str, paths), "--format", "json"]) == 0
        said: dict[str, Any] = json.loads(capsys.readouterr().out)
        return said

    return of


@pytest.mark.parametrize("label", ["lm_loss", "total loss", "reward-model loss"])
def test_a_loss_by_another_name_is_no_nan(parsed: Any, label: str) -> None:
    lines = [NEOX.format(rate=2, n=n, label=label, loss=f"{4 - n / 10:.6E}") for n in range(1, 8)]
    said = parsed("\n".join(lines) + "\n")
    assert (said["status"], said["nan"], said["last_loss"]) == ("unfinished", 0, 3.3)
    assert said["samples_per_s"] == 2
    gone = parsed("\n".join(lines).replace(f"| {label}: 3.300000E+00 ", "") + "\n")
    assert gone["nan"] == 1  # Megatron takes a NaN out of the line


def test_a_zero_with_a_lost_norm_is_a_lost_loss(parsed: Any) -> None:
    good = [HF.format(n=n, loss=2 - n / 10, norm=0.8) for n in range(1, 5)]
    lost = [HF.format(n=n, loss=0.0, norm="nan") for n in range(5, 9)]
    said = parsed("\n".join([*good, *lost]) + "\n")
    assert (said["status"], said["nan"], said["last_loss"]) == ("diverged", 4, None)
    said = parsed("\n".join([*good, HF.format(n=5, loss=0.0, norm=0.0)]) + "\n")
    assert (said["nan"], said["last_loss"]) == (0, 0.0)


def test_a_log_that_is_no_text_is_said_to_be_none(parsed: Any) -> None:
    text = "\n".join(
        NEOX.format(rate=2, n=n, label="lm loss", loss=1) for n in range(1, 8)
    ).encode()
    for log, word in (
        (gzip.compress(text), "is gzip; unpack it"),
        (b"\x28\xb5\x2f\xfd" + gzip.compress(text)[9:], "is zstd; unpack it"),
        (text.decode().encode("utf-16"), "is UTF-16 text; convert it"),
        (text.decode().encode("utf-16-le"), "is no text (UTF-16 has such zeros"),
    ):
        said = parsed(log)
        assert (said["status"], word in said["reason"]) == ("no_step", True), said["reason"]
        assert "nothing in the log says why" not in said["reason"]


def test_steps_of_a_trainer_that_nobody_knows_are_shown(parsed: Any) -> None:
    said = parsed(
        "".join(f"num_updates={n} | loss {9 - n / 10} | wps 81{n}00.5\n" for n in range(9))
    )
    assert (
        "no line is of a known family; 'num_updates=0 | loss 9.0 | wps 81000.5'" in said["reason"]
    )
    assert "give patterns" in said["reason"]
    same = parsed("waiting for 3 of 8 nodes\n" * 9)
    assert "repeats with a counter" not in same["reason"]


@pytest.mark.parametrize(
    "rows",
    [
        "index, memory.used [MiB], utilization.gpu [%]\n0, 512 MiB, [N/A]\n1, 256 MiB, [N/A]\n",
        "memory.used [MiB]\n512 MiB\n",
        "name, memory.used [MiB], temperature.gpu\nNVIDIA L4, 512 MiB, 61\n",
        "utilization.gpu [%], memory.used [MiB], pstate, uuid\n97 %, 512 MiB, P0, GPU-1\n",
    ],
)
def test_rows_of_nvidia_smi_as_people_ask_for_them(parsed: Any, rows: str) -> None:
    steps = "\n".join(NEOX.format(rate=2, n=n, label="lm loss", loss=1) for n in range(1, 8))
    assert parsed(f"{steps}\nbuffers of 90000 MiB\n{rows}")["memory_used_mib"] == 512


def test_two_trainings_are_not_two_nodes(parsed: Any) -> None:
    def log(loss: float) -> str:
        line = "[titan] 2026-05-11 08:00:0{n},1 - root - INFO - step: {n}  loss:  {loss}  memory: 1GiB(5%)  tps: 100  mfu: 25.4%\n"
        return "".join(line.format(n=n, loss=loss - n / 10) for n in range(1, 8))

    said = parsed(log(9.0), log(8.5))["reason"]
    assert "has another loss at the same steps (8.9 and 8.4 at step 1): these are two" in said
    assert "another loss" not in parsed(log(9.0), log(9.0))["reason"]


SWIFT_KEYS = ("global_step/max_steps", "steps[global_step/max_steps]", "iteration")
SWIFT_BAR = "Train:  {n}%|#         | {n}/900 [04:00<9:00:00,  3.29s/it]\r"


def swift(n: int, key: str, late: int = 0, speed: str = "s/it", **more: Any) -> dict[str, Any]:
    """One object of step n, of which each took 12.5 s; the clock began `late` s before step 1."""
    minutes, seconds = divmod(int(12.5 * n) + late, 60)
    elapsed = f"{minutes // 60}h {minutes % 60}m {seconds}s" if minutes >= 60 else ""
    return {
        **(more or {"loss": 2 - n / 100, "grad_norm": 1.5, "learning_rate": 1e-5}),
        key: f"{n}/900",
        "elapsed_time": elapsed or (f"{minutes}m {seconds}s" if minutes else f"{seconds}s"),
        "remaining_time": "5h 1m 7s",
        "memory(GiB)": 6.5,
        f"train_speed({speed})": 12.5 if speed == "s/it" else 0.08,
    }


@pytest.mark.parametrize("key", SWIFT_KEYS)
@pytest.mark.parametrize("speed", ["s/it", "iter/s"])
@pytest.mark.parametrize("late", [0, 51])
def test_objects_of_ms_swift_say_their_step(parsed: Any, key: str, speed: str, late: int) -> None:
    objects = [swift(n, key, late, speed) for n in range(20, 100, 4)]
    as_text = [{name: str(value) for name, value in each.items()} for each in objects]
    bars = [SWIFT_BAR.format(n=n) for n in range(20, 100, 4)]
    for log in (
        "".join(f"{each}\n" for each in objects),
        "".join(f"{bar}{each}\n{bar}" for bar, each in zip(bars, objects, strict=True)),
        "".join(f"[rank0]: {each}\n" for each in as_text),
        "".join(json.dumps(each) + "\n" for each in as_text),
    ):
        said = parsed(log)
        figures = ("logged_lines", "last_iteration", "planned_iterations", "last_loss")
        assert [said[figure] for figure in figures] == [20, 96, 900, 1.04]
        assert said["memory_reserved_mib"] == 6656
        assert said["step_time_ms"] == pytest.approx(12500, rel=1e-9 if not late else 0.02)
        assert (said["status"], said["nan"]) == ("unfinished", 0)


def test_evaluations_of_ms_swift_are_no_steps_and_a_nan_is_one(parsed: Any) -> None:
    key = SWIFT_KEYS[0]
    objects = [swift(n, key) for n in range(893, 901)]
    objects[4:4] = [swift(896, key, eval_loss=1.25)]
    said = parsed("".join(f"{each}\n" for each in [*objects, swift(900, key, train_runtime=9.5)]))
    assert (said["logged_lines"], said["last_validation_loss"]) == (8, 1.25)
    assert said["status"] == "ok"
    lost = [*objects[:5], swift(897, key, loss=float("nan"), grad_norm=float("nan"))]
    assert parsed("".join(json.dumps(each) + "\n" for each in lost))["status"] == "diverged"


@pytest.mark.parametrize(
    "behind", ["{bar}{each}\n", "{bar}\r        \r{each}\n{bar}\r", "{bar}\n{each}\n{bar}\n"]
)
def test_json_objects_behind_bars(parsed: Any, behind: str) -> None:
    bar = "{n}%|####| {n}/60 [00:10<00:30,  2.17s/it]"
    hf = {"loss": 1.5, "grad_norm": 0.8, "learning_rate": 5e-5, "epoch": 0.17}
    factory = {"current_steps": 0, "total_steps": 60, "loss": 1.5, "elapsed_time": "0:01:21"}
    for family, each in (("hf_trainer", hf), ("llama_factory", factory)):
        steps = [
            {**each, **{key: n for key in each if key == "current_steps"}}
            for n in range(10, 61, 10)
        ]
        said = parsed(
            "".join(
                behind.format(bar=bar.format(n=n), each=json.dumps(step))
                for n, step in zip(range(10, 61, 10), steps, strict=True)
            )
        )
        assert (said["family"], said["logged_lines"]) == (family, 6)
        assert (said["last_iteration"], said["planned_iterations"], said["last_loss"]) == (
            60,
            60,
            1.5,
        )
    finished = "\r".join(bar.format(n=n) for n in (20, 40, 60))
    metrics = [json.dumps({"iteration": n, "time": 0.5, "total_loss": 9.0}) for n in range(20, 60)]
    assert parsed(f"{finished}{metrics[0]}\n" + "\n".join(metrics[1:]) + "\n")["logged_lines"] == 40

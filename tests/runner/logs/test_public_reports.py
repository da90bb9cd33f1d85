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

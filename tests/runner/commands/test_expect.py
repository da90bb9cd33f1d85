"""`expect` on campaigns, logs and numbers, by its command line."""

import json
from pathlib import Path

import pytest

from runner.__main__ import main
from runner.expect.references import MEANINGS
from tests.runner.gpu_campaign import gpus

LOG = "".join(
    f"iteration {step:8}/     100 | elapsed time per iteration (ms): 1000.0 |"
    f" global batch size:    64 | lm loss: {9 - step / 10:E} |\n"
    for step in (10, 20, 30)
)
NUMBER = ["--device", "H200", "--devices", "2", "--model-size", "8B", "--tokens-per-sample", "8192"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    gpus(folder)
    return folder


def expect(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    code = main(["expect", *map(str, words)])
    told = capsys.readouterr()
    return code, told.out + told.err


def test_a_number_is_compared_under_its_conditions(capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--precision", "bf16", "--global-batch-size", 2, "--sources", "torchtitan"]
    code, said = expect(capsys, "8000", *NUMBER, *more)
    assert code == 0
    assert "not known here: micro batch" in said
    code, said = expect(capsys, "8,000", *NUMBER, *more, "--micro-batch-size", 1)
    others, ours = said.split("  measured by this project: ")
    assert "published by others: not compared" in others
    assert "docs/results" not in others
    assert ours.startswith("90 % of the nearest, 8,852 tokens/s per device (torchtitan 0.2.2;")
    assert "; it recomputes selected parts (here not known)" in ours  # of one kind


def test_a_number_above_the_devices_peak_is_not_compared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    of = ["--device", "H100", "--devices", 1, "--model-size", "8B", "--precision", "bf16"]
    code, said = expect(capsys, "300000", *of, "--tokens-per-sample", 8192)
    assert code == 3
    assert "impossible: it needs 14,400 TFLOP/s of each device, and the peak of H100 is 99" in said


def test_a_log_without_a_device_is_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "train.log"
    log.write_text(LOG)
    code, said = expect(capsys, log, "--devices", 8, "--tokens-per-sample", 2048)
    assert code == 3
    assert "16,384 tokens/s per device" in said
    assert "not compared: a log names no device; add --device" in said
    code, said = expect(capsys, log)
    assert code == 3
    assert "add --devices and --tokens-per-sample" in said
    of = ["--devices", 8, "--tokens-per-sample", 2048, "--model-size", "1.3B"]
    of += ["--precision", "bf16"]
    code, said = expect(capsys, log, *of, "--device", "NVIDIA A100-SXM4-80GB")
    assert code == 0
    assert "of the nearest" in said
    assert "global batch of " in said


def test_a_campaign_is_compared_cell_by_cell_and_with_earlier_ones(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = next(runs.iterdir()).name
    code, said = expect(capsys, campaign, "--runs", runs, "--only", "*fp8*", "--format", "json")
    assert code == 3  # nobody published a 345M in fp8
    (speed,) = json.loads(said)["speeds"]
    assert speed["conditions"]["precision"] == "fp8"
    assert speed["expectations"][0]["percent"] is None
    assert {"what": "precision", "here": "fp8", "there": "bf16"} in (
        speed["expectations"][0]["differences"]
    )
    gpus(tmp_path)
    (tmp_path / campaign).rename(tmp_path / "earlier")
    (runs / "earlier").symlink_to(tmp_path / "earlier")
    code, said = expect(capsys, campaign, "--runs", runs, "--only", "*zero_stage=1*", "--no-own")
    assert "your campaigns" not in said
    code, said = expect(capsys, campaign, "--runs", runs, "--only", "*zero_stage=1*")
    (runs / "earlier").unlink()
    assert code == 0
    assert "your campaigns: 100 % of" in said
    assert "campaign earlier" in said


def test_own_figures_of_a_file_count_beside_the_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = dict.fromkeys(MEANINGS, "") | {
        "device": "My card",
        "devices": "2",
        "model": "mine",
        "parameters_b": "8",
        "precision": "bf16",
        "tokens_per_sample": "8192",
        "global_batch_size": "2",
        "trainer": "own",
        "figure": "10000",
        "unit": "tokens_per_s_per_device",
        "quoted": "10000",
        "where": "our wiki",
        "address": "https://wiki.example.org/speeds",
        "read": "2026-11-24",
    }
    file = tmp_path / "ours.csv"
    file.write_text(",".join(values) + "\n" + ",".join(values.values()) + "\n")
    own = ["--precision", "bf16", "--global-batch-size", 2, "--speeds", file]
    code, said = expect(capsys, "9000", "--device", "My card", *NUMBER[2:], *own)
    assert code == 0
    assert (
        "published by others: 90 % of 10,000 tokens/s per device (own; mine; 2 x My card)" in said
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["0", "--device", "H200"], "0 is not a speed; give tokens/s of one device, above 0"),
        (["9000", *NUMBER, "--precision", "bf61"], "(did you mean 'bf16'?)"),
        (["9000", "--device", "H200", "--model-size", "big"], "write it as 345M, 8B or 30B-A3B"),
        (["9000", "--only", "a"], "--only chooses cells of a campaign"),
        (["9000", "--devices", "0"], "--devices is 0; it must be at least 1"),
        (["nowhere", "--device", "H200"], "--device is for a log or a number, and nowhere is"),
        (["9000", "--speeds", "nowhere.csv"], "nowhere.csv cannot be read"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = expect(capsys, *words)
    assert code == 2
    assert expected in said
    assert said.count("\n") == 1

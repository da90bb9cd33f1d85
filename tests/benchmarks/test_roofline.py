"""The roofline as a command, and its tables in the docs."""

import json
from pathlib import Path

import pytest

from benchmarks.roofline import main

DOCUMENT = Path(__file__).parents[2] / "docs" / "performance.md"


def test_the_documents_table_is_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "gpt2-medium", "--micro-batch-size", "64"]) == 0
    assert capsys.readouterr().out.strip() in DOCUMENT.read_text()


@pytest.mark.parametrize(
    ("words", "rate", "mfu"),
    [
        ("--model gpt-1.3b", "79.9", "70.0"),
        (
            "--model llama3-8b --micro-batch-size 1 2 --data-parallel 2 --zero-stage 3",
            "13,004",
            "76.1",
        ),
    ],
)
def test_floors_of_larger_models_are_as_documented(
    words: str, rate: str, mfu: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 0
    printed = capsys.readouterr().out
    for figure in (rate, mfu):
        assert f"**{figure}**" in printed
        assert figure in DOCUMENT.read_text()


def floor(printed: str) -> float:
    return float(printed.split("**floor, ms**")[1].split("**")[1])


def test_rates_that_were_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--model", "gpt2-medium", "--micro-batch-size", "32"]
    saved = tmp_path / "rates.json"
    saved.write_text(json.dumps({"memory": 4000, "parts": {"mlp_in: gradients": 386.5}}))
    main(words)
    best = floor(capsys.readouterr().out)
    main([*words, "--rates", str(saved)])
    # 13.19 TFLOP at half of 773 TFLOP/s
    assert floor(capsys.readouterr().out) - best == pytest.approx(13.194 / 773 * 1e3, abs=0.1)
    with pytest.raises(SystemExit):
        main([*words, "--memory", "0"])

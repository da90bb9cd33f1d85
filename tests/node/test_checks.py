"""What verify makes of torch's and DeepSpeed's words, and how apex's options are handed over."""

from pathlib import Path
from typing import Any

import pytest

from node import apex
from node.checks import deepspeed, pytorch

DATA = Path(__file__).parents[1] / "data" / "ds_report"


def report(name: str) -> dict[str, Any]:
    found: dict[str, Any] = deepspeed.parse((DATA / name).read_text(encoding="utf-8"))
    return found


def test_a_report_of_0_8_0_is_read() -> None:
    found = report("0.8.0-torch-1.10.1.txt")
    assert found["deepspeed info"] == "0.8.0, unknown, unknown"
    assert found["torch version"] == "1.10.1+cu102"
    assert found["deepspeed wheel compiled w."] == "torch 1.10, cuda 10.2"
    assert found["nvcc version"] == "13.0"
    assert found["ops"]["cpu_adam"] == [False, True]
    assert found["ops"]["async_io"] == [False, False]
    assert found["ops"]["stochastic_transformer"] == [False, True]
    assert len(found["ops"]) == 13


SPEC = {"version": "0.8.0", "ops": [], "device": "cpu"}


@pytest.mark.parametrize(
    ("more", "torch", "cuda", "faults"),
    [
        ({}, "1.10.1+cu102", "10.2", []),
        ({"version": ""}, "1.10.1+cu102", "10.2", []),
        (
            {"version": "0.9.0"},
            "1.10.1+cu102",
            "10.2",
            ["deepspeed is 0.8.0, not 0.9.0"],
        ),
        (
            {},
            "1.12.1+cu113",
            "11.3",
            [
                "ds_report runs with torch 1.10.1+cu102, and the environment has 1.12.1+cu113",
                "deepspeed was built with torch 1.10, and runs with 1.12.1+cu113",
                "deepspeed was built with CUDA 10.2, and torch is built for 11.3",
            ],
        ),
        (
            {"device": "cuda", "ops": ["cpu_adam"]},
            "1.10.1+cu102",
            "10.2",
            [
                "nvcc is of CUDA 13.0, and torch is built for 10.2",
                "the operator cpu_adam is not built",
            ],
        ),
    ],
)
def test_what_does_not_fit_is_named(
    more: dict[str, Any], torch: str, cuda: str, faults: list[str]
) -> None:
    said = report("0.8.0-torch-1.10.1.txt")
    assert deepspeed.faults({**SPEC, **more}, said, torch, cuda) == faults


def test_why_a_report_failed_is_what_was_raised() -> None:
    words = "Traceback:\n  File\npydantic.errors.PydanticUserError: no type\n\nFor further\n"
    assert deepspeed.reason(words) == "pydantic.errors.PydanticUserError: no type"
    assert deepspeed.reason("killed\n") == "killed"


@pytest.mark.parametrize(
    ("version", "device", "have", "cuda", "available", "faults"),
    [
        ("1.10.1", "cpu", "1.10.1+cu102", "10.2", False, []),
        ("1.10.1+cu113", "cuda", "1.10.1+cu113", "11.3", True, []),
        ("2.9.0+cu128", "cuda", "2.9.0+cu128", "12.8", True, []),
        ("1.10.1", "cpu", "1.10.2", None, False, ["torch is 1.10.2, not 1.10.1"]),
        (
            "1.10.1+cu113",
            "cuda",
            "1.10.1+cu113",
            "11.1",
            False,
            ["torch is built for CUDA 11.1, not 11.3", "torch sees no CUDA device; see nvidia-smi"],
        ),
        (
            "2.0",
            "cuda",
            "2.0",
            None,
            False,
            ["torch is a build without CUDA, and the nodes train on CUDA; run setup again"],
        ),
    ],
)
def test_a_torch_that_is_not_the_pins_is_named(
    version: str, device: str, have: str, cuda: str | None, available: bool, faults: list[str]
) -> None:
    spec = {"version": version, "device": device}
    assert pytorch.faults(spec, have, cuda, available) == faults


def test_apex_options_go_the_way_that_pip_knows() -> None:
    both = ["cpp_ext", "cuda_ext"]
    assert apex.options(both, "23.0.1") == [
        "--global-option=--cpp_ext",
        "--global-option=--cuda_ext",
    ]
    assert apex.options(both, "25.3")[1:] == [
        "--config-settings=--global-option=--cpp_ext",
        "--config-settings=--global-option=--cuda_ext",
    ]
    assert apex.variables(both) == {"APEX_CPP_EXT": "1", "APEX_CUDA_EXT": "1"}

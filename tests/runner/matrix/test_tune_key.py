"""`tune:` of a matrix: what is read, and what is refused in one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from runner.base.errors import UserError
from runner.matrix.file import load_matrix, parse_matrix
from runner.terms.cell import Matrix
from tests.conftest import ROOT

DEFAULTS = {"system": "torch_gpt", "global_batch_size": 32, "train_iters": 40, "nodes": 2}
KNOBS = {"micro_batch_size": [4, 1, 2]}


def matrix(tune: Any, **more: Any) -> Matrix:
    content = {"name": "t", "defaults": DEFAULTS, "tune": tune, **more}
    return parse_matrix(json.dumps(content), "t.yaml", "t", lambda _: 1)


def knobs(**more: Any) -> dict[str, Any]:
    return {"knobs": {**KNOBS, **more}}


@pytest.mark.parametrize(
    ("tune", "more", "words"),
    [
        ([], {}, "write tune: {knobs: {...}}"),
        ({}, {}, "tune has no knobs; name at least one"),
        ({"knobs": ["zero_stage"]}, {}, "must name each knob with its values"),
        ({"knobs": {"micro_batch_size": 4}}, {}, "must be a list such as [1, 2]"),
        ({"knobs": {"micro_batch_size": []}}, {}, "must be a list such as [1, 2]"),
        (knobs(zero_stage=[0, 0]), {}, "knob 'zero_stage' names a value twice"),
        (knobs(zero_stag=[0, 1]), {}, "did you mean 'zero_stage'?"),
        (knobs(seq_length=[64, 128]), {}, "seq_length cannot be a knob: it would change"),
        (knobs(lr=[0.1, 0.2]), {}, "lr cannot be a knob"),
        (knobs(global_batch_size=[16, 32]), {}, "objective: tokens_per_s"),
        (knobs(zero_stage=[0, 9]), {}, "zero_stage"),
        (knobs(system=["torch_gtp"]), {}, "did you mean 'torch_gpt'?"),
        ({"knobs": KNOBS, "budget": 3}, {}, "unknown key 'budget'"),
        ({"knobs": KNOBS, "objective": "speed"}, {}, "it must be one of step_time"),
        ({"knobs": KNOBS, "short_iters": 0}, {}, "short_iters"),
        ({"knobs": KNOBS, "headroom_percent": 120}, {}, "headroom_percent"),
        (knobs(), {"axes": {"zero_stage": [0, 1]}}, "axes does not go with tune"),
        (knobs(), {"repeats": 3}, "repeats does not go with tune"),
        (knobs(), {"exclude": [{"lr": 1}]}, "only axes can be excluded"),
        ({"knobs": {f"k{at}": [1, 2] for at in range(17)}}, {}, "combinations, more than 50,000"),
        ({"knobs": KNOBS, "systems": []}, {}, "systems must be a mapping"),
        (
            {"knobs": {**KNOBS, "system": ["torch_gpt"]}, "systems": {"torchtitan": {}}},
            {},
            "names 'torchtitan', and the knob `system` does not",
        ),
        (
            {"knobs": {"system": ["torch_gpt"]}, "systems": {"torch_gpt": {"system": "x"}}},
            {},
            "sets `system`",
        ),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tune: Any, more: Any, words: str) -> None:
    with pytest.raises(UserError) as refused:
        matrix(tune, **more)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_system_has_settings_and_knobs_of_its_own() -> None:
    tune = {
        "knobs": {"system": ["torch_gpt", "torchtitan"], "micro_batch_size": [1, 2]},
        "systems": {
            "torchtitan": {"flavor": "8B", "knobs": {"compile": [True, False]}},
            "torch_gpt": {"model": "llama3-8b", "knobs": {"zero_stage": [0, 3]}},
        },
    }
    cells = matrix(tune).cells
    titan = [cell.axes for cell in cells if cell.system == "torchtitan"]
    assert [(one["micro_batch_size"], one["compile"]) for one in titan] == [
        (1, True),
        (1, False),
        (2, True),
        (2, False),
    ]
    ours = [cell for cell in cells if cell.system == "torch_gpt"]
    assert [cell.axes["zero_stage"] for cell in ours] == [0, 3, 0, 3]
    assert {cell.parameters["model"] for cell in ours} == {"llama3-8b"}


@pytest.mark.parametrize("name", ["start/tune", "gpu/tune-345m", "gpu/tune-llama-8b"])
def test_the_shipped_searches_have_one_training_each(name: str) -> None:
    found = load_matrix(Path(ROOT / f"matrices/{name}.yaml"), lambda _: 8)
    assert found.tune is not None
    assert len(found.cells) > 20
    assert len({cell.parameters["global_batch_size"] for cell in found.cells}) == 1

"""`pins:` of a matrix: whole pin sets, other versions of them, and what is refused."""

import json
from typing import Any

import pytest

from runner.base.errors import UserError
from runner.matrix.file import parse_matrix
from runner.matrix.pins_key import pin_sets_of, with_package
from runner.plan import checks
from runner.systems.common.pins import pins
from runner.terms.cell import Matrix
from tests.runner.builders import small_cluster

MAIN: dict[str, Any] = {
    "torch": {"version": "2.12.1", "torchvision": "0.27.0"},
    "requirements": ["numpy==2.4.6", {"requirements": ["apex-lib[x]==1.0"], "no_deps": True}],
}


def matrix(pin_sets: Any, **defaults: Any) -> Matrix:
    content = {"pins": pin_sets, "defaults": {"system": "torch_gpt", **defaults}}
    return parse_matrix(json.dumps(content), "m.yaml", "m", lambda _: 1)


def test_a_version_stands_where_it_is_pinned_else_in_a_step_of_its_own() -> None:
    named = {"from": "main", "with": ["torch==2.13.0", "numpy==2.5.0", "Apex_Lib==2.0"]}
    found = pin_sets_of({"pins": {"main": MAIN, "new": named}}, "m.yaml")
    assert found["main"] == MAIN
    assert found["new"] == {
        "torch": {"version": "2.13.0", "torchvision": "0.27.0"},
        "requirements": ["numpy==2.5.0", {"requirements": ["apex-lib[x]==2.0"], "no_deps": True}],
    }
    nccl = with_package(MAIN, "nvidia-nccl-cu13==2.30.7", "x")
    assert nccl["requirements"][-1] == {"requirements": ["nvidia-nccl-cu13==2.30.7"]}
    assert len(MAIN["requirements"]) == 2


def test_a_systems_own_pin_set_is_one_to_begin_with() -> None:
    found = matrix({"new": {"from": "torch_gpt/torch-2.13", "with": ["numpy==2.5.0"]}}, pin="new")
    assert "torch==2.13.0" in found.pins["new"]["requirements"]
    assert "numpy==2.5.0" in found.pins["new"]["requirements"]
    assert "numpy==2.4.6" in pins("torch_gpt")["torch-2.13"]["requirements"]
    assert found.cells[0].pin == "new"


def test_pin_sets_are_an_axis_of_a_command_that_the_inventory_need_not_know() -> None:
    content = {
        "pins": {"a": MAIN, "b": {"from": "a", "with": ["torch==2.13.0"]}},
        "defaults": {"system": "command", "argv": ["python", "train.py"], "log": "torch_gpt"},
        "axes": {"pin": ["a", "b"]},
    }
    held = parse_matrix(json.dumps(content), "m.yaml", "m", lambda _: 1)
    assert [cell.pin for cell in held.cells] == ["a", "b"]
    with pytest.raises(UserError, match="`pins` of the matrix have none"):
        checks.check_cells(held.cells, small_cluster(), None)
    checks.check_cells(held.cells, small_cluster().knowing(held.pins), None)


@pytest.mark.parametrize(
    ("pin_sets", "told"),
    [
        ([], "pins must map 1 to 1000 names"),
        ({"../x": MAIN}, "a name in pins"),
        ({"x": 3}, "pins: x is .3.; write it as a mapping"),
        ({"x": {"tortch": {}}}, "unknown key .tortch. .did you mean .torch"),
        ({"x": {"from": "y"}}, "from is 'y'.*name another pin set of `pins`, or one of a system"),
        ({"x": {"from": "y"}, "y": {"from": "x"}}, "circular `from`"),
        ({"x": {"from": "torch_gpt/torch-2.31"}}, "did you mean"),
        ({"x": {**MAIN, "with": "torch==1"}}, "with must be a list"),
        ({"x": {**MAIN, "with": ["torch>=1"]}}, "'torch>=1' is not one version"),
        ({"x": {"requirements": ["{{ lookup('pipe', 'id') }}"]}}, "which Ansible would resolve"),
        ({"x": {"environment": {"A": "{% x %}"}}}, "which Ansible would resolve"),
        ({"x": {"source": {"repository": "--upload-pack=x", "commit": "a" * 40}}}, "address"),
        ({"x": {"source": {"repository": ".", "commit": "abc"}}}, "40 hex digits"),
    ],
)
def test_bad_pin_sets_are_one_sentence(pin_sets: Any, told: str) -> None:
    with pytest.raises(UserError, match=told):
        matrix(pin_sets)

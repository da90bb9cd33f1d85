"""The systems agree with their roles; tests/on_nodes/test_adding_a_system.py adds one."""

import json

import pytest

from runner.base.errors import UserError
from runner.base.paths import PROJECT
from runner.matrix.keys import CELL_KEYS
from runner.systems.common.pins import pins
from runner.systems.common.registry import load_system, system_names
from runner.terms.record import MIXED_FP8

NAMES = system_names()


def roles_with_pins() -> set[str]:
    """Those with pin sets of their own; of `command` an inventory declares them."""
    roles = {path.parts[-3] for path in (PROJECT / "roles").glob("*/vars/pins.yml")}
    return {role for role in roles if pins(role)}


def test_each_system_has_a_role_and_each_role_with_pins_a_system() -> None:
    own = {name for name in NAMES if load_system(name).pins}
    assert own == roles_with_pins()


@pytest.mark.parametrize("name", NAMES)
def test_a_system_says_all_that_it_must(name: str) -> None:
    system = load_system(name)
    assert system.name == name
    assert system.pins == tuple(pins(name))
    assert system.parameter("micro_batch_size")
    for text in (system.summary, system.launcher):
        assert text
        assert text == text.strip(" .")


@pytest.mark.parametrize("name", NAMES)
def test_defaults_pass_their_own_checks_and_every_parameter_is_explained(name: str) -> None:
    parameters = load_system(name).parameters
    assert len({item.name for item in parameters}) == len(parameters)
    for item in parameters:
        assert item.name not in CELL_KEYS
        assert item.help
        assert item.wanted()
        assert item.read(None, "here") == item.default
        if item.default is not None:
            assert item.read(item.default, "here") == item.default
            assert type(item.read(item.default, "here")) is item.kind


@pytest.mark.parametrize("name", NAMES)
def test_arithmetic_is_what_the_parameters_say(name: str) -> None:
    system = load_system(name)
    precision = system.parameter("precision")
    if precision is None:
        assert system.arithmetic({}) in (None, "bf16", "fp16", "tf32", "fp32")
        return
    expected: dict[str, str | None] = {choice: choice for choice in precision.choices}
    if name == "torch_gpt":
        expected |= {"fp32": "tf32", "fp8": MIXED_FP8}
    assert {c: system.arithmetic({"precision": c}) for c in precision.choices} == expected


@pytest.mark.parametrize("name", NAMES)
def test_pins_are_literals(name: str) -> None:
    for content in pins(name).values():
        assert "{{" not in json.dumps(content)


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'torch_gpt'"):
        load_system("torch_gtp")
    with pytest.raises(UserError, match="there is no system 'base'"):
        load_system("base")

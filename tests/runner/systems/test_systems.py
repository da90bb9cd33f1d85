"""The systems agree with their roles and the inventory; another one is two files and no more."""

import json
from pathlib import Path

import pytest
import yaml

from runner.base.errors import UserError
from runner.base.paths import DEFAULT_INVENTORY, PROJECT
from runner.matrix.keys import CELL_KEYS
from runner.systems.common.pins import pins
from runner.systems.common.registry import load_system, system_names
from runner.terms.record import MIXED_FP8
from tests.asked_once import ansible_inventory
from tests.project_copy import copy_project, runner

NAMES = system_names()


def roles_with_pins() -> set[str]:
    """Those with pin sets of their own; of `command` an inventory declares them."""
    roles = {path.parts[-3] for path in (PROJECT / "roles").glob("*/vars/pins.yml")}
    return {role for role in roles if pins(role)}


def systems_of(inventory: Path) -> set[str]:
    """What the inventory asks setup for, on any of its hosts."""
    hosts = ansible_inventory(inventory)["_meta"]["hostvars"].values()
    return {name for variables in hosts for name in variables["cluster_systems"]}


def test_each_system_has_a_role_and_each_role_with_pins_a_system() -> None:
    own = {name for name in NAMES if load_system(name).pins}
    assert own == roles_with_pins()


INVENTORIES = sorted(file.parent for file in (PROJECT / "inventory").rglob("hosts.*"))


@pytest.mark.parametrize("inventory", INVENTORIES, ids=lambda p: p.name)
def test_inventories_ask_for_systems_that_exist(
    inventory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hostfile").write_text("node1 slots=8\n")
    monkeypatch.setenv("TRAINBENCH_HOSTFILE", str(tmp_path / "hostfile"))  # for `allocation`
    asked = systems_of(inventory)
    assert asked
    assert asked <= set(NAMES)


def test_the_quickstart_asks_for_the_reference_system() -> None:
    assert "torch_gpt" in systems_of(DEFAULT_INVENTORY)


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


# --- an eighth system -----------------------------------------------------------------------------

TOY = '''
"""A toy: a program that takes tensor and pipeline sizes."""

from runner.figures.flops import Decoder
from runner.systems.common.system import Estimate, Split, System
from runner.terms.cell import Parameter
from runner.terms.run import Command


SYSTEM = System(
    name="toy",
    summary="a toy",
    launcher="none",
    parameters=(
        Parameter("tensor_parallel", int, 1, "devices a layer is split over", minimum=1),
        Parameter("pipeline_parallel", int, 1, "devices the layers are split over", minimum=1),
        Parameter("expert_parallel", int, 1, "data parallel ranks of one expert", minimum=1),
    ),
    command=lambda cell, node: Command(
        argv=(f"{node.home}/env/bin/toy", str(node.node_rank)),
        env={"TOY": "1"},
        cwd=str(node.home),
        files={"toy.json": "{}"},
    ),
    model=lambda parameters: Decoder(2, 8, 4, 16, 100),
    estimate=lambda cell, cluster: Estimate(1.0, 2.0, "a guess"),
    parallel=(
        Split("tensor_parallel"),
        Split("pipeline_parallel"),
        Split("expert_parallel", within="data_parallel"),
    ),
)
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with one more system: one role folder, one file."""
    root = tmp_path_factory.mktemp("project")
    copy_project(root)
    role = root / "roles" / "toy"
    (role / "vars").mkdir(parents=True)
    (role / "vars" / "pins.yml").write_text(yaml.safe_dump({"toy_pins": {"toy-1": {"url": "x"}}}))
    (root / "runner" / "systems" / "toy.py").write_text(TOY)
    return root


def test_a_system_is_two_files_and_no_other(project: Path) -> None:
    listed = runner(project, "systems")
    assert [line.split()[0] for line in listed.stdout.splitlines() if "a toy" in line] == ["toy"]
    shown = runner(project, "systems", "toy")
    assert "pins: toy-1" in shown.stdout
    assert "devices a layer is split over" in shown.stdout


def test_the_new_system_is_planned(project: Path, tmp_path: Path) -> None:
    matrix = tmp_path / "m.yaml"
    matrix.write_text("defaults: {system: toy, devices_per_node: 2, tensor_parallel: 2}")
    done = runner(project, *("bench", "--matrix", str(matrix), "--dry-run", "--format", "json"))
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)[0]
    home = f"{project}/.trainbench/systems/toy/toy-1"
    assert plan["nodes"][0]["argv"] == [f"{home}/env/bin/toy", "0"]
    assert plan["nodes"][0]["env"]["TOY"] == "1"
    assert plan["files"] == {"localhost": {"toy.json": "{}"}}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            "devices_per_node: 2, pipeline_parallel: 3",
            "pipeline_parallel 3 does not divide the 2 devices (nodes 1 x ",
        ),
        (
            "devices_per_node: 2, tensor_parallel: 2, pipeline_parallel: 2",
            "tensor_parallel 2 x pipeline_parallel 2 does not divide the 2 devices (nodes 1 x ",
        ),
        (
            "devices_per_node: 2, expert_parallel: 3",
            "expert_parallel 3 does not divide data_parallel 2, whose ranks it splits; change one",
        ),
        ("model: x", "'model' is not a key of toy"),
    ],
)
def test_the_checks_for_every_system_hold_for_the_new_one(
    project: Path, tmp_path: Path, values: str, words: str
) -> None:
    matrix = tmp_path / "m.yaml"
    matrix.write_text(f"defaults: {{system: toy, {values}}}")
    done = runner(project, "bench", "--matrix", str(matrix))
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (project / "runs").exists()

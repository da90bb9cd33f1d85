"""A matrix file as cells: what multiplies, what is dropped, what is refused, and in which words."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.base.errors import UserError
from runner.matrix.cells import label
from runner.matrix.file import load_matrix, parse_matrix
from runner.systems.common.registry import load_system
from runner.terms.cell import Matrix
from tests.runner.builders import one_device, small_cluster, small_matrix

SYSTEM = "defaults: {system: torch_gpt}\n"


def parse(text: str) -> Matrix:
    return parse_matrix(text, "m.yaml", "m", one_device)


def made(content: dict[str, Any]) -> Matrix:
    return parse(yaml.safe_dump(content, sort_keys=False))


def names(found: Matrix) -> list[str]:
    return [cell.name for cell in found.cells]


def refusal(text: str) -> str:
    with pytest.raises(UserError) as caught:
        parse(text)
    assert not [sentence for sentence in caught.value.sentences if "\n" in sentence]
    return str(caught.value)


def test_all_faults_of_a_matrix_are_told_at_once() -> None:
    text = (
        "nme: x\ndefaults: {system: torch_gpt, zero_stage: 9, precison: bf16}\naxes: {nodes: [0]}"
    )
    with pytest.raises(UserError) as caught:
        parse(text)
    wrong = ("'nme' (did you mean 'name'?)", "'precison'", "zero_stage is 9")
    assert len(caught.value.sentences) == 3
    for words in wrong:
        assert words in str(caught.value)


# --- what becomes a cell --------------------------------------------------------------------------

AXES = f"{SYSTEM}axes: {{seed: [1, 2], nodes: [1, 2]}}\n"


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        (AXES, ["seed=1,nodes=1", "seed=1,nodes=2", "seed=2,nodes=1", "seed=2,nodes=2"]),
        (
            AXES + "exclude: [{seed: 2, nodes: 1}]",
            ["seed=1,nodes=1", "seed=1,nodes=2", "seed=2,nodes=2"],
        ),
        (f"{SYSTEM}include: [{{nodes: 2}}, {{nodes: 4}}]", ["nodes=2", "nodes=4"]),
    ],
)
def test_axes_multiply_and_the_last_one_changes_fastest(text: str, cells: list[str]) -> None:
    """Without the cells that match all keys of an entry of `exclude`; with those of `include`."""
    assert names(parse(text)) == cells


def test_include_adds_whole_cells_on_top_of_the_defaults_and_escapes_exclude() -> None:
    found = parse(
        "defaults: {system: torch_gpt, train_iters: 7}\n"
        "axes: {zero_stage: [0, 3]}\n"
        "exclude: [{zero_stage: 3}]\n"
        "include: [{zero_stage: 3, nodes: 2}]"
    )
    assert names(found) == ["zero_stage=0", "zero_stage=3,nodes=2"]
    assert [cell.parameters["train_iters"] for cell in found.cells] == [7, 7]
    assert found.cells[1].axes == {"zero_stage": 3, "nodes": 2}


def test_an_included_cell_may_have_axes_of_its_own() -> None:
    """They name it, in place of all its keys; what runs is the same."""
    entry = "zero_stage: 3, nodes: 2, env: {A: b}"
    plain, named = (
        parse(f"{SYSTEM}include: [{{{axes}{entry}}}]").cells[0]
        for axes in ("", "axes: {size: 345M, trainer: mine}, ")
    )
    assert (named.name, named.axes) == (
        "size=345M,trainer=mine",
        {"size": "345M", "trainer": "mine"},
    )
    assert replace(named, name=plain.name, axes=plain.axes, id=plain.id) == plain


def test_defaults_alone_are_one_cell_named_after_its_system() -> None:
    found = parse(SYSTEM)
    assert names(found) == ["torch_gpt"]
    assert (found.name, found.repeats, found.warmup_iters, found.time_limit_s) == (
        "m",
        1,
        None,
        3600,
    )
    cell = found.cells[0]
    assert (cell.pin, cell.dataset, cell.nodes, cell.devices_per_node) == (
        "torch-2.13",
        "default",
        1,
        1,
    )
    assert cell.parameters["global_batch_size"] == 16


def test_an_axis_wins_over_a_default() -> None:
    found = parse("defaults: {system: torch_gpt, lr: 1.0}\naxes: {lr: [0.5]}")
    assert found.cells[0].parameters["lr"] == 0.5


def test_the_keys_about_runs_are_read() -> None:
    found = parse(
        f"{SYSTEM}name: big.run-2\nrepeats: 3\nwarmup_iters: 5\ntime_limit_s: 90\n"
        "axes: {zero_stage: [0, 1]}\nbaseline: zero_stage=1"
    )
    assert (found.name, found.repeats, found.warmup_iters) == ("big.run-2", 3, 5)
    assert (found.time_limit_s, found.baseline) == (90.0, "zero_stage=1")


def test_env_is_an_axis_laid_over_the_defaults_env() -> None:
    found = parse(
        "defaults: {system: torch_gpt, env: {A: '1', B: '2'}}\n"
        "axes: {env: [{}, {B: '3'}, {NCCL_DEBUG: INFO, C: ''}]}"
    )
    assert names(found) == ["env=none", "env=B:3", "env=NCCL_DEBUG:INFO+C:"]
    assert [dict(cell.env) for cell in found.cells] == [
        {"A": "1", "B": "2"},
        {"A": "1", "B": "3"},
        {"A": "1", "B": "2", "NCCL_DEBUG": "INFO", "C": ""},
    ]


def test_a_cell_that_names_no_devices_has_all_that_its_nodes_have() -> None:
    """Before, it had one of eight."""
    text = f"{SYSTEM}axes: {{nodes: [1, 2]}}"
    found = parse_matrix(text, "m.yaml", "m", small_cluster(2, 8).devices_of)
    assert [(cell.devices_per_node, cell.world_size) for cell in found.cells] == [(8, 8), (8, 16)]


def test_devices_that_are_left_to_the_nodes_are_in_a_cells_id() -> None:
    """So a campaign of before, of one device, goes on where the matrix says devices_per_node: 1."""
    devices_of = small_cluster(1, 8).devices_of
    ids = []
    for more in ("", ", devices_per_node: 8", ", devices_per_node: 1"):
        text = f"defaults: {{system: torch_gpt{more}}}"
        ids.append(parse_matrix(text, "m.yaml", "m", devices_of).cells[0].id)
    assert ids[0] == ids[1] != ids[2]


def test_nodes_with_different_numbers_of_devices_are_refused_where_a_cell_names_none() -> None:
    cluster = small_cluster(3, 8)
    nodes = (*cluster.nodes[:2], replace(cluster.nodes[2], devices=4))
    devices_of = replace(cluster, nodes=nodes).devices_of
    text = f"{SYSTEM}axes: {{nodes: [2]}}"
    assert parse_matrix(text, "m.yaml", "m", devices_of).cells[0].devices_per_node == 8
    with pytest.raises(UserError, match=r"n2 has 8, n3 has 4.* give it under `defaults`"):
        parse_matrix(text.replace("2", "3"), "m.yaml", "m", devices_of)
    given = text.replace("[2]", "[3], devices_per_node: [4]")
    assert parse_matrix(given, "m.yaml", "m", devices_of).cells[0].devices_per_node == 4


def test_device_ids_are_an_axis_and_say_how_many_devices() -> None:
    found = parse(f"{SYSTEM}axes: {{device_ids: [[0], [2, 3]]}}")
    assert names(found) == ["device_ids=0", "device_ids=2+3"]
    assert [(cell.device_ids, cell.devices_per_node) for cell in found.cells] == [
        ((0,), 1),
        ((2, 3), 2),
    ]


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (True, "true"),
        (3, "3"),
        (0.0003, "0.0003"),
        (None, "None"),
        ([4, 5], "4+5"),
        ({}, "none"),
        ({"A": "x", "B": 1}, "A:x+B:1"),
        ("two\nlines\tand \x1b[31mred", "two lines and [31mred"),
    ],
)
def test_an_axis_value_is_one_line_in_a_name(value: Any, word: str) -> None:
    assert label(value) == word


# --- identity -------------------------------------------------------------------------------------


def test_a_cell_keeps_its_identity_between_versions() -> None:
    """If this fails, campaigns of the version before can no longer be continued: say so."""
    text = (
        "defaults: {system: torch_gpt, nodes: 2, env: {A: x}, device_ids: [0, 1]}\n"
        "axes: {zero_stage: [1], lr: [3e-4]}"
    )
    assert parse(text).cells[0].id == "zero_stage=1,lr=0.0003-4db924f6"


def test_a_cell_is_what_runs_not_how_it_was_written() -> None:
    one = parse("defaults: {system: torch_gpt, zero_stage: 1}").cells[0]
    other = parse(f"{SYSTEM}axes: {{zero_stage: [1]}}").cells[0]
    written_out = parse(f"{SYSTEM}axes: {{train_iters: [50], zero_stage: [1]}}").cells[0]
    assert one.digest == other.digest == written_out.digest
    assert len({one.id, other.id, written_out.id}) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"env": {"A": "2"}},
        {"pin": "torch-2.12"},
        {"dataset": "other"},
        {"nodes": 2},
        {"device_ids": (0,)},
        {"parameters": {"seed": 1}},
    ],
)
def test_everything_that_runs_is_part_of_the_identity(change: dict[str, Any]) -> None:
    cell = parse(SYSTEM).cells[0]
    assert replace(cell, **change).digest != cell.digest


def test_a_cell_may_ask_slurm_for_other_nodes_than_the_inventory() -> None:
    axes = {"partition": ["a", "b"], "exclude": ["n1", None]}
    cells = small_matrix(axes, {"constraint": "ib&a100"}).cells
    assert [dict(cell.placement) for cell in cells] == [
        {"partition": "a", "constraint": "ib&a100", "exclude": "n1"},
        {"partition": "a", "constraint": "ib&a100"},
        {"partition": "b", "constraint": "ib&a100", "exclude": "n1"},
        {"partition": "b", "constraint": "ib&a100"},
    ]
    assert len({cell.digest for cell in cells}) == 4
    with pytest.raises(UserError, match="nodelist is 'n1 n2'; it must be one word"):
        small_matrix(defaults={"nodelist": "n1 n2"})


def test_a_folder_name_is_safe_whatever_the_values_are() -> None:
    cell = made(
        {"defaults": {"system": "torch_gpt"}, "axes": {"env": [{"A": "../é $(x)/" * 40}]}}
    ).cells[0]
    assert len(cell.id) <= 89
    assert set(cell.id) <= set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._=,+-"
    )


# --- what YAML would change -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "read"),
    [("3e-4", 3e-4), ("3.0e-4", 3e-4), ("'3e-4'", 3e-4), ("1", 1.0), ("+.5", 0.5), ("1E3", 1000.0)],
)
def test_numbers_are_read_as_people_write_them(written: str, read: float) -> None:
    cell = parse(f"defaults: {{system: torch_gpt, lr: {written}}}").cells[0]
    assert cell.parameters["lr"] == read


@pytest.mark.parametrize(
    "text",
    ["on", "yes", "No", "010", "0x1F", "1:30", "1_000", "2024-01-01", "+5", "-0", "=", ".5.1"],
)
def test_a_variable_has_the_text_that_was_written(text: str) -> None:
    assert parse(f"defaults: {{system: torch_gpt, env: {{A: {text}}}}}").cells[0].env == {"A": text}


@pytest.mark.parametrize("text", ["true", "1.10", "1e3", "null", "", "~"])
def test_a_variable_that_yaml_would_change_must_be_quoted(text: str) -> None:
    said = refusal(f"defaults: {{system: torch_gpt, env: {{A: {text} }}}}")
    assert "env: A is " in said
    assert "quote it" in said
    quoted = parse(f"defaults: {{system: torch_gpt, env: {{A: '{text}'}}}}")
    assert quoted.cells[0].env == {"A": text}


@pytest.mark.parametrize("word", ["yes", "on", "True", "1", "'true'"])
def test_a_truth_value_is_true_or_false(word: str) -> None:
    said = refusal(f"defaults: {{system: torch_gpt, cuda_graphs: {word}}}")
    assert "cuda_graphs is" in said
    assert "it must be true or false" in said


def test_null_means_the_default() -> None:
    cell = parse("defaults: {system: torch_gpt, train_iters: null, nodes: ~, dataset:}").cells[0]
    assert (cell.parameters["train_iters"], cell.nodes, cell.dataset) == (50, 1, "default")


def test_anchors_and_merges_work_and_a_key_beside_them_wins() -> None:
    found = parse(
        "defaults: &base {system: torch_gpt, lr: 1.0, seed: 2}\n"
        "include:\n  - {<<: *base, lr: 0.5, nodes: 2}"
    )
    assert (found.cells[0].parameters["lr"], found.cells[0].parameters["seed"]) == (0.5, 2)


# --- seeds and a target ---------------------------------------------------------------------------


@pytest.mark.parametrize("until", ["5 %", "5%", "5", "5.0 %"])
def test_repeats_until_a_speed_is_known(until: str) -> None:
    found = parse(f"{SYSTEM}repeats: {{until: {until}, most: 10}}")
    assert (found.until_percent, found.repeats, found.first_numbers) == (5.0, 10, [1, 2, 3])
    assert parse(f"{SYSTEM}repeats: 4").first_numbers == [1, 2, 3, 4]


def test_seeds_are_repeats_of_one_cell_each_with_its_seed() -> None:
    found = parse(f"{SYSTEM}seeds: [7, 8, 9]\ntarget_loss: 3\naxes: {{zero_stage: [0, 1]}}")
    assert (found.repeats, found.seeds, found.target_loss) == (3, (7, 8, 9), 3.0)
    assert names(found) == ["zero_stage=0", "zero_stage=1"]
    plain = parse(f"{SYSTEM}repeats: 3\naxes: {{zero_stage: [0, 1]}}")
    assert [cell.id for cell in found.cells] == [cell.id for cell in plain.cells]
    assert (plain.seeds, plain.target_loss) == ((), None)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["holds no matrix"]),
        ("[]", ["holds no matrix"]),
        ("- a", ["holds no matrix"]),
        ("defaults: {system: torch_gpt", ["not valid YAML", "line"]),
        (
            "defaults:\n\tsystem: torch_gpt",
            ["not valid YAML at line 2: YAML does not allow a tab", "with spaces"],
        ),
        ("a: 1\x00", ["not valid YAML", "special characters"]),
        ("defaults: {system: torch_gpt, seed: 1, seed: 2}", ["'seed' is given twice", "line 1"]),
        ("repeats: 1\nrepeats: 2", ["'repeats' is given twice", "line 1"]),
        ("defaults: *nothing", ["not valid YAML", "*nothing repeats what is marked &nothing"]),
        ("defaults: !!bool maybe", ["not valid YAML"]),
        ("defaults: !!python/object:os.system {}", ["unsupported YAML tag", "line 1"]),
        ("--- {}\n--- {}", ["not valid YAML at line 2", "another document"]),
        ("axes: &a {env: [*a]}", ["nests too deeply"]),
        ("axes: " + "[" * 5000, ["nests too deeply"]),
        (f"{SYSTEM}axes: {{env: [{{A: !!binary eHg=}}]}}", ["unsupported YAML tag"]),
        (f'{SYSTEM}axes: {{env: [{{A: "\\ud800"}}]}}', ["UTF-8"]),
        ("repeat: 3", ["unknown key 'repeat'", "did you mean 'repeats'?"]),
        ("5: 3", ["unknown key 5", "keys are name, title, description, defaults"]),
        ("train_iters: 3", ["unknown key 'train_iters'", "under `defaults` or `axes`"]),
        ("nodes: 3", ["unknown key 'nodes'", "under `defaults` or `axes`"]),
        (f"{SYSTEM}name: a/b", ["name is 'a/b'", "letters, digits"]),
        (f"{SYSTEM}name: 5", ["name is 5"]),
        (f"{SYSTEM}repeats: {{until: 5 %}}", ["most of repeats is None", "3 to 1000"]),
        (f"{SYSTEM}repeats: {{until: 5 %, most: 2}}", ["most of repeats is 2", "3 to 1000"]),
        (f"{SYSTEM}repeats: {{until: 0, most: 9}}", ["until of repeats is 0", "above 0"]),
        (f"{SYSTEM}repeats: {{until: 100 %, most: 9}}", ["is 100 %", "below 100 %"]),
        (f"{SYSTEM}repeats: {{until: soon, most: 9}}", ["until of repeats is soon"]),
        (f"{SYSTEM}repeats: {{to: 5, most: 9}}", ["unknown key 'to'", "until: 5 %, most: 10"]),
        (f"{SYSTEM}seeds: [1]\nrepeats: {{until: 5 %, most: 9}}", ["drop repeats"]),
        (f"{SYSTEM}repeats: 0", ["repeats is 0", "a whole number of 1 to 1000"]),
        (f"{SYSTEM}shuffle_seed: -1", ["shuffle_seed is -1", "of 0 to 4294967295"]),
        (f"{SYSTEM}repeats: 1001", ["repeats is 1001", "a whole number of 1 to 1000"]),
        (
            f"{SYSTEM}repeats: 1000\naxes: {{seed: [{','.join(map(str, range(101)))}]}}",
            ["101 cells x 1000 repeats are more than 100000 runs"],
        ),
        (f"{SYSTEM}seeds: 3", ["seeds is 3", "list 1 to 1000 whole numbers", "such as [1, 2, 3]"]),
        (f"{SYSTEM}seeds: [1, 1]", ["seeds is [1, 1]", "each once"]),
        (f"{SYSTEM}seeds: []", ["seeds is []", "list 1 to 1000"]),
        (f"{SYSTEM}seeds: [true]", ["seeds is [True]"]),
        (f"{SYSTEM}seeds: [1, 2]\nrepeats: 2", ["is one repeat; drop repeats"]),
        (f"{SYSTEM}seeds: [1, 2]\naxes: {{seed: [1]}}", ["sets the seed", "drop `seed`"]),
        (
            "defaults: {system: oneflow_gpt}\nseeds: [1, 2]",
            ["oneflow_gpt has no seed parameter", "use `repeats`"],
        ),
        (f"{SYSTEM}target_loss: low", ["target_loss is 'low'", "a number of at least 0"]),
        (f"{SYSTEM}repeats: 1.5", ["repeats is 1.5", "a whole number"]),
        (f"{SYSTEM}warmup_iters: -1", ["warmup_iters is -1", "at least 0"]),
        (f"{SYSTEM}time_limit_s: soon", ["time_limit_s is 'soon'", "a number"]),
        (f"{SYSTEM}time_limit_s: nan", ["time_limit_s is nan", "a number"]),
        (f"{SYSTEM}time_limit_s: .inf", ["time_limit_s is '.inf'", "a number"]),
        (f"{SYSTEM}time_limit_s: 1{'0' * 400}", ["at line 2 is too large for a number"]),
        (f"{SYSTEM}time_limit_s: true", ["time_limit_s is true", "a number"]),
        ("defaults: {nodes: 1}", ["no system is named", "torch_gpt"]),
        ("defaults: {system: torch_gtp}", ["no system 'torch_gtp'", "did you mean 'torch_gpt'?"]),
        ("defaults: {system: 5}", ["system is 5", "text"]),
        ("defaults: [1]", ["defaults must be a mapping"]),
        ("axes: {zero_stage: 0}", ["'zero_stage' must be a list", "under `defaults`"]),
        ("axes: {zero_stage: []}", ["'zero_stage' must be a list"]),
        ("axes: {zero_stage: [1, 1]}", ["'zero_stage' names a value twice"]),
        ('axes: {"a\\nb": 1}', ["'a\\nb' must be a list"]),
        (f"{SYSTEM}axes: {{zero: [1]}}", ["'zero' is not a key of torch_gpt"]),
        (f"{SYSTEM}axes: {{zero_stag: [1]}}", ["did you mean 'zero_stage'?"]),
        (f"{SYSTEM}axes: {{zero_stage: [4]}}", ["zero_stage is 4", "one of 0, 1, 2, 3"]),
        (f"{SYSTEM}axes: {{seed: [a]}}", ["seed is 'a'", "a whole number of at least 0"]),
        (f"{SYSTEM}axes: {{pin: [torch-2.1]}}", ["pin is 'torch-2.1'", "torch-2.11"]),
        (f"{SYSTEM}axes: {{dataset: [../x]}}", ["dataset is '../x'", "a folder's name"]),
        (f"{SYSTEM}exclude: [{{zero_stage: 1}}]", ["exclude entry 1", "is not an axis"]),
        (f"{SYSTEM}axes: {{seed: [1]}}\nexclude: [{{sed: 1}}]", ["did you mean 'seed'?"]),
        (f"{SYSTEM}axes: {{seed: [1]}}\nexclude: [{{seed: 2}}]", ["entry 1 matches no cell"]),
        (f"{SYSTEM}axes: {{seed: [1]}}\nexclude: [{{seed: 1}}]", ["every cell is excluded"]),
        (f"{SYSTEM}axes: {{seed: [0]}}\nexclude: [{{seed: false}}]", ["entry 1 matches no cell"]),
        ("axes: {lr: [a  b, a b]}", ["both written a b", "leave one"]),
        ("axes: {lr: [a+b, [a, b]]}", ["both written a+b", "leave one"]),
        (f"{SYSTEM}exclude: {{seed: 1}}", ["exclude must be a list of mappings"]),
        (f"{SYSTEM}include: [1]", ["include must be a list of mappings"]),
        (f"{SYSTEM}include: [{{}}]", ["include must be a list of mappings"]),
        (f"{SYSTEM}include: [{{axes: 5}}]", ["include entry 1: axes must be a mapping"]),
        (f"{SYSTEM}include: [{{axes: {{a: [1]}}}}]", ["axes: 'a' must be one value"]),
        (f"{SYSTEM}include: [{{5: 1}}]", ["include entry 1: 5 is not a key"]),
        (f"{SYSTEM}axes: {{seed: [1]}}\ninclude: [{{seed: 1}}]", ["are the same cell"]),
        (f"{SYSTEM}axes: {{lr: [1, '1']}}", ["'lr' has two values", "written 1, so"]),
        (f"{SYSTEM}axes: {{device_ids: [[1, 1]]}}", ["device_ids is [1, 1]", "each device once"]),
        (f"{SYSTEM}axes: {{device_ids: [3]}}", ["device_ids is 3", "such as [4, 5]"]),
        (f"{SYSTEM}axes: {{device_ids: [[-1]]}}", ["device_ids is [-1]"]),
        (f"{SYSTEM}axes: {{device_ids: [[true]]}}", ["device_ids is [True]"]),
        (
            "defaults: {system: torch_gpt, device_ids: [1, 2], devices_per_node: 3}",
            ["device_ids names 2 devices, devices_per_node is 3", "leave devices_per_node out"],
        ),
        ("defaults: {system: torch_gpt, env: [A]}", ["env must be a mapping"]),
        ("defaults: {system: torch_gpt, env: {A-B: x}}", ["'A-B' is not a variable's name"]),
        (
            "defaults: {system: torch_gpt, env: {A: [1]}}",
            ["env: A is a list, not text", "quote it"],
        ),
        ('defaults: {system: torch_gpt, env: {A: "\\0"}}', ["A holds a NUL character"]),
        (f"{SYSTEM}baseline: 5", ["baseline is 5", "AXIS=VALUE"]),
        (f"{SYSTEM}axes: {{seed: [1]}}\nbaseline: sed=1", ["'sed' is not an axis", "'seed'"]),
        (f"{SYSTEM}axes: {{seed: [1]}}\nbaseline: seed=2", ["no cell has it", "values are 1"]),
        (
            f"{SYSTEM}axes: {{seed: [{','.join(map(str, range(101)))}],"
            f" train_iters: [{','.join(map(str, range(1, 101)))}]}}",
            ["multiply to 10100 cells", "at most 10000"],
        ),
    ],
)
def test_a_bad_matrix_is_refused_by_name(text: str, words: Sequence[str]) -> None:
    said = refusal(text)
    for word in words:
        assert word in said


@pytest.mark.parametrize(
    "baseline", ["zero_stage=1", "zero_stage = 1.0", "env=A=x", "system=TORCH_GPT"]
)
def test_a_baseline_is_compared_as_collect_does(baseline: str) -> None:
    axes = "axes: {zero_stage: [0, 1], env: [{A: x}]}"
    assert parse(f"{SYSTEM}{axes}\nbaseline: {baseline}").baseline == baseline


def test_files_that_are_no_matrix_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9")
    for path, words in (
        (tmp_path / "none.yaml", "there is no matrix file"),
        (tmp_path, "is a folder"),
        (tmp_path / "latin.yaml", "not text in UTF-8"),
    ):
        with pytest.raises(UserError, match=words):
            load_matrix(path, one_device)


def test_a_matrix_is_named_after_its_file_unless_it_has_a_name(tmp_path: Path) -> None:
    path = tmp_path / "scaling.yaml"
    path.write_text(f"\ufeff{SYSTEM}", encoding="utf-8")  # an editor's byte order mark
    assert load_matrix(path, one_device).name == "scaling"


@pytest.fixture
def _declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have torch_gpt's keys as those of a system whose pin sets inventories declare."""
    system = replace(load_system("torch_gpt"), name="command")
    monkeypatch.setattr("runner.matrix.cells.load_system", lambda name: system)


@pytest.mark.usefixtures("_declared")
def test_a_system_without_pin_sets_of_its_own_needs_neither_pin_nor_dataset() -> None:
    (cell,) = parse("defaults: {system: command}").cells
    assert (cell.pin, cell.dataset) == ("", "")
    (cell,) = parse("defaults: {system: command, pin: my trainer, dataset: wiki}").cells
    assert (cell.pin, cell.dataset) == ("my trainer", "wiki")
    for pin in ("../x", "..", "5", "[a]", "true", '"a\\nb"'):
        assert "pin is" in refusal(f"defaults: {{system: command, pin: {pin}}}")

"""Bad matrices and inventories through the whole command: one sentence, exit code 2, no launch."""

import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runner.__main__ import main
from runner.base.ssh_words import ENDED_EARLY
from tests.golden.places import inventory

GOOD = "defaults: {system: torch_gpt}\n"
# An address on which nothing listens: connections are refused at once.
CLOSED = {"ansible_host": "127.0.0.1", "ansible_port": 9, "ansible_user": "nobody"}


@dataclass(frozen=True)
class Bad:
    """One mistake: a matrix, what the inventory says besides, more arguments; what is answered."""

    matrix: str
    words: tuple[str, ...]
    variables: Mapping[str, Any] = field(default_factory=dict)
    hosts: Any = None
    arguments: tuple[str, ...] = ()


BAD = {
    "unknown key": Bad("defualts: {}\n", ("unknown key 'defualts'", "did you mean 'defaults'?")),
    "key of another place": Bad(
        f"{GOOD}zero_stage: 1\n", ("unknown key 'zero_stage'", "under `defaults` or `axes`")
    ),
    "unknown parameter": Bad(
        "defaults: {system: torch_gpt, zero_stag: 1}",
        ("'zero_stag' is not a key of torch_gpt", "did you mean 'zero_stage'?"),
    ),
    "batch that does not divide": Bad(
        "defaults: {system: torch_gpt, devices_per_node: 2, micro_batch_size: 5}",
        ("micro_batch_size 5 x data_parallel 2 does not divide global_batch_size 16",),
    ),
    "heads that do not divide": Bad(
        "defaults: {system: torch_gpt, num_attention_heads: 3}",
        ("num_attention_heads 3 does not divide hidden_size 128",),
    ),
    "more nodes than there are": Bad(
        "defaults: {system: torch_gpt, nodes: 4, global_batch_size: 64}",
        ("nodes is 4, but the inventory place has 1",),
    ),
    "more devices than there are": Bad(
        "defaults: {system: torch_gpt, devices_per_node: 4}",
        ("devices_per_node is 4, but localhost has 2", "cluster_devices_per_node"),
    ),
    "broken matrix": Bad("defaults: {system: torch_gpt\n", ("is not valid YAML at line",)),
    "tabs in a matrix": Bad("defaults:\n\tsystem: torch_gpt\n", ("not valid YAML at line 2",)),
    "empty matrix": Bad("# nothing\n", ("holds no matrix", "defaults: {system: ...}")),
    "key that stands twice": Bad(f"{GOOD}{GOOD}", ("'defaults' is given twice",)),
    "no system": Bad("axes: {zero_stage: [0]}\n", ("no system is named",)),
    "unknown system": Bad("defaults: {system: torch-gpt}", ("did you mean 'torch_gpt'?",)),
    "unknown pin": Bad(
        "defaults: {system: torch_gpt, pin: torch-2.10}",
        ("pin is 'torch-2.10'", "torch-2.13, torch-2.12, torch-2.11"),
    ),
    "wrong value": Bad("defaults: {system: torch_gpt, zero_stage: 4}", ("one of 0, 1, 2, 3",)),
    "nothing chosen": Bad(GOOD, ("--only zero* matches no cell",), arguments=("--only", "zero*")),
    "nothing left to measure": Bad(
        f"{GOOD}warmup_iters: 50\n", ("train_iters 50 leaves nothing to measure", "at least 51")
    ),
    "fp16 on a CPU": Bad(
        "defaults: {system: torch_gpt, precision: fp16}", ("fp16 needs a GPU; use bf16 or fp32",)
    ),
    "device named twice": Bad(
        "defaults: {system: torch_gpt, device_ids: [0, 0]}", ("list each device once",)
    ),
    "device that is not there": Bad(
        "defaults: {system: torch_gpt, device_ids: [0, 5]}",
        ("device_ids names 5, but localhost has devices 0 to 1",),
    ),
    "everything excluded": Bad(
        f"{GOOD}axes: {{seed: [1]}}\nexclude: [{{seed: 1}}]", ("every cell is excluded",)
    ),
    "exclude that matches nothing": Bad(
        f"{GOOD}axes: {{seed: [1]}}\nexclude: [{{seed: 2}}]", ("exclude entry 1 matches no cell",)
    ),
    "the same cell twice": Bad(
        f"{GOOD}axes: {{seed: [1]}}\ninclude: [{{seed: 1}}]", ("are the same cell; drop one",)
    ),
    "variable with a bad name": Bad(
        "defaults: {system: torch_gpt, env: {NCCL-DEBUG: INFO}}",
        ("'NCCL-DEBUG' is not a variable's name",),
    ),
    "baseline that is no axis": Bad(
        f"{GOOD}axes: {{zero_stage: [0]}}\nbaseline: zero_stge=0", ("did you mean 'zero_stage'?",)
    ),
    "template in the inventory": Bad(
        GOOD, ("cluster_root of localhost is a template",), {"cluster_root": "{{ home }}/tb"}
    ),
    "misspelt inventory key": Bad(
        GOOD,
        ("unknown key 'cluster_devices'", "did you mean 'cluster_device'?"),
        {"cluster_devices": "cpu"},
    ),
    "unknown device": Bad(GOOD, ("cluster_device is 'gpu'",), {"cluster_device": "gpu"}),
    "no nodes group": Bad(
        GOOD, ("no hosts in a group called nodes",), hosts="workers: {hosts: {a: {}}}"
    ),
    "host name that leads out of its folder": Bad(
        GOOD,
        ("'../../pwn' cannot be a node's name",),
        hosts="nodes: {hosts: {../../pwn: {ansible_connection: local}}}",
    ),
    "broken inventory": Bad(
        GOOD, ("hosts.yml:2: YAML does not allow a tab",), hosts="nodes:\n\tx: {}"
    ),
}
BY_SUBPROCESS = ("broken matrix", "broken inventory")


def arguments(bad: Bad, folder: Path) -> list[str]:
    matrix = folder / "m.yaml"
    matrix.write_text(bad.matrix)
    place = inventory(folder / "place", bad.hosts, **bad.variables)
    runs = folder / "runs"
    return [
        *("bench", "--matrix", str(matrix), "-i", str(place), "--runs", str(runs), *bad.arguments)
    ]


def assert_one_sentence(stderr: str, *words: str) -> None:
    assert stderr.startswith("error: ")
    assert stderr.count("\n") == 1
    assert stderr.endswith("\n")
    assert "Traceback" not in stderr
    for word in words:
        assert word in stderr


@pytest.mark.parametrize("name", BAD)
def test_one_sentence_and_exit_code_2(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --dry-run too: what cannot run is refused there in the same words."""
    line = arguments(BAD[name], tmp_path)
    for more in ([], ["--dry-run"]):
        assert main([*line, *more]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert_one_sentence(said.err, *BAD[name].words)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", BY_SUBPROCESS)
def test_one_sentence_and_exit_code_2_of_the_real_command(name: str, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "runner", *arguments(BAD[name], tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert_one_sentence(done.stderr, *BAD[name].words)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["--matrix", "none.yaml"], ["there is no matrix file none.yaml"]),
        (["--matrix", "tests"], ["tests is a folder"]),
        (["--matrix", "{good}", "-i", "inventory/locl"], ["did you mean inventory/local?"]),
        (["--matrix", "{good}", "-i", "local"], ["no inventory local (did you mean inventory/"]),
        (["--matrix", "{good}", "-i", "{good}"], ["no hosts in a group called nodes"]),
        (["--matrix", "{good}", "-i", "runner"], ["the inventory runner cannot be read"]),
        (["--matrix", "{good}", "--runs", "{good}"], ["cannot be made", "--runs"]),
        (["--matrix", "{good}", "--runs", "/tmp/{{{{ 7*6 }}}}"], ["holds a template mark"]),
    ],
)
def test_paths_that_lead_nowhere(
    line: list[str], words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = tmp_path / "good.yaml"
    good.write_text(GOOD)
    runs = [] if "--runs" in line else ["--runs", str(tmp_path / "runs")]
    assert main(["bench", *(word.format(good=good) for word in line), *runs]) == 2
    assert_one_sentence(capsys.readouterr().err, *words)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"tensor_parallel": 2, "pipeline_parallel": 2}, "x pipeline_parallel 2 does not divide"),
        ({"tensor_parallel": 3}, "tensor_parallel 3 does not divide the 2 devices"),
        (
            {"tensor_parallel": 2, "num_attention_heads": 1},
            "tensor_parallel 2 does not divide num_attention_heads 1",
        ),
    ],
)
def test_parallel_sizes_that_do_not_fit(
    sizes: dict[str, int],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = {"system": "torch_gpt", "devices_per_node": 2, **sizes}
    bad = Bad(f"defaults: {values}", (words,))
    assert main(arguments(bad, tmp_path)) == 2
    assert_one_sentence(capsys.readouterr().err, words)


# --- what only the nodes can tell -----------------------------------------------------------------


def after_the_first_line(stderr: str) -> str:
    """What follows the line that says which campaign begins."""
    first, _, rest = stderr.partition("\n")
    assert first.startswith("campaign m-place: 1 run; uses 2 of 2 devices per node; ")
    return rest


def test_a_host_out_of_reach_is_named_within_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = Bad(GOOD, (), hosts={"nodes": {"hosts": {"far": CLOSED}}})
    began = time.monotonic()
    assert main(arguments(bad, tmp_path)) == 2
    assert time.monotonic() - began < 60
    said = after_the_first_line(capsys.readouterr().err)
    assert_one_sentence(said, "far cannot be used: ", "-m ping")
    assert "Connection refused" in said or ENDED_EARLY in said, "Ansible says the second when busy"
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [".ansible"]


def test_all_hosts_out_of_reach_are_named_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = {"far": CLOSED, "farther": {**CLOSED, "ansible_port": 10}}
    matrix = "defaults: {system: torch_gpt, nodes: 2}\n"
    assert main(arguments(Bad(matrix, (), hosts={"nodes": {"hosts": hosts}}), tmp_path)) == 2
    said = after_the_first_line(capsys.readouterr().err)
    assert_one_sentence(said, "farther cannot be used: ", "far,farther -i", "takes your key")
    assert said.startswith(("error: far cannot be used: ", "error: far, farther cannot be used: "))


def test_nodes_that_are_not_set_up_are_answered_with_the_setup_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = Bad(GOOD, (), {"cluster_root": str(tmp_path / "root")})
    assert main(arguments(bad, tmp_path)) == 2
    said = after_the_first_line(capsys.readouterr().err)
    setup = f"python -m runner setup -i {tmp_path / 'place'}"
    lacks = "localhost is not set up for this: there is no dataset default and no system torch_gpt/"
    assert_one_sentence(said, lacks, setup)
    assert "dataset_names" not in said
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [".ansible"]
    assert not (tmp_path / "root").exists()

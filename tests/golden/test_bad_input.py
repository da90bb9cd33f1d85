"""Bad matrices and inventories through the whole command: one sentence, exit code 2, no launch.

One mistake for each place that refuses; each rule has its row in a test of that place.
"""

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
    "broken matrix": Bad("defaults: {system: torch_gpt\n", ("is not valid YAML at line",)),
    "key of the file": Bad("defualts: {}\n", ("'defualts'", "did you mean 'defaults'?")),
    "parameter": Bad("defaults: {system: torch_gpt, zero_stage: 4}", ("one of 0, 1, 2, 3",)),
    "plan": Bad(
        "defaults: {system: torch_gpt, nodes: 4, global_batch_size: 64}",
        ("nodes is 4, but the inventory place has 1",),
    ),
    "system": Bad("defaults: {system: torch_gpt, precision: fp16}", ("fp16 needs a GPU",)),
    "choice": Bad(GOOD, ("--only zero* matches no cell",), arguments=("--only", "zero*")),
    "broken inventory": Bad(GOOD, ("hosts.yml:2: YAML does not",), hosts="nodes:\n\tx: {}"),
    "inventory": Bad(GOOD, ("did you mean 'cluster_device'?",), {"cluster_devices": "cpu"}),
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
        (["--matrix", "none.yaml"], "there is no matrix file none.yaml"),
        (["--matrix", "{good}", "-i", "inventory/locl"], "did you mean inventory/local?"),
        (["--matrix", "{good}", "-i", "runner"], "the inventory runner cannot be read"),
        (["--matrix", "{good}", "--runs", "/tmp/{{{{ 7*6 }}}}"], "holds a template mark"),
    ],
)
def test_paths_that_lead_nowhere(
    line: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = tmp_path / "good.yaml"
    good.write_text(GOOD)
    runs = [] if "--runs" in line else ["--runs", str(tmp_path / "runs")]
    assert main(["bench", *(word.format(good=good) for word in line), *runs]) == 2
    assert_one_sentence(capsys.readouterr().err, words)
    assert not (tmp_path / "runs").exists()


# --- what only the nodes can tell -----------------------------------------------------------------


def after_the_first_line(stderr: str) -> str:
    """What follows the line that says which campaign begins."""
    first, _, rest = stderr.partition("\n")
    assert first.startswith("campaign m-place: 1 run; uses 2 of 2 devices per node; ")
    return rest


def test_hosts_out_of_reach_are_named_at_once_within_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = {"far": CLOSED, "farther": {**CLOSED, "ansible_port": 10}}
    matrix = "defaults: {system: torch_gpt, nodes: 2}\n"
    began = time.monotonic()
    assert main(arguments(Bad(matrix, (), hosts={"nodes": {"hosts": hosts}}), tmp_path)) == 2
    assert time.monotonic() - began < 60
    said = after_the_first_line(capsys.readouterr().err)
    assert_one_sentence(said, "farther cannot be used: ", "far,farther -i", "takes your key")
    assert said.startswith(("error: far cannot be used: ", "error: far, farther cannot be used: "))
    assert "Connection refused" in said or ENDED_EARLY in said, "Ansible says the second when busy"
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [".ansible"]


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

"""Playbooks as whole commands without a node, or a tag: an error, and never exit code 0."""

from pathlib import Path

import pytest

from runner.base.paths import DEFAULT_INVENTORY as LOCAL
from tests.roles.play import play

# Those that a user calls; all others lie in the same folder, which is what counts.
CASES = [
    ("setup.yml", ("--tags", "data", "--limit", "node1")),
    ("teardown.yml", ("--check",)),
]


@pytest.mark.parametrize(("playbook", "words"), CASES)
def test_a_hostfile_as_inventory_is_refused(
    playbook: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    hostfile = tmp_path / "hostfile"
    hostfile.write_text("node1 slots=8\n")
    refused = play(hostfile, *words, playbook=playbook)
    assert refused.rc == 2
    assert refused.out.strip() == (
        f"[ERROR]: the inventory {hostfile} has no hosts in a group called nodes; put the machines"
        " to train on under it, as inventory/local/hosts.yml does; for a hostfile:"
        " TRAINBENCH_HOSTFILE=FILE ... -i inventory/allocation"
    )


def test_a_limit_that_leaves_no_node_is_refused(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("{nodes: {hosts: {n1: }}, others: {hosts: {login: }}}")
    refused = play(inventory, "--limit", "login", playbook="verify.yml")
    assert refused.rc == 2
    assert refused.out.strip() == ("[ERROR]: --limit login leaves none of the nodes; there are n1")


@pytest.mark.parametrize(
    ("playbook", "words", "said"),
    [
        ("setup.yml", ("--tags", "data,verfy"), "--tags verfy is not a tag of this playbook (did"),
        ("setup.yml", ("--skip-tags", "gpus"), "--skip-tags gpus is not a tag of this playbook"),
        ("base.yml", ("--tags", "base"), "--tags base is not a tag of this playbook, which has"),
    ],
)
def test_a_tag_that_there_is_not_is_refused(
    playbook: str, words: tuple[str, ...], said: str
) -> None:
    refused = play(LOCAL, *words, playbook=playbook)
    assert refused.rc == 2, refused.out
    assert said in refused.out
    assert len(refused.out.strip().splitlines()) == 1


def test_tags_that_there_are_pass() -> None:
    """Ansible's own too, of which every playbook without --tags has `all`."""
    skipped = "validate,software,data,verify,npu"
    ran = play(LOCAL, "--tags", "base,gpu,never,untagged", "--skip-tags", skipped, "--check")
    assert ran.rc == 0, ran.out

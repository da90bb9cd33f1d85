"""Of nodes that share a root, one installs; and what the inventory says of that is looked into."""

import re
from typing import Any

import pytest
import yaml

from roles.trainer.action_plugins.pins import SHARED, todo
from roles.validate.filter_plugins.root_fault import root_fault
from runner.base.paths import PROJECT

TASKS = PROJECT / "roles" / "trainer" / "tasks" / "change.yml"


def hosts(**seen: list[str]) -> dict[str, Any]:
    return {
        host: {
            "__validate_seen": {"answer": {"seen": dict.fromkeys(names, 0.0)}},
            "cluster_root": "/nfs/tb",
        }
        for host, names in seen.items()
    }


@pytest.mark.parametrize(
    ("seen", "shared", "words"),
    [
        ({"a": ["a", "b"], "b": ["a", "b"]}, True, ""),
        ({"a": ["a"], "b": ["b"]}, False, ""),
        ({"a": ["a"], "b": ["b"]}, True, "a does not see what b writes into /nfs/tb; mount one"),
        (
            {"a": ["a", "b"], "b": ["a", "b"]},
            False,
            "a and b share /nfs/tb; set cluster_root_shared: true in the inventory",
        ),
    ],
)
def test_a_root_is_what_the_inventory_says(
    seen: dict[str, list[str]], shared: bool, words: str
) -> None:
    said = root_fault(hosts(**seen), "a", ["a", "b"], shared)
    assert said.startswith(words)
    assert bool(said) is bool(words)


def test_what_the_first_node_installs_for_all_is_all_that_a_node_does_but_for_images() -> None:
    env = {"make": "venv", "todo": [{"name": "apex"}], "python": "3.11.2", "lines": []}
    plan = {"pin": "p", "steps": [], "trees": [], "image": "", "constraints": []}
    mine = {"env": env, "trees": ["source"], "files": ["x"]}
    done = todo(plan, {}, [], mine)
    assert set(SHARED) == set(done) - {"plan", "image", "constraints"}
    assert not any(SHARED.values())
    # and the tasks ask for nothing else
    asked = set(re.findall(r"__trainer_todo\.(\w+)", TASKS.read_text(encoding="utf-8")))
    assert asked <= {*SHARED, "plan", "image"}


def test_the_first_node_of_a_shared_root_installs() -> None:
    text = yaml.safe_load((PROJECT / "playbooks/group_vars/all.yml").read_text())["node_installs"]
    assert "cluster_root_shared | default(false)" in text
    assert "ansible_play_hosts_all | first" in text

"""Run a real playbook and read its recap."""

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.fixtures import Group
from tests.conftest import ROOT

TRAINER = """
- hosts: nodes
  gather_facts: false
  tasks:
    - ansible.builtin.import_role:
        name: trainer
        tasks_from: "{{ entry }}"
      vars:
        systems_root: "{{ cluster_root }}/systems"
        node_root: "{{ cluster_root }}"
        own_folder: "{{ playbook_dir }}"
        trainer_pin_sets: "{{ trainer_pins | list }}"
"""


@dataclass(frozen=True)
class Ran:
    """A playbook's end: exit code, output, and host to the counts of its recap."""

    rc: int
    out: str

    @property
    def recap(self) -> dict[str, dict[str, int]]:
        lines = re.findall(r"^(\S+)\s+: (ok=.*)$", self.out, flags=re.MULTILINE)
        pairs = {host: re.findall(r"(\w+)=(\d+)", counts) for host, counts in lines}
        return {host: {name: int(n) for name, n in found} for host, found in pairs.items()}

    def changed(self) -> dict[str, int]:
        return {host: counts["changed"] for host, counts in self.recap.items()}


def play(
    inventory: Path, *words: str, playbook: str | Path = "setup.yml", timeout: int = 540
) -> Ran:
    """Run one of our playbooks by its name, or another by its absolute path; `timeout` in s."""
    ran = subprocess.run(
        ["ansible-playbook", str(Path("playbooks", playbook)), "-i", str(inventory), *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    return Ran(ran.returncode, ran.stdout + ran.stderr)


def play_trainer(group: Group, folder: Path, *words: str, timeout: int = 540, **extra: Any) -> Ran:
    """Run the `entry` of the role trainer, by a playbook in `folder`."""
    (folder / "trainer.yml").write_text(TRAINER)
    extra = {"entry": "main", **extra}
    path = folder / "trainer.yml"
    return play(group.inventory, "-e", json.dumps(extra), *words, playbook=path, timeout=timeout)

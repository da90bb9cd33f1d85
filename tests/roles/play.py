"""Run a real playbook and read its recap."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT


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
    inventory: Path, *words: str, playbook: str | Path = "setup.yml", timeout: int = 300
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

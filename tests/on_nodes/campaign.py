"""Start a real `bench` on test nodes in the background, watch it, and read what it left."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from runner.folder import names


class Bench:
    """One `python -m runner bench` in a process of its own."""

    def __init__(self, folder: Path, inventory: Path, matrix: dict[str, Any]) -> None:
        self.runs = folder / "runs"
        self.inventory = inventory
        self.matrix = folder / f"{matrix['name']}.yaml"
        self.matrix.write_text(yaml.safe_dump(matrix, sort_keys=False))
        self.campaign = self.runs / f"{matrix['name']}-{inventory.name}"
        self.process: subprocess.Popen[str] | None = None
        self._said = folder / f"{matrix['name']}.out"  # not a pipe, which would fill and hold it

    def argv(self, *more: str) -> list[str]:
        return [
            *(sys.executable, "-m", "runner", "bench", "--matrix", str(self.matrix)),
            *("-i", str(self.inventory), "--runs", str(self.runs), *more),
        ]

    def run(
        self, *more: str, timeout: float = 120, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end; `env` beside this process's own."""
        environ = {**os.environ, **(env or {})}
        return subprocess.run(
            self.argv(*more), capture_output=True, text=True, timeout=timeout, env=environ
        )

    def run_elsewhere(self, *more: str) -> subprocess.CompletedProcess[str]:
        """Run as if from another control machine, which shares no lock with this one."""
        return self.run(*more, env={"XDG_CACHE_HOME": str(self.runs.parent / "cache")})

    def start(self, *more: str) -> None:
        """Run in the background, in a process group of its own."""
        with self._said.open("w") as out:
            self.process = subprocess.Popen(
                self.argv(*more),
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    def finish(self, timeout: float = 120) -> tuple[int, str]:
        """Wait for the end; exit code and what it printed."""
        assert self.process is not None
        self.process.wait(timeout=timeout)
        return self.process.returncode, self.said()

    def said(self) -> str:
        """What the one in the background has printed."""
        return self._said.read_text(errors="replace") if self._said.exists() else ""

    def attempt(self, cell: str, repeat: int = 1, attempt: int = 1) -> Path:
        """The folder of a run, by the beginning of its cell's name."""
        found = list(self.campaign.glob(f"{cell}*/{names.attempt(repeat, attempt)}"))
        assert len(found) == 1, found
        return found[0]

    def outcome(self, cell: str, **which: int) -> dict[str, Any]:
        """outcome.json of a run."""
        said: dict[str, Any] = json.loads((self.attempt(cell, **which) / names.OUTCOME).read_text())
        return said

    def wait_for_step(self, step: int, timeout: float = 60) -> None:
        """Wait until a log of the campaign says that iteration `step` is over."""
        word = f"torch_gpt step={step}/".encode()
        self._wait(
            lambda: any(word in log.read_bytes() for log in self.campaign.rglob(names.LOG)),
            timeout,
            f"iteration {step}",
        )

    def wait_for_outcome(self, cell: str, timeout: float = 60) -> float:
        """Seconds until the run of `cell` has an outcome."""
        began = time.monotonic()
        self._wait(
            lambda: bool(list(self.campaign.glob(f"{cell}*/*/*/{names.OUTCOME}"))),
            timeout,
            f"the outcome of {cell}",
        )
        return time.monotonic() - began

    def _wait(self, condition: Callable[[], bool], timeout: float, what: str) -> None:
        """Wait; where it does not come, end bench and show what it said."""
        try:
            wait(condition, timeout, what)
        except TimeoutError as error:
            assert self.process is not None
            os.killpg(self.process.pid, signal.SIGKILL)
            raise TimeoutError(f"{error}; bench said: {self.finish()[1]}") from None


def wait(condition: Callable[[], bool], timeout: float, what: str) -> None:
    """Wait for a condition; TimeoutError says what did not come."""
    until = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"{what} did not come within {timeout} s")
        time.sleep(0.02)

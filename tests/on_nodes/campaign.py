"""Start a real `bench` on test nodes in the background, watch it, and read what it left."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from runner.folder import names


class Terminal:
    """A window: it reads what is printed until it is closed, which hangs up what runs in it."""

    def __init__(self, handle: int) -> None:
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(handle,), daemon=True)
        self._thread.start()

    def _read(self, handle: int) -> None:
        while not self._closing.is_set():
            with contextlib.suppress(OSError):  # what ran there has ended
                if select.select([handle], [], [], 0.05)[0] and not os.read(handle, 1 << 16):
                    break
        os.close(handle)

    def close(self) -> None:
        """Close the window."""
        self._closing.set()
        self._thread.join()


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
        self, *more: str, timeout: float = 400, env: Mapping[str, str] | None = None
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

    def start_in_terminal(self, *more: str) -> Terminal:
        """Run in the background, in a terminal of its own."""
        ours, its = os.openpty()
        self.process = subprocess.Popen(
            self.argv(*more),
            stdin=its,
            stdout=its,
            stderr=its,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(its)
        return Terminal(ours)

    def finish(self, timeout: float = 400) -> tuple[int, str]:
        """Wait for the end; exit code and what it printed."""
        assert self.process is not None
        self.process.wait(timeout=timeout)
        return self.process.returncode, self.said()

    def kill(self) -> None:
        """End the one in the background, if it still runs."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

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

    def wait_for_step(self, step: int, timeout: float = 300) -> None:
        """Wait until a log of the campaign says that iteration `step` is over."""
        word = f"torch_gpt step={step}/".encode()
        self._wait(
            lambda: any(word in log.read_bytes() for log in self.campaign.rglob(names.LOG)),
            timeout,
            f"iteration {step}",
        )

    def wait_for_outcome(self, cell: str, timeout: float = 300) -> float:
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


def descendants(pid: int) -> list[int]:
    """Processes that a process started, and those started."""
    found: list[int] = []
    todo = [pid]
    while todo:
        for children in Path(f"/proc/{todo.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                pids = [int(word) for word in children.read_text().split()]
                found += pids
                todo += pids
    return found

"""Run a playbook for a person: a line per step and node; all of Ansible's output goes to a file."""

import ctypes
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from node.supervisor.parent import PR_SET_PDEATHSIG
from runner.base.console import Screen
from runner.base.dataclass_schema import read
from runner.base.escapes import TerminalLine
from runner.base.exclusive import make_private
from runner.base.paths import PLAYBOOKS, PROJECT, ansible_environment, program
from runner.base.program_name import as_called
from runner.base.streams import say
from runner.launch.interrupts import Interrupts
from runner.launch.steps import Steps
from runner.terms.progress import VARIABLE, Told

PAUSE_S = 0.2  # between looks at what the playbook said
PATIENCE_S = 15.0  # of Ctrl-C with Ansible, which ends what it began
INTERRUPTED = 130
_LIBC = ctypes.CDLL(None)


@dataclass(frozen=True)
class PlaybookEnd:
    """How a playbook ended, and what its steps came to."""

    code: int
    steps: Steps
    took_s: float


def run_playbook(
    playbook: str,
    inventory: Path,
    arguments: Sequence[str],
    log: Path,
    *,
    verbose: bool,
    show: bool = True,
    console: Screen | None = None,
) -> PlaybookEnd:
    """Run `playbooks/<playbook>`; Ansible's output goes to `log`, and to a person if `verbose`.

    `show`: each step as it ends goes to a person, where Ansible's output does not: to `console`,
    or to standard output.
    """
    make_private(log.parent)
    argv = [program("ansible-playbook"), str(PLAYBOOKS / playbook), "-i", str(inventory.resolve())]
    interrupts, steps, began = Interrupts(), Steps(), time.monotonic()
    with (
        tempfile.NamedTemporaryFile(prefix="trainbench-steps-") as steps_file,
        interrupts.handled(),
    ):
        environment = {
            **os.environ,
            **ansible_environment(),
            "ANSIBLE_CALLBACKS_ENABLED": "steps",
            VARIABLE: steps_file.name,
        }
        with subprocess.Popen(
            [*argv, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=PROJECT,
            env=environment,
            start_new_session=True,  # Ctrl-C is ours to pass on, once
            preexec_fn=_end_with_parent,
        ) as process:
            keep = threading.Thread(target=_keep, args=(process.stdout, log, verbose))
            keep.start()
            screen = (console or Screen()) if show and not verbose else None
            _follow(process, steps_file, steps, interrupts, screen)
            keep.join()
    code = INTERRUPTED if interrupts.over else process.returncode
    return PlaybookEnd(code, steps, time.monotonic() - began)


def _end_with_parent() -> None:
    """Let Ansible get a Ctrl-C, by which it ends its workers, when this process was killed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGINT), 0, 0, 0)


def _keep(output: IO[bytes], log: Path, verbose: bool) -> None:
    """Write Ansible's output where only its owner reads it."""
    log.unlink(missing_ok=True)  # and so is no link, nor open to who opened the last one
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        for line in output:
            file.write(line)
            file.flush()
            if verbose:
                say(line.decode(errors="replace").rstrip("\n"))


def _follow(
    process: subprocess.Popen[bytes],
    said: IO[bytes],
    steps: Steps,
    interrupts: Interrupts,
    console: Screen | None,
) -> None:
    """Show each step as it ends, and what goes on, until the playbook has ended."""
    progress = Progress(
        SpinnerColumn(),
        BarColumn(12),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
        console=console,
        transient=True,
        expand=True,
    )
    with progress if console and console.is_interactive else nullcontext():
        bar, asked_at = progress.add_task("", total=None), 0.0
        while True:
            over = process.poll() is not None
            for event in _heard(said):
                for line in steps.take(event, time.monotonic()):
                    if console:
                        console.print(as_called(line), soft_wrap=True)
            finished = max(steps.begun - 1, 0)
            description = TerminalLine(steps.now)
            progress.update(
                bar, total=steps.plays or None, completed=finished, description=description
            )
            if over:
                return
            if interrupts.once() and not asked_at:
                asked_at = time.monotonic()
                process.send_signal(signal.SIGINT)
            if asked_at and (interrupts.twice() or time.monotonic() - asked_at > PATIENCE_S):
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(PAUSE_S)


def _heard(said: IO[bytes]) -> Iterator[Told]:
    """Yield the new lines; an incomplete line is left for the next time."""
    while line := said.readline():
        if not line.endswith(b"\n"):
            said.seek(-len(line), os.SEEK_CUR)
            return
        yield read(Told, json.loads(line), "what a playbook says of itself")

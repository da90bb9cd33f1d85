"""Run a playbook for a person: a line per step and node; all of Ansible's output goes to a file."""

import ctypes
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rich.status import Status

from node.supervisor.parent import PR_SET_PDEATHSIG
from runner.base.console import Screen, one_line
from runner.base.exclusive import make_private
from runner.base.paths import PLAYBOOKS, PROJECT, ansible_environment, program
from runner.base.program_name import as_called
from runner.base.streams import say
from runner.base.text import counted
from runner.launch.interrupts import Interrupts
from runner.terms.printed_answers import STEPS, StepOnHost

PAUSE_S = 0.2  # between looks at what the playbook said
MOST_LINES = 8  # of why a step failed
PATIENCE_S = 15.0  # of Ctrl-C with Ansible, which ends what it began
INTERRUPTED = 130
_LIBC = ctypes.CDLL(None)


@dataclass(frozen=True)
class PlaybookEnd:
    """How a playbook ended: Ansible's exit code, what its steps came to, whether all of it ran."""

    code: int
    steps: Sequence[StepOnHost]
    complete: bool
    took_s: float

    @property
    def failed(self) -> dict[str, str]:
        """Each node on which a step failed, and which."""
        return {step.host: step.step for step in self.steps if step.state not in ("ok", "changed")}

    @property
    def exit_code(self) -> int:
        """2 where the inventory is wrong, as for all bad input, 1 where a node failed."""
        if self.code == INTERRUPTED:
            return INTERRUPTED
        refused = any(step.state == "refused" for step in self.steps)
        return 2 if refused and self.code else min(self.code, 1)

    @property
    def changes(self) -> int:
        """How many tasks changed something."""
        return sum(step.changes for step in self.steps)


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
    interrupts, began = Interrupts(), time.monotonic()
    with (
        tempfile.NamedTemporaryFile(prefix="trainbench-steps-") as steps_file,
        interrupts.handled(),
    ):
        environment = {
            **os.environ,
            **ansible_environment(),
            "ANSIBLE_CALLBACKS_ENABLED": "steps",
            STEPS: steps_file.name,
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
            steps, complete = _follow(process, steps_file, interrupts, screen)
            keep.join()
    code = INTERRUPTED if interrupts.over else process.returncode
    return PlaybookEnd(code, steps, complete, time.monotonic() - began)


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
    interrupts: Interrupts,
    console: Screen | None,
) -> tuple[list[StepOnHost], bool]:
    """Show each step as it ends, and what goes on; return the steps, and whether all was run."""
    steps: list[StepOnHost] = []
    shown, complete, asked_at = set[str](), False, 0.0
    live = Status("", console=console, spinner="dots")
    with live if console and console.is_interactive else nullcontext():
        while True:
            over = process.poll() is not None
            for event in _heard(said):
                lines: Iterable[str] = ()
                if "step" in event:
                    steps.append(StepOnHost(**event["step"]))
                    lines = step_lines(steps[-1], shown)
                elif "text" in event:
                    shown.update(event["text"].splitlines())
                    lines = ("", *event["text"].splitlines(), "")
                elif "now" in event:
                    live.update(one_line(event["now"]))
                complete |= "end" in event
                for line in lines:
                    if console:
                        console.print(as_called(line), soft_wrap=True)
            if over:
                return steps, complete
            if interrupts.once() and not asked_at:
                asked_at = time.monotonic()
                process.send_signal(signal.SIGINT)
            if asked_at and (interrupts.twice() or time.monotonic() - asked_at > PATIENCE_S):
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(PAUSE_S)


def step_lines(step: StepOnHost, shown: set[str]) -> list[str]:
    """Return what a person sees of a step on a node; of its reasons those not in `shown`, noted."""
    changed = step.state == "changed"
    state = counted(step.changes, "change") if changed else step.state
    why = [line for line in step.why.splitlines() if line not in shown]
    shown.update(why)
    more = len(why) - MOST_LINES
    return [
        f"{step.step:<20}  {step.host:<16}  {state:<12}  {duration(step.took_s):>6}",
        *(f"    {line}" for line in why[:MOST_LINES]),
        *([f"    and {more} more lines in Ansible's output"] if more > 0 else []),
    ]


def duration(seconds: float) -> str:
    """Return minutes and seconds."""
    minutes, seconds_left = divmod(round(seconds), 60)
    return f"{minutes}:{seconds_left:02}"


def _heard(said: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the new lines; an incomplete line is left for the next time."""
    while line := said.readline():
        if not line.endswith(b"\n"):
            said.seek(-len(line), os.SEEK_CUR)
            return
        yield json.loads(line)

"""Lines of a user's that bash runs on a node before the trainer, and after the run.

They are the only shell of a run: modules and conda are functions of a shell. What they change of
the environment, the trainer gets; a line that fails ends the run, by name.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess

from node.causes import Cause
from node.secret_names import SECRET

from .answers import RefusedError
from .names import SETUP_LOG

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any, Sequence

RUNS = "TRAINBENCH_RUN_"  # begins the names of the run's own variables until the profile was read
SETUP_S = 300.0  # for all lines: less than the other nodes wait for this one
TEARDOWN_S = 60.0
ENDED_WELL = "ended with exit code 0"
HIDDEN = "(named like a secret: not recorded)"
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OF_THE_SHELL = ("_", "SHLVL", "PWD", "OLDPWD")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# A login shell reads /etc/profile and the user's own, which may set PATH: so the run's variables
# come after that. $1, $2 and $3 are descriptors: of the environment before and after the lines, and
# of the number of the line.
BASH = """\
for name in "${!TRAINBENCH_RUN_@}"; do
  export "${name#TRAINBENCH_RUN_}=${!name}"
  unset "$name"
done
before=$1 after=$2 at=$3 number=0
shift 3
/usr/bin/env -0 >&"$before"
for line; do
  number=$((number + 1))
  echo "$number" >&"$at"
  eval "$line" || exit
done
echo done >&"$at"
/usr/bin/env -0 >&"$after"
"""


def set_up(job: dict[str, Any], lines: Sequence[str], log: str) -> None:
    """Run lines in a login shell, within the job's environment, and keep what they change of that.

    `log` gets what they print. Raises RefusedError with the line that failed.
    """
    before, after, at = (os.memfd_create(name) for name in ("before", "after", "at"))
    argv = ["/bin/bash", "-l", "-c", BASH, "setup", *map(str, (before, after, at)), *lines]
    try:
        ended = _run(argv, _with_runs(job), job["cwd"], log, SETUP_S, (before, after, at))
        progress = _text(at).split()
        if progress[-1:] != ["done"]:
            number = int(progress[-1]) if progress else 0
            title = "`%s`" % lines[number - 1] if number else "the login shell"
            raise RefusedError(
                Cause.SETUP_FAILED, "slurm_setup: %s %s%s" % (title, ended, _last_line(log))
            )
        job["env"], job["hidden"] = merged(job["env"], _variables(before), _variables(after))
    finally:
        for handle in (before, after, at):
            os.close(handle)


def take_down(job: dict[str, Any]) -> None:
    """Run the lines of `teardown`, each whatever became of the one before."""
    lines = job.get("teardown") or []
    if not lines:
        return
    log = os.path.join(job["dir"], SETUP_LOG)
    script = 'for line; do eval "$line"; done'
    argv = ["/bin/bash", "-l", "-c", script, "teardown", *lines]
    env = {**_node_env(), **job["env"]}
    ended = _run(argv, env, job["cwd"], log, TEARDOWN_S, ())
    if ended != ENDED_WELL:
        with open(log, "a", encoding="utf-8") as stream:
            stream.write("slurm_teardown %s\n" % ended)


def merged(
    run: dict[str, str], before: dict[str, str], after: dict[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Return a run's environment with what lines have changed, and the names not to be recorded.

    A variable that the login shell had before is the node's, and no part of the run.
    """
    env = {name: value for name, value in run.items() if name in after or name not in before}
    hidden = []
    for name, value in after.items():
        if before.get(name) != value and name not in OF_THE_SHELL and VARIABLE.fullmatch(name):
            env[name] = value
            if SECRET.search(name):
                hidden.append(name)
    return env, hidden


def _node_env() -> dict[str, str]:
    """Return what a login on this node would have, and Slurm's words about the job."""
    names = ("HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "XDG_RUNTIME_DIR")
    env = {name: os.environ[name] for name in names if name in os.environ}
    slurms = {name: value for name, value in os.environ.items() if name.startswith("SLURM")}
    return {**env, **slurms, "PATH": PATH}


def _with_runs(job: dict[str, Any]) -> dict[str, str]:
    """Return the environment of the login shell, with the run's own variables set aside.

    Its TMPDIR is not there yet.
    """
    runs = {RUNS + name: value for name, value in job["env"].items() if name != "TMPDIR"}
    return {**_node_env(), **runs}


def _run(
    argv: Sequence[str],
    env: dict[str, str],
    cwd: str,
    log: str,
    limit_s: float,
    handles: tuple[int, ...],
) -> str:
    """Run a program with its output added to `log`; say how it ended."""
    cwd = cwd if os.path.isdir(cwd) else env.get("HOME", "/")
    with open(log, "ab") as stream:
        process = subprocess.Popen(
            argv,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            pass_fds=handles,
            start_new_session=True,
        )
    try:
        code = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return "did not end within %g s" % limit_s
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return "ended with exit code %d" % code if code >= 0 else "was ended by signal %d" % -code


def _text(handle: int) -> str:
    return os.pread(handle, os.fstat(handle).st_size, 0).decode("utf-8", "surrogateescape")


def _variables(handle: int) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in _text(handle).split("\0") if entry)
    return {name: value for name, _, value in pairs}


def _last_line(log: str) -> str:
    """Return what was printed at last, behind a colon."""
    try:
        with open(log, encoding="utf-8", errors="replace") as stream:
            lines = [line.strip() for line in stream.read()[-4_000:].splitlines() if line.strip()]
    except OSError:
        lines = []
    return ": %s" % lines[-1][:300] if lines else ""

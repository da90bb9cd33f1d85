"""Programs that change an environment: how they are run, and why one failed."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from typing import TYPE_CHECKING

from node.files import read_text, write_text
from node.program_output import found_a_full_disk, full_disk, last_lines

from .environment import EnvError, Environment
from .interpreter import clean

if TYPE_CHECKING:
    from .pins import Spec

LOG_LINES = 15
BUILD_ENDS = "[end of output]"  # pip's mark behind what a package's own build printed
NOT_BUILT = re.compile(r"(?:Failed building wheel for|╰─>) ([A-Za-z0-9][\w.-]*)\s*$", re.MULTILINE)
FLAGS = {
    "no_deps": "--no-deps",
    "no_build_isolation": "--no-build-isolation",
    "force": "--force-reinstall",
    "no_cache": "--no-cache-dir",
}


def pip(
    env: Environment,
    name: str,
    options: Spec,
    lines: list[str],
    limits: list[str],
    variables: dict[str, str] | None = None,
) -> None:
    """Run `pip install` on lines of a requirements file, within the limits."""
    with tempfile.TemporaryDirectory(prefix="trainbench-pip-") as scratch:
        files = [
            os.path.join(scratch, file_name)
            for file_name in ("requirements.txt", "constraints.txt")
        ]
        write_text(files[0], "".join(f"{line}\n" for line in lines))
        write_text(files[1], "".join(f"{line}\n" for line in limits))
        argv = [env.python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
        argv += [flag for key, flag in FLAGS.items() if options.get(key)]
        call(env, name, [*argv, "-r", files[0], "-c", files[1]], variables or {})


def call(env: Environment, name: str, argv: list[str], variables: dict[str, str]) -> None:
    """Run a program, its output in a log of its own; EnvError says how it ended."""
    os.makedirs(os.path.join(env.home, "logs"), exist_ok=True)
    log = os.path.join(env.home, "logs", re.sub(r"[^A-Za-z0-9._-]", "_", name) + ".log")
    variables_given = {**env.spec["environment"], **variables}
    path = [os.path.join(env.path, "bin"), os.environ.get("PATH", os.defpath)]
    if variables_given.get("CUDA_HOME"):
        path.insert(1, os.path.join(variables_given["CUDA_HOME"], "bin"))
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.run(
            argv,
            env=clean({**variables_given, "PATH": os.pathsep.join(path)}),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=env.home,
        )
    if process.returncode != 0:
        raise EnvError(failure(name, read_text(log), log))


def failure(name: str, output: str, log: str) -> str:
    """Why a program failed: one sentence where the reason is known, else the end of its log.

    Of a package that does not build, the end of its build, without pip's words that follow.
    """
    if found_a_full_disk(output):
        disk = full_disk(os.path.dirname(log), tempfile.gettempdir(), output=output)
        return f"{disk} during step {name}; free some space and run setup again"
    for line in output.splitlines():
        if line.startswith("ERROR: No matching distribution found for "):
            return (
                f"{line[7:]} (step {name}); correct the pin, or name an index that has it with "
                "python_env_index_url"
            )
    build, mark, after = output.rpartition(BUILD_ENDS)
    if mark:
        packages = NOT_BUILT.findall(after)
        step = f"{name}: {packages[-1]}" if packages else name
        return f"{step} cannot be built; {log} has:\n{last_lines(build, LOG_LINES)}"
    return f"step {name} failed; {log} ends with:\n{last_lines(output, LOG_LINES)}"

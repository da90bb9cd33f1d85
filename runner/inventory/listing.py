"""Ask ansible-inventory what an inventory says, within limits of files and of time."""

import itertools
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from node.parsing import parse
from node.schema import UnfitError
from runner.base.errors import UserError
from runner.base.files import read_text
from runner.base.paths import PROJECT, ansible_environment, program
from runner.base.streams import complain
from runner.base.yaml_limits import TAB, YamlLimits, check_limits

LIMIT_S = 120.0  # for ansible-inventory, and the programs that an inventory may be
PATIENCE_S = 10.0  # before somebody is told that it takes so long
MOST_FILES = 10_000  # of an inventory that are looked at
MOST_BYTES = 16 << 20  # of one of them
FILE_LIMITS = YamlLimits(values=1_000_000, levels=64)


class Unread:
    """The other keys: nobody looks at them, and the named ones have checks of their own."""

    def check(self, value: Any, where: str) -> Any:
        """Return the value."""
        return value

    def json_schema(self) -> dict[str, Any]:
        """Return what allows anything."""
        return {}


def ansible_inventory(path: Path) -> Any:
    """Read `ansible-inventory --list` as it is. Raises UserError with Ansible's own last words."""
    _check_files(path)
    env = {**os.environ, **ansible_environment()}
    env.pop("ANSIBLE_LOG_PATH", None)  # it would log what it lists, passwords included
    argv = [program("ansible-inventory"), "-i", str(path.resolve()), "--list"]
    with subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        cwd=PROJECT,
        start_new_session=True,  # so that what it starts ends with it
    ) as process:
        try:
            stdout, stderr = _answer(process, path)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode != 0:
        why = _why(stderr.decode(errors="replace"), path)
        raise UserError(f"the inventory {path} cannot be read: {why}")
    try:
        return parse(stdout, Unread(), str(path))
    except UnfitError as error:
        raise UserError(f"the inventory cannot be read: {error}") from None


def _answer(process: subprocess.Popen[bytes], path: Path) -> tuple[bytes, bytes]:
    """Wait for what a process prints, with a word to who waits. Raises UserError at the limit."""
    try:
        return process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        complain(f"still reading the inventory {path}; it has {LIMIT_S:.0f} s in all")
    try:
        return process.communicate(timeout=LIMIT_S - PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise UserError(
            f"the inventory {path} was not read within {LIMIT_S:.0f} s; if it is a program, see"
            " that it ends, and that no file of it grows with its aliases or templates"
            f" (`ansible-inventory -i {path} --list`)"
        ) from None


def _check_files(path: Path) -> None:
    """Refuse YAML that Ansible would read for hours; what is not YAML, it says itself."""
    for file in _files(path):
        try:
            check_limits(read_text(file, MOST_BYTES, "part of an inventory"), FILE_LIMITS)
        except UserError as error:
            raise UserError(f"the inventory cannot be read: {file}: {error}") from None
        except (ValueError, yaml.YAMLError):
            continue


def _files(path: Path) -> Iterator[Path]:
    """Yield the files of an inventory that Ansible takes for YAML, group_vars and all."""
    roots = [path] if path.is_dir() else [path.parent / "group_vars", path.parent / "host_vars"]
    below = (file for root in roots for file in root.rglob("*"))
    for file in itertools.islice(itertools.chain([path], below), MOST_FILES):
        is_yaml = file.suffix in (".yml", ".yaml", ".json", "")
        is_program = not file.suffix and os.access(file, os.X_OK)
        # Ansible runs no file of variables, whatever its mode.
        is_variables = {"group_vars", "host_vars"}.intersection(file.parts)
        if is_yaml and file.is_file() and (is_variables or not is_program):
            yield file


def _why(stderr: str, path: Path) -> str:
    """Return Ansible's words on an inventory that it could not read, with the place of a YAML
    error.
    """
    if script := re.search(r"Standard error from inventory script:\s*(?:error: )?(.+)", stderr):
        return script[1]
    lines = [re.sub(r"^\[(ERROR|WARNING)\]: ", "", line.strip()) for line in stderr.splitlines()]
    errors = [line for line in lines if line.startswith("YAML parsing failed")] or [
        line for line in lines if "rror" in line or "failed" in line
    ]
    if errors and errors[0].startswith("YAML") and (yaml_place := _bad_yaml(path)):
        tab = "Tabs are usually invalid" in errors[0]
        return f"{yaml_place}: {TAB if tab else errors[0]}"
    return (errors or lines or ["ansible-inventory said nothing"])[-1]


def _bad_yaml(path: Path) -> str:
    """Return `file:line` of the first file there that is not YAML: Ansible leaves it out of
    group_vars.
    """
    for file in sorted(_files(path)):
        try:
            check_limits(file.read_text(encoding="utf-8"), FILE_LIMITS)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            return f"{file}:{mark.line + 1}" if mark else str(file)
        except (OSError, ValueError, yaml.YAMLError):
            return str(file)
    return ""

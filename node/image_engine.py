"""The engine that builds images, asked and told: its answers, its output in logs."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

from node.answer import ProgramError
from node.files import read_text
from node.program_output import found_a_full_disk, full_disk, last_line, last_lines

if TYPE_CHECKING:  # Python 3.8 cannot say this when it runs
    Spec = dict[str, Any]

LOG_LINES = 20
ANSWER_S = 120  # for an engine to answer; building, saving and loading take as long as they take


class ImageError(ProgramError):
    """What is wrong with the image, with the cure."""


def ask(spec: Spec, *arguments: str) -> str:
    """What the engine prints. Raises ImageError with its own last words."""
    try:
        completed = subprocess.run(
            [spec["engine"], *arguments], capture_output=True, text=True, timeout=ANSWER_S
        )
    except FileNotFoundError:
        name = os.path.basename(spec["engine"])
        raise ImageError(
            f"{spec['engine']} is not installed, and images are built with it; install it"
            f" (container_runtime_engines: [{name}], where setup may use root)"
        ) from None
    except subprocess.TimeoutExpired:
        raise ImageError(f"{spec['engine']} gave no answer for {ANSWER_S} s") from None
    if completed.returncode != 0:
        raise ImageError(
            f"{spec['engine']} {arguments[0]}: {last_line(completed.stderr or completed.stdout)}"
        )
    return completed.stdout


def identity(spec: Spec) -> str:
    """The id of the image of that name; empty without one."""
    ids = ask(spec, "images", "--no-trunc", "--quiet", spec["image"]).split()
    return ids[0].rpartition(":")[2] if ids else ""


def logged(spec: Spec, argv: list[str], name: str, title: str) -> None:
    """Run the engine, its output in a log of the pin set's; ImageError has `title` and its end."""
    title = f"the image {spec['image']} {title}"
    log = os.path.join(spec["home"], "logs", f"{name}.log")
    os.makedirs(os.path.dirname(log), exist_ok=True)
    try:
        with open(log, "w", encoding="utf-8") as file:
            completed = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "DOCKER_BUILDKIT": "1"},
            )
    except FileNotFoundError:
        raise ImageError(
            f"{title}: {argv[0]} is not on PATH here; install it, or name another"
            " cluster_container_engine"
        ) from None
    if completed.returncode == 0:
        return
    output = read_text(log)
    if found_a_full_disk(output):
        disk = full_disk(os.path.dirname(log), "/var/lib", os.path.expanduser("~"), output=output)
        raise ImageError(f"{title}: {disk}; free some space and run setup again")
    raise ImageError(f"{title}; {log} ends with:\n{last_lines(output, LOG_LINES)}")

"""Miniforge in our own folder, and environments made by it.

    conda:look        say whether it is there, and which installer this node needs
    conda:install     run the installer that was downloaded
    conda:create      make an environment with a Python, the spec's `environment`
    conda:verify      say whether it is the one wanted, and runs

Their spec: prefix, existing (somebody else's conda program), version, sha256 (machine to 64
digits), url, channels, environment ({path, python, reason}). Nobody's .condarc counts, save what an
administrator put into /etc/conda: conda runs with a home of its own.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any

from node import parsing
from node.answer import ProgramError
from node.program_output import found_a_full_disk, full_disk, last_lines
from node.schema import Fields, Text

if TYPE_CHECKING:  # Python 3.8 cannot say this when it runs
    Spec = dict[str, Any]

LOG_LINES = 15
RECORD = "trainbench.json"
RECORDED = Fields({"version": Text()})


class CondaError(ProgramError):
    """What is wrong with conda, with the cure."""


def program(spec: Spec) -> str:
    """The conda that is used."""
    return spec["existing"] or os.path.join(spec["prefix"], "bin", "conda")


def installer(spec: Spec) -> Spec:
    """Address, checksum and place of this machine's installer."""
    machine = platform.machine()
    if machine not in spec["sha256"]:
        raise CondaError(
            f"conda_sha256 has no checksum for {machine}; it has {', '.join(spec['sha256'])}"
        )
    name = f"Miniforge3-{spec['version']}-Linux-{machine}.sh"
    return {
        "url": f"{spec['url']}/{spec['version']}/{name}",
        "sha256": spec["sha256"][machine],
        "path": os.path.join(spec["prefix"] + "-installer", name),
    }


def version_of(spec: Spec) -> str:
    """Which conda answers; empty when none does."""
    try:
        completed = subprocess.run(
            [program(spec), "--version"], capture_output=True, text=True, timeout=120
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return completed.stdout.strip().rpartition(" ")[2] if completed.returncode == 0 else ""


def recorded(spec: Spec) -> Spec:
    """What the last whole installation wrote down; empty without one."""
    record: Spec = parsing.recall(os.path.join(spec["prefix"], RECORD), RECORDED)
    return record


def look(spec: Spec) -> Spec:
    """Whether the wanted conda is there."""
    version = version_of(spec)
    if spec["existing"]:
        if not version:
            raise CondaError(f"{spec['existing']} does not run; correct conda_existing")
        return {"present": True, "version": version}
    record = recorded(spec)
    filled = os.path.exists(spec["prefix"]) and os.listdir(spec["prefix"])
    # An installation that broke off left its installer, and no record.
    if filled and not record and not os.path.exists(spec["prefix"] + "-installer"):
        raise CondaError(
            f"{spec['prefix']} holds files that setup did not install; name its bin/conda as "
            "conda_existing, or another conda_prefix"
        )
    present = bool(version) and record.get("version") == spec["version"]
    return {"present": present, "version": version, "installer": installer(spec)}


def install(spec: Spec) -> Spec:
    """Run the installer. What an interrupted or an older one left gives way; environments do not
    lie below it.
    """
    prefix, script = spec["prefix"], installer(spec)["path"]
    shutil.rmtree(prefix, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="trainbench-conda-") as home:
        try:
            call(
                ["/bin/bash", script, "-b", "-p", prefix],
                home,
                prefix,
                "the installer of Miniforge",
            )
        except CondaError:
            shutil.rmtree(prefix, ignore_errors=True)
            raise
    with open(os.path.join(prefix, RECORD), "w", encoding="utf-8") as file:
        json.dump({"version": spec["version"]}, file)
    shutil.rmtree(os.path.dirname(script))
    return {"version": version_of(spec)}


def create(spec: Spec) -> Spec:
    """Make an environment with the wanted Python and pip, and nothing else."""
    environment = spec["environment"]
    path = environment["path"]
    options = ["create", "--yes", "--quiet", "--prefix", path, "--override-channels"]
    for channel in spec["channels"]:
        options += ["--channel", channel]
    with tempfile.TemporaryDirectory(prefix="trainbench-conda-") as home:
        try:
            call(
                [program(spec), *options, f"python={environment['python']}", "pip"],
                home,
                path,
                f"conda's Python {environment['python']} (the node has none:"
                f" {environment['reason']})",
            )
        except CondaError:
            shutil.rmtree(path, ignore_errors=True)
            raise
    return {}


def verify(spec: Spec) -> Spec:
    """Refuse a conda that is not the one wanted."""
    answer = look(spec)
    if not answer["present"]:
        have = f"conda {answer['version']}" if answer["version"] else "no conda that runs"
        raise CondaError(f"{spec['prefix']} has {have}, not Miniforge {spec['version']}; run setup")
    return answer


def call(argv: list[str], home: str, prefix: str, title: str) -> None:
    """Run a program that fills `prefix`, with a home of its own; CondaError says how it ended."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("CONDA")}
    condarc = os.path.join(home, "condarc")
    with open(condarc, "w", encoding="utf-8") as file:
        file.write("auto_update_conda: false\nnotify_outdated_conda: false\n")
    environment.update(HOME=home, XDG_CONFIG_HOME=home, CONDARC=condarc, LC_ALL="C.UTF-8")
    environment.pop("PYTHONPATH", None)
    completed = subprocess.run(
        argv,
        env=environment,
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if completed.returncode == 0:
        return
    if found_a_full_disk(completed.stdout):
        raise CondaError(
            f"{full_disk(prefix, home, output=completed.stdout)}: {title} cannot be installed; free"
            " some space, run setup"
        )
    ending = last_lines(completed.stdout, LOG_LINES)
    raise CondaError(f"{title} cannot be installed; it ends with:\n{ending}")

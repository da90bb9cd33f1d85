"""Run an upstream launch script under stubs that write down what they were started with."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STUB = """#!/usr/bin/python3 -I
import json, os, sys
with open(os.environ["STUB_RECORD"], "a") as record:
    fact = {"argv": [os.path.basename(sys.argv[0]), *sys.argv[1:]], "env": dict(os.environ)}
    record.write(json.dumps({**fact, "cwd": os.getcwd()}) + "\\n")
"""
PROGRAMS = ("python", "python3", "torchrun", "deepspeed", "nvidia-smi", "npu-smi")


@dataclass(frozen=True)
class Started:
    """One program that the script started, and the files in the folder where it ran."""

    argv: list[str]
    env: dict[str, str]
    cwd: Path


def run(script: Path, arguments: Sequence[str], cwd: Path, **env: str) -> list[Started]:
    """What the script started, in order. Its exit status is not looked at: upstream's is 0."""
    stubs = cwd.parent / "stubs"
    stubs.mkdir(exist_ok=True)
    for name in PROGRAMS:
        (stubs / name).write_text(STUB)
        (stubs / name).chmod(0o755)
    record = cwd.parent / "record.jsonl"
    record.unlink(missing_ok=True)
    base = {"PATH": f"{stubs}:/usr/bin:/bin", "HOME": str(cwd), "STUB_RECORD": str(record)}
    subprocess.run(
        ["bash", str(script), *arguments],
        cwd=cwd,
        env={**base, **env},
        capture_output=True,
        timeout=60,
    )
    given = {*base, *env, "PWD", "SHLVL", "_", "OLDPWD", "LC_CTYPE"}
    started = []
    for line in record.read_text().splitlines():
        said: dict[str, Any] = json.loads(line)
        fresh = {name: text for name, text in said["env"].items() if name not in given}
        started.append(Started(said["argv"], fresh, Path(said["cwd"])))
    return started


def options(argv: Sequence[str]) -> dict[str, str]:
    """Option to value; words without an option are under "". Numbers are written one way."""
    found: dict[str, list[str]] = {}
    name = ""
    for word in argv:
        if word.startswith("-") and not _number(word):
            name, _, value = word.partition("=")
            found.setdefault(name, []).extend([value] if value else [])
        elif "=" in word and not word.startswith("/") and name in ("", "--config-file"):
            key, _, value = word.partition("=")
            found.setdefault(key, []).append(value)
        else:
            found.setdefault(name, []).append(word)
    return {name: " ".join(_plain(value) for value in values) for name, values in found.items()}


def _number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _plain(word: str) -> str:
    """1e-4, .0001 and 1_000 as Python prints them; true and True as one."""
    if not _number(word):
        return {"True": "true", "False": "false"}.get(word, word)
    number = float(word)
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(number)


def differences(theirs: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, tuple[Any, Any]]:
    """Name to (theirs, ours) where they differ; None where one lacks it."""
    names = sorted({*theirs, *ours})
    return {
        name: (theirs.get(name), ours.get(name))
        for name in names
        if theirs.get(name) != ours.get(name)
    }

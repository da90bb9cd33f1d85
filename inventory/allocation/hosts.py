#!/usr/bin/env python3
"""Inventory of the nodes that a scheduler gave: from a DeepSpeed hostfile, or from SLURM.

    TRAINBENCH_HOSTFILE=hostfile ansible-inventory -i inventory/allocation --list
    salloc -N 4 --gpus-per-node=8  python -m runner bench -i inventory/allocation --matrix ...

Ansible, and the runner through it, call this program with --list. The hostfile wins where both are
there. What is not in either (root folder, systems, network) stands in group_vars beside this file.
Standard library only, Python 3.8 or newer. Exits 0, or 1 with one sentence that names the cure.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from collections.abc import Mapping
from typing import Any

HOSTFILE = "TRAINBENCH_HOSTFILE"
# A hostlist that names more is a slip (or an attack on memory): Slurm's own limit is 64 Ki.
MOST_HOSTS = 65536
CURE = (
    f"name a DeepSpeed hostfile in {HOSTFILE}, or run inside an allocation (salloc or sbatch), "
    "which sets SLURM_JOB_NODELIST"
)

AFTERWARDS = "(That is all that is wrong: what Ansible says below of an ini file follows from it.)"


class BadAllocationError(Exception):
    """What cannot be read, with its place and the cure."""


def split_hostlist(text: str) -> list[str]:
    """The parts between the commas that are outside brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        if letter == "[":
            depth += 1
        elif letter == "]":
            depth -= 1
        if depth not in (0, 1):
            raise BadAllocationError(f"{text!r}: brackets do not match")
        if letter == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    if depth:
        raise BadAllocationError(f"{text!r}: brackets do not match")
    return [*parts, text[start:]]


def expand_range(text: str) -> list[str]:
    """`01-04,7` as 01 02 03 04 7: a number is as wide as the range's first one is written."""
    found: list[str] = []
    for part in text.split(","):
        matched = re.fullmatch(r"(\d+)(?:-(\d+))?", part, flags=re.ASCII)
        if matched is None:
            raise BadAllocationError(f"[{text}]: {part!r} is not a number or range such as 01-04")
        low, high = matched[1], matched[2] or matched[1]
        if int(high) < int(low):
            raise BadAllocationError(f"[{text}]: {part} goes backwards")
        if int(high) - int(low) >= MOST_HOSTS:
            raise BadAllocationError(f"[{text}]: {part} has more than {MOST_HOSTS} hosts")
        found += [f"{number:0{len(low)}d}" for number in range(int(low), int(high) + 1)]
    return found


def expand_hostlist(text: str) -> list[str]:
    """Host names of a Slurm hostlist, in the order of `scontrol show hostnames`.

    `node[01-04,7],gpu3`; several brackets in a name vary the last one fastest.
    """
    hosts: list[str] = []
    for part in split_hostlist(text.strip()):
        pieces = re.split(r"\[([^\]]*)\]", part)
        if not pieces[0] or not re.fullmatch(r"[A-Za-z0-9._-]*", "".join(pieces[::2])):
            raise BadAllocationError(f"{text!r}: {part!r} is no host name")
        choices = [
            [piece] if place % 2 == 0 else expand_range(piece) for place, piece in enumerate(pieces)
        ]
        count = 1
        for choice in choices:
            count *= len(choice)
        if len(hosts) + count > MOST_HOSTS:
            raise BadAllocationError(f"{text!r}: more than {MOST_HOSTS} hosts")
        hosts += ["".join(chosen) for chosen in itertools.product(*choices)]
    return hosts


def read_hostfile(text: str, name: str) -> dict[str, int]:
    """Host to slots, in order: DeepSpeed's `host slots=8`, with `#` comments and blank lines."""
    slots: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{name}, line {number}"
        matched = re.fullmatch(r"slots=([0-9]+)", words[1]) if len(words) == 2 else None
        if matched is None or int(matched[1]) < 1:
            raise BadAllocationError(
                f"{where}: {line.strip()!r} is not of the form `host slots=8`; correct the line"
            )
        if words[0] in slots:
            raise BadAllocationError(f"{where}: {words[0]} is named twice; remove one line")
        slots[words[0]] = int(matched[1])
    if not slots:
        raise BadAllocationError(f"{name} names no host; write one line `host slots=8` a node")
    return slots


def per_node(text: str, hosts: int) -> list[int]:
    """Slurm's `8(x2),4` as 8 8 4, one a host."""
    found: list[int] = []
    for part in text.split(","):
        matched = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip(), flags=re.ASCII)
        if matched is None:
            raise BadAllocationError(f"SLURM_TASKS_PER_NODE is {text!r}; it should be like 8(x2),4")
        found += [int(matched[1])] * int(matched[2] or 1)
    if len(found) != hosts:
        raise BadAllocationError(
            f"SLURM_TASKS_PER_NODE is {text!r}, but there are {hosts} hosts in SLURM_JOB_NODELIST;"
            " run inside one allocation"
        )
    return found


def gpus(text: str) -> int | None:
    """Slurm's GPUs of one node: `8`, `a100:4`, or `a100:2,v100:2`; None where it says no number."""
    numbers = [part.rpartition(":")[2].partition("(")[0].strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[0-9]+", number) for number in numbers):
        return None
    return sum(map(int, numbers)) or None


def device() -> str:
    """What group_vars beside this file say that nodes train on; cuda where they do not say."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "group_vars", "all")
    texts = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if name.endswith((".yml", ".yaml")):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                texts.append(file.read())
    said = re.findall(r"^cluster_device:[ \t]*[\"']?(\w+)", "\n".join(texts), flags=re.MULTILINE)
    return said[-1] if said else "cuda"


def slurm_devices(env: Mapping[str, str], hosts: int) -> list[int | None]:
    """Devices of each host as Slurm says them; None: group_vars decide.

    SLURM_GPUS_PER_NODE holds for all nodes. SLURM_GPUS_ON_NODE is the batch node's own number, so
    it stands for the others too. On CPUs tasks a node are the devices; of GPUs they tell nothing:
    one torchrun a node is one task.
    """
    for name in ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"):
        if env.get(name) and gpus(env[name]):
            return [gpus(env[name])] * hosts
    if device() != "cpu":
        return [None] * hosts
    tasks = env.get("SLURM_NTASKS_PER_NODE", "")
    if re.fullmatch(r"[1-9][0-9]*", tasks):
        return [int(tasks)] * hosts
    if env.get("SLURM_NTASKS") and env.get("SLURM_TASKS_PER_NODE"):
        return list(per_node(env["SLURM_TASKS_PER_NODE"], hosts))
    return [None] * hosts


def allocation(env: Mapping[str, str]) -> list[tuple[str, int | None]]:
    """The hosts with their devices (None: group_vars decide), in the order of the node ranks."""
    name = env.get(HOSTFILE, "")
    if name:
        try:
            with open(name, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise BadAllocationError(f"{HOSTFILE} names {name}: {why}; {CURE}") from None
        return list(read_hostfile(text, name).items())
    listed = env.get("SLURM_JOB_NODELIST") or env.get("SLURM_NODELIST") or ""
    if not listed:
        raise BadAllocationError(f"there is no allocation here; {CURE}")
    try:
        hosts = list(dict.fromkeys(expand_hostlist(listed)))
    except BadAllocationError as error:
        raise BadAllocationError(
            f"SLURM_JOB_NODELIST is no list of hosts such as node[01-04,7],gpu3: {error}; set it as"
            f" Slurm does, or name a DeepSpeed hostfile in {HOSTFILE}"
        ) from None
    devices = slurm_devices(env, len(hosts))
    return [(host, devices[place]) for place, host in enumerate(hosts)]


def inventory(env: Mapping[str, str]) -> dict[str, Any]:
    """What Ansible wants to hear from --list."""
    found = allocation(env)
    variables = {
        host: {} if devices is None else {"cluster_devices_per_node": devices}
        for host, devices in found
    }
    return {"nodes": {"hosts": list(variables)}, "_meta": {"hostvars": variables}}


def main() -> int:
    """Run the command line; the exit code."""
    try:
        print(json.dumps({} if "--host" in sys.argv else inventory(os.environ)))
    except BadAllocationError as error:
        # Ansible shows this as a warning, tries another format, and ends with that one's words.
        print(f"\nerror: {error}\n\n{AFTERWARDS}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

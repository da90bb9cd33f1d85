"""What a machine is asked in one exec, and what of its answer may go into an inventory. Pure.

A machine may answer anything: each value has a kind, none of which lets a quote, a line break, or
Jinja's braces through. What does not fit is a fault of that machine's, by name.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from node.oldest_python import OLDEST_NAME, OLDEST_PYTHON
from runner.base.errors import UserError
from runner.terms.orders import MOST_NODES

MARK = "TRAINBENCH"
ROOT = r"/[A-Za-z0-9._/+-]*"  # a folder that no file or program would read as more
MOST_BYTES = 1 << 16  # of an answer
SHARED = {"nfs", "nfs4", "lustre", "gpfs", "ceph", "fuse.ceph", "beegfs", "afs", "smb2", "cifs"}

# $1 is the root that was asked for (or empty), the others are addresses of the machines.
ASK = r"""
say() { printf 'TRAINBENCH %s=%s\n' "$1" "$2"; }
say user "$(id -un)"
for python in /usr/bin/python3 "$(command -v python3)"; do
  if [ -x "$python" ]; then
    say python "$python $("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
  fi
done
if command -v nvidia-smi >/dev/null 2>&1; then
  nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2>/dev/null |
    while read -r mib; do say gpu "$mib"; done
fi
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin
if command -v npu-smi >/dev/null 2>&1; then
  say npus "$(npu-smi info -l 2>/dev/null | grep -c 'NPU ID')"
fi
root=$1
shift
if [ -z "$root" ]; then
  if [ "$(id -u)" = 0 ]; then root=/opt/trainbench; else root=$(cd && pwd -P)/trainbench; fi
fi
say root "$root"
place=$root
while [ ! -e "$place" ] && [ "$place" != / ]; do place=$(dirname "$place"); done
say disk "$(stat -f -c %T "$place" 2>/dev/null)"
if [ -w "$place" ]; then say writable yes; fi
own=" $(ip -o addr 2>/dev/null | awk '{ split($4, part, "/"); printf "%s ", part[1] }')"
for peer; do
  number=$(getent ahosts "$peer" 2>/dev/null | awk 'NR == 1 { print $1 }')
  [ -n "$number" ] || { say nameless "$peer"; continue; }
  case $own in *" $number "*) continue ;; esac
  say route "$(ip -o route get "$number" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')"
done
"""

Value = TypeVar("Value")


@dataclass(frozen=True)
class Found:
    """What a machine is, as far as an inventory says it."""

    user: str
    root: str
    python: str
    version: tuple[int, int]
    gpus: tuple[int | None, ...] = ()  # memory of each in MiB; None where it is the host's
    npus: int = 0
    interfaces: tuple[str, ...] = ()
    nameless: tuple[str, ...] = ()  # addresses of other machines that it cannot resolve
    shared: bool = False
    writable: bool = False


def read_answer(host: str, text: str) -> Found:
    """Read what a machine printed. Raises UserError that names the machine and the value."""
    lines_by_key: dict[str, list[str]] = {}
    for line in text[:MOST_BYTES].splitlines():
        mark, _, pair = line.partition(" ")
        key, equals, value = pair.partition("=")
        if mark == MARK and equals:
            lines_by_key.setdefault(key, []).append(value.strip())

    def single(key: str, pattern: str, most: int = 200) -> str:
        return _fit(host, key, (lines_by_key.get(key) or [""])[0], pattern, most)

    def several(key: str, pattern: str) -> tuple[str, ...]:
        values = [value for value in lines_by_key.get(key, ())[:MOST_NODES] if value]
        return tuple(dict.fromkeys(_fit(host, key, value, pattern, 200) for value in values))

    pythons = [
        _fit(host, "python", value, r"/[A-Za-z0-9._/+-]+ [0-9]{1,2}\.[0-9]{1,3}", 300).split()
        for value in lines_by_key.get("python", ())[:4]
    ]
    python, version = _newest_enough(host, [(path, _numbers(text)) for path, text in pythons])
    memory = [_memory(host, text) for text in lines_by_key.get("gpu", ())[:MOST_NODES]]
    return Found(
        user=single("user", r"[A-Za-z_][A-Za-z0-9._-]*"),
        root=single("root", ROOT, 1_000),
        python=python,
        version=version,
        gpus=tuple(memory),
        npus=int(single("npus", r"[0-9]{0,4}") or 0),
        interfaces=several("route", r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,31}"),
        nameless=several("nameless", r"[A-Za-z0-9_.:%-]+"),
        shared=single("disk", r"[A-Za-z0-9._/ ?()-]*") in SHARED,
        writable=bool(single("writable", r"yes|")),
    )


def _memory(host: str, text: str) -> int | None:
    """Return a GPU's memory in MiB; None where nvidia-smi knows none, as of unified memory."""
    if re.fullmatch(r"\[?(?:N/A|(?:Not|Unknown|Insufficient) ?[A-Za-z ]{0,20})\]?", text):
        return None
    return int(_fit(host, "gpu", text.removesuffix(" MiB"), r"[0-9]{1,8}", 8))


def _numbers(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def _newest_enough(
    host: str, pythons: Sequence[tuple[str, tuple[int, int]]]
) -> tuple[str, tuple[int, int]]:
    """Return the first Python that Ansible can use. Raises UserError if it is missing."""
    if not pythons:
        raise UserError(f"{host} has no python3; install one of {OLDEST_NAME} or newer there")
    good = [(path, version) for path, version in pythons if version >= OLDEST_PYTHON]
    if not good:
        have = ", ".join(f"{path} {a}.{b}" for path, (a, b) in pythons)
        raise UserError(f"{host} has {have}; install a Python {OLDEST_NAME} or newer there")
    return good[0]


def _fit(host: str, key: str, value: str, pattern: str, most: int) -> str:
    """Return a value that fits. Raises UserError that shows what does not."""
    if len(value) <= most and re.fullmatch(pattern, value):
        return value
    raise UserError(
        f"{host} answers {value[:80]!a} for its {key}, which cannot be in an inventory; check"
        " that machine, or leave it out"
    )


def same(
    facts: Mapping[str, Found], read: Callable[[Found], Value], title: str, cure: str
) -> Value:
    """Return what all machines answer alike. Raises UserError that names two that differ."""
    (reference_host, reference), *remaining = facts.items()
    for host, facts_there in remaining:
        if read(facts_there) != read(reference):
            raise UserError(
                f"{title} differs: {reference_host} has {read(reference)}, {host} has"
                f" {read(facts_there)}; {cure}"
            )
    return read(reference)


def devices_of(facts: Found, device: str) -> int:
    """Return how many devices of a kind a machine has."""
    return {"cuda": len(facts.gpus), "npu": facts.npus}.get(device, 2)


def device_of(facts: Iterable[Found]) -> str:
    """Return what the machines train on: the GPUs or NPUs that all of them have, else CPUs."""
    machines: list[Any] = list(facts)
    if all(machine.gpus for machine in machines):
        return "cuda"
    return "npu" if all(machine.npus for machine in machines) else "cpu"

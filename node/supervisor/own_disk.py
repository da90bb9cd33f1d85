"""What a node of a run on a shared folder keeps on its own disk, and brings back once it has ended.

Samples grow each second, and arrivals with each line: on a folder that thousands of nodes
share, each would write all the time. So they are in the run's scratch folder, and come back as one
file. The nodes that a live view looks at, 64 at most, leave their newest samples and their arrivals
in the shared folder, too, now and then.
"""

from __future__ import annotations

import os

from node.files import new_file, read_text

from .files import write
from .names import ARRIVALS, PACKED, SAMPLER_TROUBLE, SAMPLES, SAMPLES_NOW, TROUBLE
from .scratch import clear
from .state import NO_TROUBLE

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any

MOST_LOOKED_AT = 64  # nodes of a run, in one look
NEWEST_BYTES = 8192  # of samples that a live view gets: some seconds of any node
COPY_BYTES = 1 << 20


def looked_at(nodes: int) -> list[int]:
    """Return the ranks that one look at a run reads: all, or of many nodes the first, the last, and
    others between them at equal distances. Trainers log on the first or the last.
    """
    if nodes <= MOST_LOOKED_AT:
        return list(range(nodes))
    steps = MOST_LOOKED_AT - 1
    return [(nodes - 1) * number // steps for number in range(MOST_LOOKED_AT)]


def keep(job: dict[str, Any]) -> None:
    """Have a run keep its samples in the scratch folder that it made; else in its own folder."""
    job["own"] = job.get("scratch") or job["dir"]
    if job["own"] != job["dir"]:
        job["flush_s"] = 0.0  # nobody shares that disk


def path_of(job: dict[str, Any], name: str) -> str:
    """Return where a run writes one of these files, seen from its own folder."""
    return os.path.join(job.get("own") or "", name)


def show_newest(job: dict[str, Any]) -> None:
    """Leave the newest samples in the shared folder, for a live view."""
    path = path_of(job, SAMPLES)
    try:
        if job["own"] == job["dir"] or not os.path.getsize(path):
            return
        with open(path, "rb") as stream:
            header = stream.readline(NEWEST_BYTES)
            stream.seek(max(len(header), os.path.getsize(path) - NEWEST_BYTES))
            rows = stream.read(NEWEST_BYTES).partition(b"\n")[2]
        # In place, since a new name for each would be more work for a file server.
        target = os.open(
            SAMPLES_NOW, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            os.ftruncate(target, os.write(target, header + rows))
        finally:
            os.close(target)
    except OSError:
        pass  # a full disk is the trainer's to say


def bring(job: dict[str, Any]) -> None:
    """Pack samples and arrivals into one file of the run's folder, and remove the scratch folder.

    What cannot be brought is missing; how a run ended does not depend on it.
    """
    if not job.get("own"):
        return
    try:
        _pack(job)
        trouble = read_text(path_of(job, SAMPLER_TROUBLE))
        if job["own"] != job["dir"] and trouble not in ("", NO_TROUBLE):
            write(SAMPLER_TROUBLE, trouble)
    except OSError as error:
        _complain("trainbench: samples cannot be brought: %s\n" % error)
    if job.get("scratch"):
        clear(job["scratch"])


def _pack(job: dict[str, Any]) -> None:
    """Write PACKED, and remove what it holds from the shared folder."""
    from shutil import copyfileobj
    from zipfile import ZIP_DEFLATED, ZipFile  # what a run does not need before its end

    sources = {name: path for name in (SAMPLES, ARRIVALS) if (path := _source(job, name))}
    if not sources:
        return
    # On one line: in brackets it would take a Python newer than nodes have.
    with new_file(PACKED, 0o600) as stream, ZipFile(stream, "w", ZIP_DEFLATED, True, 1) as packed:
        for name, path in sources.items():
            with packed.open(name, "w") as target, open(path, "rb") as source:
                copyfileobj(source, target, COPY_BYTES)
    for name in (SAMPLES, SAMPLES_NOW, ARRIVALS):
        try:
            os.unlink(name)
        except FileNotFoundError:
            pass


def _complain(message: str) -> None:
    try:
        with open(TROUBLE, "a", encoding="utf-8") as stream:
            stream.write(message)
    except OSError:
        pass  # on the disk that is full


def _source(job: dict[str, Any], name: str) -> str:
    """Return where a file is, on the shared folder, else the node's own disk; empty: nowhere."""
    return next(filter(os.path.isfile, (name, path_of(job, name))), "")

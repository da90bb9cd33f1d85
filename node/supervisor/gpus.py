"""What nvidia-smi says of this node's GPUs, and whether a run may have them."""

from __future__ import annotations

import os
import subprocess
import time

from node.causes import Cause
from node.program_output import last_line

from .answers import RefusedError

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Callable

    Who = Callable[[int, str], str]  # a process's pid and program to its name with user and age

IDLE_FRACTION = 0.1  # of a device's memory that may be in use on an idle one (drivers keep some)
IDLE_PATIENCE_S = 10.0  # a killed trainer's device memory is freed a moment after its death


def check_gpus(wanted: list[str], who: Who) -> None:
    """Refuse GPUs that are not there, or that somebody uses.

    `wanted`: indices as nvidia-smi's, or UUIDs, of which the first letters do.
    """
    until = time.monotonic() + IDLE_PATIENCE_S
    while True:
        gpus, computing = ask_nvidia_smi()
        fault = gpu_fault(wanted, gpus, computing, who)
        if not fault:
            return
        if fault[0] != Cause.DEVICE_BUSY or time.monotonic() > until:
            raise RefusedError(*fault)
        time.sleep(0.5)


def ask_nvidia_smi() -> list[list[list[str]]]:
    """(GPU rows, rows of processes that compute), as nvidia-smi prints them; asked at once."""
    queries = []
    for query in (
        "--query-gpu=index,uuid,memory.used,memory.total",
        "--query-compute-apps=gpu_uuid,pid,process_name",
    ):
        argv = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
        try:
            queries.append(
                subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            )
        except OSError as error:
            raise RefusedError(Cause.NO_DEVICE, "nvidia-smi cannot be run: %s" % error.strerror)
    answer = []
    for process in queries:
        try:
            text = process.communicate(timeout=30)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            raise RefusedError(Cause.NO_DEVICE, "nvidia-smi gave no answer for 30 s")
        if process.returncode != 0:
            raise RefusedError(Cause.NO_DEVICE, "nvidia-smi failed: %s" % last_line(text))
        answer.append([line.split(", ", 3) for line in text.splitlines() if ", " in line])
    return answer


def gpu_fault(
    wanted: list[str], gpus: list[list[str]], computing: list[list[str]], who: Who
) -> tuple[Cause, str] | None:
    """(cause, sentence) of the first of the wanted GPUs that cannot be used, or None."""
    gpus = [row for row in gpus if len(row) == 4]  # beside them may stand words of a sick driver
    for word in wanted:
        if word.startswith("MIG-"):
            continue  # a part of a GPU, of which nvidia-smi's tables do not tell
        row = next((row for row in gpus if row[0] == word), None)
        if row is None and word.startswith("GPU-"):
            row = next((row for row in gpus if row[1].startswith(word)), None)
        if row is None:
            listed = ", ".join(row[0] for row in gpus) or "none"
            return Cause.NO_DEVICE, "GPU %s is not there; nvidia-smi lists %s" % (word, listed)
        index, uuid, used, total = row
        for app in computing:
            if len(app) >= 3 and app[0] == uuid and app[1].isdigit():
                program = os.path.basename(app[2].split(" ")[0])
                return Cause.DEVICE_BUSY, busy("GPU " + index, who(int(app[1]), program))
        # A process of another container has no row, but its memory shows.
        if used.isdigit() and total.isdigit() and int(used) > IDLE_FRACTION * int(total):
            message = (
                "GPU %s has %s of %s MiB in use by a process that nvidia-smi does not list, perhaps"
                " in a container; end it, or wait for it"
            )
            return Cause.DEVICE_BUSY, message % (index, used, total)
    return None


def busy(device: str, process: str) -> str:
    """Say that a process uses a device, and what to do."""
    return "%s is in use by %s; end it, or wait for it" % (device, process)


def nvidia_smi() -> list[dict[str, str]]:
    """One row a GPU: name, memory in MiB, driver; [] where there is no nvidia-smi."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version"]
    try:
        completed = subprocess.run(
            [*query, "--format=csv,noheader,nounits"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split(", ") for line in completed.stdout.decode().splitlines()]
    return [dict(zip(("name", "memory_mib", "driver"), row)) for row in rows if len(row) == 3]

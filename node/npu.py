"""Compare an Ascend node with what is wanted: NPUs, driver, CANN.

    npu:verify     answer what there is; refuse it with one line for each item that is missing or
                   differs, with where to get it

Its spec: devices, driver_version, cann_home, cann_version; a version may be empty for any.

The table of `npu-smi info` is read as drivers 22.0 to 25.5 print it: its first row has the
version, and each chip two rows, of which the first has its health and the second its bus address.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from typing import Any, Iterator

from node.answer import ProgramError

DRIVER_PAGE = "https://www.hiascend.com/hardware/firmware-drivers/community"
CANN_PAGE = "https://www.hiascend.com/developer/download/community/result?module=cann"
# Where the driver's installer puts npu-smi, beside what PATH has.
FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/local/Ascend/driver/tools"
PATIENCE_S = 60  # npu-smi asks each chip in turn, and a sick one answers late

# The first of a chip's rows has its NPU and name, the second its number within the NPU and its bus.
_NPU = re.compile(r"\|\s*(\d+)\s+[A-Za-z0-9]\S*\s+\|\s*[A-Za-z]+\s+\|")
_CHIP = re.compile(r"\|\s*(\d+)(?:\s+\d+)?\s+\|\s*[0-9A-Fa-f]{4}:[0-9A-Fa-f:.]+\s+\|")
_PROCESS = re.compile(r"\|\s*(\d+)\s+(\d+)\s+\|\s*(\d+)\s+\|\s*([^|\s]*)[^|]*\|\s*\d+\s+\|")


def read_table(text: str) -> dict[str, Any]:
    """Version, number of chips and those that are not OK, from the table of `npu-smi info`."""
    version = re.search(r"^\|\s*npu-smi\s+\S+\s+Version:\s*(\S+)", text, flags=re.MULTILINE)
    chips, sick, health = 0, [], ""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) < 3:
            continue
        if re.fullmatch(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]", cells[1]):
            chips += 1
            if health not in ("OK", ""):
                sick.append(f"NPU at {cells[1]}: health is {health}")
        elif re.match(r"[0-9]", cells[0]):
            health = cells[1]
    return {"driver": version.group(1) if version else "", "chips": chips, "sick": sick}


def users(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the processes on chips, from the same table: the chip's index, pid, program.

    Chips are counted in the table's order, which is how CANN counts them.
    """
    chips: list[tuple[str, str]] = []
    npu = ""
    for line in text.splitlines():
        if match := _NPU.match(line):
            npu = match[1]
        elif match := _CHIP.match(line):
            chips.append((npu, match[1]))
        elif (match := _PROCESS.match(line)) and (match[1], match[2]) in chips:
            yield chips.index((match[1], match[2])), int(match[3]), match[4]


def program() -> str | None:
    """Where npu-smi is, or None."""
    return shutil.which("npu-smi", path=f"{os.environ.get('PATH', os.defpath)}:{FOLDERS}")


def cann_version(home: str) -> str:
    """The version that CANN's installer wrote down; empty without one."""
    for pattern in ("latest/*-linux", "*-linux", "latest"):
        for path in sorted(glob.glob(f"{home}/{pattern}/ascend_toolkit_install.info")):
            with open(path, encoding="utf-8", errors="replace") as file:
                match = re.search(r"^version=(.+)$", file.read(), flags=re.MULTILINE)
            if match:
                return match.group(1).strip()
    return ""


def ask(program: str) -> tuple[str, str]:
    """The table, or why it is missing."""
    try:
        ran = subprocess.run(
            [program, "info"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        return "", f"no answer in {PATIENCE_S} s"
    except OSError as error:
        return "", error.strerror or str(error)
    text = ran.stdout.decode(errors="replace")
    if ran.returncode != 0:
        return "", f"exit {ran.returncode}: {(text.strip().splitlines() or ['no output'])[-1]}"
    return text, ""


def compare(expected: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What there is, and one line for each item that is missing or differs."""
    faults = []
    facts: dict[str, Any] = {"driver": "", "chips": 0, "sick": []}
    smi = program()
    if smi is None:
        faults.append(
            f"npu-smi: not there; install the NPU's driver and firmware from {DRIVER_PAGE}"
        )
    else:
        text, why = ask(smi)
        if why:
            faults.append(
                f"npu-smi: {why}; see that driver and firmware fit, and reboot after both"
            )
        else:
            facts = read_table(text)
            faults += facts["sick"]
            if facts["chips"] != int(expected["devices"]):
                faults.append(
                    f"NPUs: {facts['chips']}, not {expected['devices']}; see `npu-smi info`, or"
                    " correct cluster_devices_per_node"
                )
            if expected["driver_version"] not in ("", facts["driver"]):
                faults.append(
                    f"driver: {facts['driver']}, not {expected['driver_version']}; install that one"
                    f" from {DRIVER_PAGE}"
                )
    home = expected["cann_home"]
    facts["cann"] = cann_version(home)
    if not os.path.isfile(f"{home}/set_env.sh"):
        faults.append(
            f"CANN: {home}/set_env.sh is not there; install the toolkit from {CANN_PAGE}, or name"
            " its folder in npu_cann_home"
        )
    elif expected["cann_version"] not in ("", facts["cann"]):
        faults.append(
            f"CANN: {facts['cann'] or 'no version'}, not {expected['cann_version']}; install that"
            f" one from {CANN_PAGE}, or name its folder in npu_cann_home"
        )
    return facts, faults


def verify(expected: dict[str, Any]) -> dict[str, Any]:
    """Return what there is. Raises ProgramError where something is missing or differs."""
    facts, faults = compare(expected)
    if faults:
        raise ProgramError("\n".join(faults))
    return facts

"""roles/npu: what it says of an Ascend node. No NPU can be had here: `npu-smi` is a stand-in.

The stand-in is a program that prints a table in the form of driver 22.0 to 25.5; all else is real.
"""

from pathlib import Path
from typing import Any

import pytest

from runner.base.paths import PROJECT
from tests.node import Ran, run
from tests.roles.play import play

HEAD = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 23.0.3                   Version: 23.0.3                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
"""
CHIP = """\
| {n}     910B                | {health}            | 67.5        41             0    / 0          |
| 0                         | 0000:{bus}:00.0  | 0           0    / 0       2775 / 32768      |
+===========================+===============+====================================================+
"""
PROCESSES = """\
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
"""


def table(chips: int = 8, health: str = "OK") -> str:
    rows = "".join(
        CHIP.format(n=n, bus=f"{0xC0 + n:X}", health=health if n == 1 else "OK")
        for n in range(chips)
    )
    return HEAD + rows + PROCESSES


def node(folder: Path, text: str | None, *, rc: int = 0, cann: str | None = "7.0.RC1") -> Path:
    """A folder with the stand-in and a CANN."""
    home = folder / "cann"
    if text is not None:
        (folder / "table").write_text(text)
        program = folder / "bin" / "npu-smi"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\n[ "$*" = info ] && cat {folder}/table; exit {rc}\n')
        program.chmod(0o755)
    if cann is not None:
        (home / "latest" / "aarch64-linux").mkdir(parents=True)
        (home / "set_env.sh").touch()
        info = home / "latest" / "aarch64-linux" / "ascend_toolkit_install.info"
        info.write_text(f"package_name=Ascend-cann-toolkit\nversion={cann}\narch=aarch64\n")
    return home


def ask(folder: Path, **wanted: Any) -> Ran:
    spec = {"devices": 8, "driver_version": "", "cann_home": str(folder / "cann")}
    spec |= {"cann_version": "", **wanted}
    return run("npu:verify", spec, {"PATH": f"{folder}/bin:/usr/bin:/bin"})


def test_a_whole_node(tmp_path: Path) -> None:
    node(tmp_path, table())
    ran = ask(tmp_path, driver_version="23.0.3", cann_version="7.0.RC1")
    assert (ran.code, ran.words) == (0, "")
    assert ran.facts == {
        "driver": "23.0.3",
        "chips": 8,
        "sick": [],
        "cann": "7.0.RC1",
    }


def test_a_bare_node_names_both_and_where_to_get_them(tmp_path: Path) -> None:
    node(tmp_path, None, cann=None)
    ran = ask(tmp_path)
    assert ran.code == 1
    smi, cann = ran.words.splitlines()
    assert "npu-smi: not there; install the NPU's driver and firmware from https://" in smi
    assert f"CANN: {tmp_path}/cann/set_env.sh is not there; install the toolkit from http" in cann
    assert "npu_cann_home" in cann


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        (table(7), {}, "NPUs: 7, not 8; see `npu-smi info`"),
        (HEAD, {}, "NPUs: 0, not 8"),
        (table(health="Warning"), {}, "NPU at 0000:C1:00.0: health is Warning"),
        (table(), {"driver_version": "22.0.0"}, "driver: 23.0.3, not 22.0.0; install that one"),
        (table(), {"cann_version": "6.0"}, "CANN: 7.0.RC1, not 6.0"),
    ],
)
def test_what_differs_is_named(tmp_path: Path, text: str, more: dict[str, Any], words: str) -> None:
    node(tmp_path, text)
    ran = ask(tmp_path, **more)
    assert ran.code == 1
    assert ran.words.startswith(words), ran.words
    assert len(ran.words.splitlines()) == 1


def test_a_driver_that_does_not_answer(tmp_path: Path) -> None:
    node(tmp_path, "dcmi module initialize failed. ret is -8005\n", rc=1)
    ran = ask(tmp_path)
    assert ran.words.startswith("npu-smi: exit 1: dcmi module initialize failed. ret is -8005; see")


def test_the_playbook_names_what_is_missing_and_leaves_other_clusters_alone(tmp_path: Path) -> None:
    inventory = PROJECT / "inventory" / "local"
    words = ["-e", "cluster_device=npu", "-e", f"npu_cann_home={tmp_path}"]
    refused = play(inventory, *words, playbook="npu.yml")
    assert refused.rc != 0
    assert f"CANN: {tmp_path}/set_env.sh is not there" in refused.out
    assert play(inventory, playbook="npu.yml").recap["localhost"]["ok"] == 0

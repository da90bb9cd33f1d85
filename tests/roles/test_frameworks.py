"""Real frameworks of the package index, installed on a real node and asked by verify."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fixtures import Group, RealNodes
from tests.interpreters import python
from tests.roles.play import Ran, play_trainer

pytestmark = [pytest.mark.cluster, pytest.mark.network]
BASE = "/opt/trainbench-frameworks"
HOME = f"{BASE}/systems/frameworks/pin"


@pytest.fixture
def group(real_nodes: RealNodes) -> Iterator[Group]:
    made = real_nodes(1, variables={"cluster_root": BASE, "cluster_device": "cpu"})
    yield made
    made.nodes[0].exec(["rm", "-rf", BASE], check=True)


def run(group: Group, folder: Path, pin: dict[str, Any], **more: Any) -> Ran:
    extra = {"trainer_system": "frameworks", "trainer_pins": {"pin": pin}, **more}
    return play_trainer(group, folder, timeout=1800, **extra)


@pytest.mark.nightly("setup", by_day="minutes")
@pytest.mark.timeout(1800)
def test_deepspeed_of_today_is_installed_and_its_report_read(group: Group, tmp_path: Path) -> None:
    node = group.nodes[0]
    pin = {
        "build": ["setuptools==80.9.0", "wheel==0.45.1", "ninja==1.13.0"],
        "torch": {"version": "2.13.0"},
        "requirements": ["numpy==2.4.6"],
        "deepspeed": {"version": "0.19.8"},
    }
    made = run(group, tmp_path, pin)
    assert made.rc == 0, made.out
    verified = run(group, tmp_path, pin, entry="verify")
    assert verified.rc == 0, verified.out
    # Another torch by hand: the lock says so. Brought back, and only that.
    pip = [f"{HOME}/env/bin/python3", "-m", "pip"]
    node.exec([*pip, "uninstall", "-qy", "deepspeed"], check=True)
    broken = run(group, tmp_path, pin, entry="verify")
    assert "deepspeed 0.19.8 is not there" in broken.out
    assert run(group, tmp_path, pin).rc == 0
    assert run(group, tmp_path, pin, entry="verify").rc == 0
    # A pin that is not what the report says.
    report = f"{HOME}/env/bin/ds_report"
    node.exec(["sh", "-c", f"printf '#!/bin/sh\\nexit 3\\n' >{report}"], check=True)
    unread = run(group, tmp_path, pin, entry="verify")
    assert "deepspeed: ds_report fails" in unread.out


@pytest.mark.nightly("setup", by_day="minutes")
@pytest.mark.timeout(1800)
def test_document_001s_pins_are_installed_on_python_3_8(group: Group, tmp_path: Path) -> None:
    """As the document has them but for apex, which needs CUDA; pydantic 2, which its DeepSpeed
    pulls in today, breaks it, and verify says so.
    """
    pin: dict[str, Any] = {
        "python": "3.8",
        "build": ["setuptools==59.5.0", "wheel==0.38.4"],
        "torch": {"version": "1.10.1+cu113", "torchvision": "0.11.2", "torchaudio": "0.10.1"},
        "requirements": ["numpy==1.22.0", "transformers==4.30.2"],
        "deepspeed": {"version": "0.8.0"},
        "imports": ["transformers"],
    }
    where = {"python_env_interpreters": [python("3.8")]}
    made = run(group, tmp_path, pin, **where)
    assert made.rc == 0, made.out
    assert "PydanticUserError" in run(group, tmp_path, pin, entry="verify", **where).out
    pin["requirements"].append("pydantic==1.10.13")
    assert run(group, tmp_path, pin, **where).rc == 0
    verified = run(group, tmp_path, pin, entry="verify", **where)
    assert verified.rc == 0, verified.out
    installed = json.loads(group.nodes[0].read(f"{HOME}/installed.json"))
    assert installed["identity"]["python"].startswith("3.8.")
    versions = installed["identity"]["versions"]
    wanted = {"torch": "1.10.1", "numpy": "1.22.0", "setuptools": "59.5.0", "deepspeed": "0.8.0"}
    assert {name: versions[name] for name in wanted} == wanted


@pytest.mark.nightly("oneflow", by_day="827 MB")
@pytest.mark.timeout(3600)
def test_oneflow_0_8_0_of_the_index_is_installed_and_imported(group: Group, tmp_path: Path) -> None:
    """PIP_FIND_LINKS may name a folder that has the wheel already."""
    pin = {
        "python": "3.8",
        "requirements": ["numpy==1.22.0"],
        "oneflow": {
            "version": "0.8.0",
            "sha256": "766606bcdaa1a5263e97a6dcb9d02959c5faa3258300a371cc427a36877f21da",
        },
    }
    links = os.environ.get("PIP_FIND_LINKS", "")
    where = {"python_env_interpreters": [python("3.8")], "python_env_find_links": links}
    made = run(group, tmp_path, pin, **where)
    assert made.rc == 0, made.out
    verified = run(group, tmp_path, pin, entry="verify", **where)
    assert verified.rc == 0, verified.out
    again = run(group, tmp_path, pin, **where)
    assert again.changed() == {"node1": 0}
    installed = json.loads(group.nodes[0].read(f"{HOME}/installed.json"))
    assert installed["identity"]["versions"]["oneflow"] == "0.8.0"

"""Which torch comes to nodes without GPUs, by the real pip and two folders of small wheels."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from node.env.cpu_wheels import CPU_INDEX, for_cpus
from node.env.environment import EnvError

PIN = "torch==1.99.0"
NOBODY = "http://127.0.0.1:9/whl/cpu"


def wheel(folder: Path, version: str, needs: str = "") -> Path:
    folder.mkdir()
    info = f"torch-{version}.dist-info"
    with zipfile.ZipFile(folder / f"torch-{version}-py3-none-any.whl", "w") as file:
        text = f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n{needs}"
        file.writestr(f"{info}/METADATA", text)
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    return folder


@pytest.fixture
def index(tmp_path: Path) -> list[str]:
    """The lines of an index whose torch needs CUDA, as PyPI's does."""
    large = wheel(tmp_path / "large", "1.99.0", "Requires-Dist: nvidia-cublas-cu12==12.8\n")
    return [f"--index-url file://{tmp_path}/nothing", f"--find-links {large}"]


def asked(tmp_path: Path, index: list[str], mirror: str, **more: Any) -> list[str]:
    spec = {"cpu": True, "mirrors": {"pip": {CPU_INDEX: mirror}}, "environment": {}, **more}
    env: Any = SimpleNamespace(spec=spec, python=sys.executable, home=str(tmp_path))
    return for_cpus(env, ["numpy==2.4.6", PIN], index)


def test_the_small_build_is_found(tmp_path: Path, index: list[str]) -> None:
    small = wheel(tmp_path / "small", "1.99.0+cpu")
    line = [f"--find-links {small}"]
    assert asked(tmp_path, index, str(small)) == line
    assert asked(tmp_path, [*index, *line], NOBODY) == []  # the site's own choice has it
    assert asked(tmp_path, index, NOBODY, cpu=False) == []
    assert asked(tmp_path, ["--no-index", *index], NOBODY) == []  # the site's folder


def test_the_large_one_takes_a_yes(tmp_path: Path, index: list[str]) -> None:
    with pytest.raises(EnvError) as caught:
        asked(tmp_path, index, NOBODY)
    for words in ("3 GB to download, 4.8 GB", "python_env_find_links", "setup --yes"):
        assert words in str(caught.value)
    assert asked(tmp_path, index, NOBODY, cuda_accepted=True) == []


def test_what_pip_cannot_say_is_left_to_the_installation(tmp_path: Path) -> None:
    assert asked(tmp_path, [f"--index-url file://{tmp_path}/nothing"], NOBODY) == []

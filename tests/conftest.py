"""Fixtures of all tests. Those that need real nodes are in tests/cluster/fixtures.py."""

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from runner.inventory import inventory
from runner.systems.common.pins import pins
from tests import stand_in
from tests.asked_once import ansible_inventory

pytest_plugins = [
    "tests.cluster.fixtures",
    "tests.roles.apt_repository",
    "tests.workers",
    "tests.nightly",
]
ROOT = Path(__file__).resolve().parents[1]
# What `make setup` installs, and accept trains with. Those of other pin sets may stand beside it.
TORCH_ENV = ROOT / ".trainbench/systems/torch_gpt" / next(iter(pins("torch_gpt"))) / "env"


def _use_the_nodes_torch() -> None:
    """Add the packages that `make setup` put into this checkout's training environment.

    The trainer's tests, and the processes they start, need torch: 0.2 to 3 GB, of which one copy
    is enough. Both environments come from the same Python.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = TORCH_ENV / "lib" / version / "site-packages"
    if find_spec("torch") is None and packages.is_dir():
        sys.path.append(str(packages))
        os.environ["PYTHONPATH"] = str(packages)


_use_the_nodes_torch()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest: ranks that train."""
    items.sort(key=lambda item: "torch_gpt" not in item.path.parts)


@pytest.fixture(scope="session", autouse=True)
def _project_on_path() -> None:
    """Commands that tests start must find the checkout's modules and this Python's programs."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.fixture(scope="session", autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What commands record of this user is no person's."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def stand_in_root() -> Path:
    """A root folder with the stand-in trainer, where test nodes see it."""
    stand_in.install(stand_in.FOLDER, os.path.realpath(sys._base_executable))  # type: ignore[attr-defined]  # CPython has it
    return stand_in.FOLDER


@pytest.fixture(scope="session", autouse=True)
def _inventories_are_asked_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inventory, "ansible_inventory", ansible_inventory)
        yield

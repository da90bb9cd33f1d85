"""setup.yml on this machine (after `make setup`), and what it refuses."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.roles.play import play

LOCAL = ROOT / "inventory" / "local"


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    return Path(shutil.copytree(LOCAL, tmp_path / "inventory"))


def test_running_setup_again_changes_nothing() -> None:
    again = play(LOCAL)
    assert again.rc == 0, again.out
    assert again.changed() == {"localhost": 0}


def test_check_mode_on_a_bare_node_changes_nothing(tmp_path: Path, inventory: Path) -> None:
    root = tmp_path / "root"
    checked = play(inventory, "--check", "-e", f"cluster_root={root}", "--skip-tags", "verify")
    assert checked.rc == 0, checked.out
    assert not root.exists()


def test_unknown_system_is_refused_by_name(inventory: Path) -> None:
    refused = play(inventory, "-e", '{"cluster_systems": ["torch_gtp"]}')
    assert refused.rc != 0
    assert "cluster_systems names torch_gtp" in refused.out


def test_existing_environment_is_linked_not_installed(tmp_path: Path, inventory: Path) -> None:
    python = ROOT / ".trainbench/systems/torch_gpt/torch-2.13/env/bin/python3"
    words = ["-e", f"cluster_root={tmp_path / 'root'}", "-e", f"torch_gpt_existing_python={python}"]
    home = tmp_path / "root/systems/torch_gpt/torch-2.13"
    compiled = home / "cache/triton"
    compiled.mkdir(parents=True)
    gone = home / "src/parallel.py"  # of an earlier checkout
    gone.parent.mkdir()
    gone.touch()
    ran = play(inventory, *words, playbook="software.yml")
    assert ran.rc == 0, ran.out
    env = home / "env"
    assert env.is_symlink()
    assert env.resolve() == python.parent.parent.resolve()
    assert not gone.exists()
    assert (home / "src/train.py").exists()
    assert not compiled.exists()  # with whatever was there before
    compiled.mkdir(parents=True)
    assert play(inventory, *words, playbook="software.yml").changed() == {"localhost": 0}
    assert compiled.is_dir()


def test_nothing_is_installed_through_a_link(
    tmp_path: Path, inventory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that lacks the pins, and is named no more, goes before pip runs."""
    monkeypatch.setenv("PIP_RETRIES", "0")
    python = ROOT / ".trainbench/systems/torch_gpt/torch-2.13/env/bin/python3"
    env = tmp_path / "root/systems/torch_gpt/torch-2.12/env"
    env.parent.mkdir(parents=True)
    env.symlink_to(python.parent.parent)
    words = ["-e", f"cluster_root={tmp_path / 'root'}"]
    words += ["-e", '{"torch_gpt_pin_sets": ["torch-2.12"]}']
    words += ["-e", "python_env_index_url=http://127.0.0.1:9/"]
    ran = play(inventory, *words, playbook="software.yml")
    assert ran.rc != 0, ran.out  # no such index
    assert env.is_dir()
    assert not env.is_symlink()


def test_environment_without_torch_is_refused(tmp_path: Path, inventory: Path) -> None:
    words = ["-e", f"cluster_root={tmp_path / 'root'}"]
    words += ["-e", "torch_gpt_existing_python=/usr/bin/python3"]
    ran = play(inventory, *words, playbook="software.yml")
    assert ran.rc != 0
    assert "/usr/bin/python3 lacks torch" in ran.out

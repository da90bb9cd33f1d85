"""teardown.yml on this machine: a node without an sshd, whose only address is the loopback."""

import shutil
from pathlib import Path

import pytest

from runner.__main__ import main
from tests.conftest import ROOT
from tests.roles.play import Ran, play

# Systems, and a name of the mesh that no user of this machine has.
VARIABLES = """\
cluster_root: {root}
cluster_systems: [torch_gpt]
ssh_mesh_name: trainbench-test-of-teardown
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    copy = Path(shutil.copytree(ROOT / "inventory" / "local", tmp_path / "inventory"))
    (copy / "host_vars").mkdir()
    (copy / "host_vars" / "localhost.yml").write_text(VARIABLES.format(root=tmp_path / "root"))
    for part in ("systems/torch_gpt/torch-2.13", "conda"):
        (tmp_path / "root" / part).mkdir(parents=True)
    (tmp_path / "root" / "conda" / "trainbench.json").touch()
    return copy


def teardown(inventory: Path, *words: str) -> Ran:
    return play(inventory, *words, playbook="teardown.yml")


def test_teardown_here_takes_off_what_setup_put_there(tmp_path: Path, inventory: Path) -> None:
    checked = teardown(inventory, "--check")
    assert checked.rc == 0, checked.out
    assert checked.changed() == {"localhost": 2}, checked.out
    assert (tmp_path / "root/systems/torch_gpt/torch-2.13").is_dir()

    gone = teardown(inventory, "-e", "teardown=yes")
    assert gone.rc == 0, gone.out
    assert not list((tmp_path / "root/systems").iterdir())
    assert not (tmp_path / "root/conda").exists()
    assert teardown(inventory, "--check").changed() == {"localhost": 0}


def test_a_check_names_what_would_go_and_its_size(
    tmp_path: Path, inventory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["teardown", "-i", str(inventory), "--check", "--runs", str(tmp_path / "runs")]) == 0
    )
    said = capfd.readouterr().out
    assert f"{tmp_path}/root/conda (" in said
    assert f"{tmp_path}/root/systems/torch_gpt (" in said
    assert "teardown: 2 changes would be made; nothing was changed, " in said

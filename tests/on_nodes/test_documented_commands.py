"""README's and the how-tos' commands for a cluster, on four real nodes, as they stand there.

`init` alone has the nodes' own addresses, user and root folder, and how ssh finds them. The trainer
is the real one: the nodes see this checkout's .trainbench (made by `make setup`) as their root.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.fixtures import Group, RealNodes
from tests.conftest import ROOT
from tests.documented_commands import ACCEPT, CLUSTER, ON_NODES, README, commands

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.nightly("nodes", by_day="minutes"),
    pytest.mark.timeout(1800),
]
# They judge nodes that share two cores: exit code 1 is a slow one, 2 too noisy to tell.
# The page says to fit scaling.yaml, of nodes with eight GPUs, to one's own.
FITTED = {
    "model: gpt2-medium": "model: gpt2-tiny",
    "precision: bf16": "precision: fp32",
    "devices_per_node: 8": "devices_per_node: 1",
    "train_iters: 60": "train_iters: 12",
    "warmup_iters: 20": "warmup_iters: 2",
    "micro_batch_size: 8": "micro_batch_size: 4",
    "global_batch_size: 64": "global_batch_size: 8",
    "global_batch_size: 128": "global_batch_size: 16",
    "global_batch_size: 256": "global_batch_size: 32",
    "repeats: 3": "repeats: 1",
}
JUDGES = ("trainbench doctor ", "trainbench accept ")


@pytest.fixture
def group(real_nodes: RealNodes) -> Group:
    if not (ROOT / ".trainbench/datasets").is_dir():
        pytest.fail("this machine is not set up: run `make setup` first", pytrace=False)
    return real_nodes(4)


def of_these_nodes(line: str, group: Group, config: Path) -> str:
    """Put the nodes' addresses in place of README's."""
    named = "--hosts gpu01=10.0.0.11 gpu02=10.0.0.12 --user train"
    assert named in line
    hosts = " ".join(f"gpu{at:02}={node.address}" for at, node in enumerate(group.nodes, 1))
    root = ROOT / ".trainbench"
    return (
        line.replace(named, f"--hosts {hosts} --user root")
        + f" --ssh-config {config} --record-host-keys --overwrite --root {root}"
    )


def test_they_run_as_they_stand(tmp_path: Path, group: Group) -> None:
    config = tmp_path / "ssh_config"
    config.write_text(
        f"Host *\n  IdentityFile {group.cluster.directory / 'id_ed25519'}\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {tmp_path / 'known_hosts'}\n  GlobalKnownHostsFile /dev/null\n"
    )
    env = {
        **os.environ,
        "TRAINBENCH_FOLDER": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    for page in (CLUSTER, README, ACCEPT):
        for line in commands(page):
            if (page, line) not in ON_NODES:
                continue
            typed = of_these_nodes(line, group, config) if "trainbench init" in line else line
            ran = subprocess.run(
                ["bash", "-c", typed], cwd=tmp_path, env=env, capture_output=True, text=True
            )
            said = f"{typed}\n{ran.stdout}\n{ran.stderr}"
            assert ran.returncode in ((0, 1, 2) if line.startswith(JUDGES) else (0,)), said
            assert "Traceback" not in said
            if " --copy " in line:
                matrix = tmp_path / "scaling.yaml"
                text = matrix.read_text()
                for given, fitted in FITTED.items():
                    assert given in text
                    text = text.replace(given, fitted)
                matrix.write_text(text)
            if " bench " in line and "--dry-run" not in line:
                assert " ok, 0 not ok" in ran.stderr, said
    assert (tmp_path / "report.html").is_file()
    assert {path.name for path in (tmp_path / "runs").glob("[a-z]*")} >= {
        *("quickstart-mine", "scaling-mine")
    }

"""A node that takes the connection and never answers, and a `setup` that is killed meanwhile."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure

from roles.validate.action_plugins.validate_node import ActionModule
from tests.conftest import ROOT
from tests.on_nodes.campaign import wait

# ssh is asked first what it can; what it is to start on a node never ends.
NEVER = "#!/bin/sh\n[ $# -le 2 ] && exit 1\nexec sleep 1001\n"


def test_it_is_given_up_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    action: Any = ActionModule.__new__(ActionModule)
    action.python, action.patience_s = "python3", 0.5
    action._low_level_execute_command = lambda command: subprocess.run(["sleep", "1001"])
    request = {"root": "/opt/tb", "gcc": "", "items": []}
    with pytest.raises(AnsibleConnectionFailure, match="no answer within"):
        action._ask("node1", request, {})


def test_a_killed_setup_leaves_no_process(tmp_path: Path) -> None:
    ssh, inventory = tmp_path / "ssh", tmp_path / "inventory"
    ssh.write_text(NEVER)
    ssh.chmod(0o755)
    (inventory / "group_vars" / "all").mkdir(parents=True)
    (inventory / "group_vars" / "all" / "cluster.yml").write_text(
        "cluster_root: /opt/tb\ncluster_device: cpu\ncluster_devices_per_node: 1\n"
        "cluster_systems: [torch_gpt]\nsetup_privileged: false\n"
    )
    host = f"node1: {{ansible_host: 192.0.2.1, ansible_ssh_executable: {ssh}}}"
    (inventory / "hosts.yml").write_text(f"all: {{children: {{nodes: {{hosts: {{{host}}}}}}}}}\n")
    argv = [sys.executable, "-m", "runner", "setup", "--yes", "-i", str(inventory)]
    with (tmp_path / "said").open("wb") as said:
        setup = subprocess.Popen(
            [*argv, "--tags", "validate", "--runs", str(tmp_path / "runs")],
            cwd=ROOT,
            env={**os.environ, "SILENT": str(tmp_path)},
            stdout=said,
            stderr=said,
        )
    try:
        wait(lambda: "sleep\x001001" in started(tmp_path), 60, "the node's silence")
    finally:
        setup.send_signal(signal.SIGKILL)
        setup.wait()
    wait(lambda: not started(tmp_path), 20, "the end of what setup started")


def started(folder: Path) -> str:
    """The command lines of what began with SILENT=folder."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            environ = Path("/proc", entry, "environ").read_bytes()
            argv = Path("/proc", entry, "cmdline").read_text()
        except OSError:
            continue
        if f"SILENT={folder}\0".encode() in environ:
            found.append(argv)
    return "\n".join(found)

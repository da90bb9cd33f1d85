"""On real nodes: secrets stand nowhere, host keys are checked, what was fetched is removed."""

import os
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.fixtures import Group, RealNodes
from tests.conftest import ROOT
from tests.on_nodes.campaign import Bench

pytestmark = pytest.mark.cluster

# Of an inventory: what a shell or YAML would change, but no template, which is Ansible's there.
PLAIN = "a 'b' \"c\" $(touch /run/owned) `id` #: \\ %h\nsecond ✓"


def run(*words: str, inventory: Path) -> subprocess.CompletedProcess[str]:
    argv = [*words, "-i", str(inventory)]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=400)


def test_a_secret_is_in_no_log_no_folder_no_process_list_and_no_report(
    tmp_path: Path, real_nodes: RealNodes, stand_in_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HF_TOKEN by a lookup, and passwords of Ansible's own; a plain variable arrives as it is."""
    token, password = f"token-{uuid.uuid4().hex}", f"password-{uuid.uuid4().hex}"
    monkeypatch.setenv("MY_TOKEN", token)
    monkeypatch.setenv("ANSIBLE_LOG_PATH", str(tmp_path / "ansible.log"))
    variables: dict[str, Any] = {
        "cluster_root": str(stand_in_root),
        "cluster_devices_per_node": 2,
        "cluster_env": {"HF_TOKEN": "{{ lookup('env', 'MY_TOKEN') }}", "VALUE": PLAIN},
        "ansible_become_password": password,
        "ansible_password": password,
    }
    group = real_nodes(2, variables=variables)
    matrix = {
        "name": "trust",
        "defaults": {"system": "torch_gpt", "devices_per_node": 1, "nodes": 2},
        "axes": {"env": [{"ACT": "show", "STEP_S": "0.05"}, {"ACT": "events"}, {"ACT": "exit_3"}]},
        "time_limit_s": 480,
    }
    bench = Bench(tmp_path, group.inventory, matrix)
    bench.start()
    bench.wait_for_step(2)
    listed = [group.nodes[0].exec(["ps", "-eo", "args", "ww"]).stdout]
    listed.append(
        subprocess.run(["ps", "-eo", "args", "ww"], capture_output=True, text=True).stdout
    )
    code, said = bench.finish()
    assert code == 1, said
    first, second, third = (
        next(bench.campaign.glob(f"env=ACT_{name}*/repeat1/attempt1"))
        for name in ("show", "events", "exit_3")
    )
    log = (first / "nodes" / f"0001-{group.nodes[1].hostname}" / "launcher.log").read_text()
    assert f"TOKEN of {len(token)} letters" in log
    assert f"VALUE {PLAIN!r}" in log
    assert "train.py" in listed[0]
    assert "${HF_TOKEN:?set it first" in (first / "launch.sh").read_text()

    # what is brought, what is kept, what is removed
    events = second / "nodes" / f"0000-{group.nodes[0].hostname}" / "tensorboard"
    assert [path.name for path in events.iterdir()] == ["events.out.tfevents.1.host"]
    assert (events / "events.out.tfevents.1.host").read_bytes() == bytes(range(256))
    for node in group.nodes:
        found = node.exec(
            ["find", f"{stand_in_root}/runs/trust-inventory-0", "-name", "r1a1"]
        ).stdout.split()
        assert len(found) == 1, found
        assert "exit_3" in found[0]
        assert node.exec(["test", "-e", f"{found[0]}/fetched"]).returncode == 0
        assert node.exec(["stat", "-c", "%a", found[0]]).stdout == "700\n"
    assert third.exists()

    # everything that was written, here and there
    archive, report = tmp_path / "trust.tar.gz", tmp_path / "report.html"
    runs = ["--runs", str(bench.runs)]
    for words in (
        ["export", bench.campaign.name, "-o", str(archive)],
        ["collect", "--format", "html", "--output", str(report)],
    ):
        subprocess.run([sys.executable, "-m", "runner", *words, *runs], cwd=ROOT, check=True)
    assert archive.stat().st_mode & 0o777 == 0o600
    assert bench.campaign.stat().st_mode & 0o777 == 0o700
    with tarfile.open(archive) as members:
        members.extractall(tmp_path / "archive", filter="data")
    written = {str(path): path.read_bytes() for path in files(tmp_path) if path.is_file()}
    assert (tmp_path / "ansible.log").stat().st_size > 0
    for node in group.nodes:
        everything = node.exec(["grep", "-rlE", f"{token}|{password}", f"{stand_in_root}/runs"])
        assert everything.stdout == ""
    texts = {**written, "ps": "".join(listed).encode(), "bench": said.encode()}
    for secret in (token, password):
        assert [name for name, text in texts.items() if secret.encode() in text] == []
    assert group.nodes[0].exec(["ls", "/run/owned"]).returncode != 0


def files(folder: Path) -> Iterator[Path]:
    """All but the inventory, which is where a secret belongs."""
    return (path for path in folder.rglob("*") if not path.is_relative_to(folder / "inventory-0"))


@pytest.fixture
def changed(real_nodes: RealNodes, stand_in_root: Path, tmp_path: Path) -> Group:
    """Two nodes, of which the second answers with another host key than is known.

    The inventory says nothing on host keys: what checks them is this project's configuration.
    """
    variables = {
        "cluster_root": str(stand_in_root),
        "cluster_devices_per_node": 2,
        "cluster_systems": ["torch_gpt"],
        "setup_privileged": False,
    }
    group = real_nodes(2, variables=variables)
    hosts = group.inventory / "hosts.yml"
    content = yaml.safe_load(hosts.read_text())
    told = content["all"]["children"]["nodes"]["vars"]
    known = tmp_path / "known_hosts"
    del told["ansible_host_key_checking"]
    told["ansible_ssh_common_args"] = f"-F /dev/null -o UserKnownHostsFile={known}"
    hosts.write_text(yaml.safe_dump(content))
    right = (group.cluster.directory / "known_hosts").read_text()
    keys = dict(line.split(maxsplit=1) for line in right.splitlines())
    first, second = (f"{node.hostname},{node.address}" for node in group.nodes)
    known.write_text(f"{first} {keys[first]}\n{second} {keys[first]}\n")
    group.cluster.drop_connections(group.nodes)
    return group


def test_a_node_whose_host_key_changed_is_refused_by_every_command(
    tmp_path: Path, changed: Group
) -> None:
    second = changed.nodes[1].hostname
    control = Path.home() / ".ansible" / "tb"
    assert "ANSIBLE_HOST_KEY_CHECKING" not in os.environ
    matrix = {"name": "key", "defaults": {"system": "torch_gpt", "devices_per_node": 1, "nodes": 2}}
    done = Bench(tmp_path, changed.inventory, matrix).run()
    assert done.returncode == 2, done.stderr
    assert f"{second} cannot be used: " in done.stderr
    assert "Host key verification failed" in done.stderr
    asked = [sys.executable, "-m", "runner", "doctor", "--runs", str(tmp_path / "runs")]
    done = run(*asked, inventory=changed.inventory)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert second in said
    assert "Host key verification failed" in said
    done = run("ansible-playbook", "playbooks/setup.yml", inventory=changed.inventory)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in said or "Host key verification" in said, said
    assert not control.exists() or control.stat().st_mode & 0o077 == 0

"""What a node is before it boots: its folder, disk, cgroup, keys and files."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from . import network
from .gpus import Device
from .inventory import OWN_FOLDERS, SSHD_CONFIG, make_key
from .node import SSHD_PID_FILE, Node
from .system import run

# Filesystems that hold files; the others (proc, tmpfs, ...) a node has of its own or not at all.
DISKS = {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "overlay", "virtiofs", "9p", "nfs4"}
CHECKOUT = Path(__file__).resolve().parents[2]


def prepare(
    node: Node,
    hosts: str,
    resolv_conf: str,
    cluster_key: str,
    tmpfs: bool,
    devices: Sequence[Device] = (),
) -> None:
    """Make what the node boots from.  ``tmpfs``: keep the upper layer in memory, without a size.
    ``devices``: the files of its GPUs.
    """
    for folder in (node.disk, node.folder / "root"):
        folder.mkdir(parents=True)
    size_mib = node.record.upper_size_mib
    if size_mib is not None or tmpfs:
        options = "mode=755" if size_mib is None else f"mode=755,size={size_mib}m"
        # on this machine, not inside the node: the disk outlives the node's death
        run(["mount", "-n", "-t", "tmpfs", "-o", options, "trainbench", str(node.disk)])
    node.memory.create()
    node.memory.limit(node.record.memory_mib)
    key = node.folder / "host_key"
    make_key(key, node.hostname)
    files = {
        "/etc/hostname": [0o644, f"{node.hostname}\n"],
        "/etc/hosts": [0o644, hosts],
        "/etc/resolv.conf": [0o644, resolv_conf],
        "/etc/machine-id": [0o444, os.urandom(16).hex() + "\n"],
        "/etc/ssh/sshd_config": [0o644, SSHD_CONFIG],
        "/etc/ssh/ssh_host_ed25519_key": [0o600, key.read_text()],
        "/etc/ssh/ssh_host_ed25519_key.pub": [0o644, node.host_key],
        "/etc/ssh/authorized_keys": [0o600, cluster_key],
    }
    space = network.namespace(node.record.name, node.number)
    config = {
        "hostname": node.hostname,
        "pid_file": str(node.pid_file),
        "network_namespace": str(network.NETNS / space),
        "cgroup_kind": node.memory.kind,
        "cgroup_procs": node.memory.procs,
        "root": str(node.folder / "root"),
        "disk": str(node.disk),
        "other_mounts": _other_mounts(),
        "kept": [str(CHECKOUT)] if f"{CHECKOUT}/".startswith(OWN_FOLDERS) else [],
        "hidden": [node.record.directory],
        "shared": str(node.record.shared),
        "devices": devices,
        "files": files,
        "sshd": node.sshd_argv,
        "sshd_pid_file": SSHD_PID_FILE,
    }
    node.config_file.touch(mode=0o600)  # it holds the host key
    node.config_file.write_text(json.dumps(config))


def make_shared(folder: Path, size_mib: int | None) -> None:
    """Make the folder that the nodes share; in memory where it has a size."""
    folder.mkdir()
    if size_mib is not None:
        options = f"mode=755,size={size_mib}m"
        run(["mount", "-n", "-t", "tmpfs", "-o", options, "shared", str(folder)])


def _other_mounts() -> list[str]:
    """Folders of this machine on disks of their own, which an overlay of / would show empty."""
    folders = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        point = left.split()[4]
        if point == "/" or f"{point}/".startswith(OWN_FOLDERS) or set(point) & set("\\,:"):
            continue
        if right.split()[0] in DISKS and os.path.isdir(point) and point not in folders:
            folders.append(point)
    return folders

"""An inventory's files, with comments, from what machines answered. Pure."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml

from runner.base.errors import UserError
from runner.base.program_name import CALLED
from runner.enrol.host_list import Machine
from runner.enrol.probe_answer import Found, device_of, devices_of, same
from runner.enrol.ssh_probe import Way

FILES = HOSTS, CLUSTER, SETUP = (
    "hosts.yml",
    "group_vars/all/cluster.yml",
    "group_vars/all/setup.yml",
)


@dataclass(frozen=True)
class Preference:
    """What somebody asked for by name; empty is found out."""

    device: str = ""
    root: str = ""


def files(
    machines: Sequence[Machine], facts: Mapping[str, Found], way: Way, preference: Preference
) -> dict[str, str]:
    """Return the files of an inventory by path. Raises UserError where machines do not fit."""
    device = preference.device or device_of(facts.values())
    counts: dict[str, int] = {
        m.name: m.devices or devices_of(facts[m.name], device) for m in machines
    }
    if lacking := [name for name, count in counts.items() if not count]:
        tool = {"cuda": "nvidia-smi", "npu": "npu-smi"}[device]
        raise UserError(
            f"{', '.join(lacking)} has no device that {tool} shows, and --device is {device}; see"
            f" that its driver works (`{tool}`), leave it out, or take --device cpu"
        )
    root = same(
        facts, lambda machine_facts: machine_facts.root, "the root folder", "name one with --root"
    )
    texts = {
        HOSTS: _hosts(machines, facts, way, counts),
        CLUSTER: _cluster(facts, device, root, counts),
        SETUP: _SETUP,
    }
    for path, text in texts.items():
        if re.search(r"\{[{%#]", text):
            raise UserError(f"{path} would hold a template ({{{{); give plain names and paths")
    return texts


def scalar(text: str) -> str:
    """Write text as YAML that is read as that text again, without quotes where that is so."""
    plain = re.fullmatch(r"[A-Za-z0-9_/][A-Za-z0-9._/+-]*", text)
    return text if plain and yaml.safe_load(text) == text else json.dumps(text)


def _hosts(
    machines: Sequence[Machine],
    facts: Mapping[str, Found],
    way: Way,
    counts: Mapping[str, int],
) -> str:
    """Write hosts.yml: what all have alike stands once, below."""
    pythons = {facts[machine.name].python for machine in machines}
    lines = [
        "---",
        "# Written by `init`; yours to edit. The order of the hosts is the order of node ranks.",
        "nodes:",
        "  hosts:",
    ]
    for machine in machines:
        variables = {}
        if str(machine.address) != str(machine.name) and not machine.local:
            variables["ansible_host"] = scalar(machine.address)
        if len(pythons) > 1:
            variables["ansible_python_interpreter"] = scalar(facts[machine.name].python)
        if len(set(counts.values())) > 1:
            variables["cluster_devices_per_node"] = str(counts[machine.name])
        inside = ", ".join(f"{key}: {value}" for key, value in variables.items())
        lines.append(f"    {scalar(machine.name)}: {{{inside}}}")
    shared = {}
    if machines[0].local:
        shared["ansible_connection"] = "local"
    else:
        shared["ansible_user"] = scalar(facts[machines[0].name].user)
        if way.key:
            shared["ansible_ssh_private_key_file"] = scalar(way.key)
        if way.port:
            shared["ansible_port"] = str(way.port)
        if way.config:
            shared["ansible_ssh_common_args"] = scalar(shlex.join(["-F", way.config]))
    if len(pythons) == 1:
        shared["ansible_python_interpreter"] = scalar(pythons.pop())
    lines += ["  vars:", *(f"    {key}: {value}" for key, value in shared.items())]
    if not machines[0].local and not way.key:
        lines.append("    # The key is your ssh's own choice (~/.ssh/config, or the agent's); to")
        lines.append("    # name one: ansible_ssh_private_key_file: /home/you/.ssh/id_ed25519")
    return "\n".join(lines) + "\n"


def _cluster(facts: Mapping[str, Found], device: str, root: str, counts: Mapping[str, int]) -> str:
    """Write cluster.yml: what docs/inventory.md describes, key by key."""
    shared = all(machine_facts.shared for machine_facts in facts.values()) and len(facts) > 1
    disk = "one file system that all nodes share" if shared else "a disk of each node's own"
    lines = [
        "---",
        "# What the cluster is; docs/inventory.md describes each key.",
        f"# Holds systems, datasets and runs: on {disk}.",
        f"cluster_root: {scalar(root)}",
    ]
    if shared:
        lines.append("cluster_root_shared: true")
    lines.append(f"cluster_device: {device}")
    if len(set(counts.values())) == 1:
        if device == "cpu":
            lines.append("# For cpu: how many training processes per node at once.")
        lines.append(f"cluster_devices_per_node: {next(iter(counts.values()))}")
    sizes = [mib for machine_facts in facts.values() for mib in machine_facts.gpus]
    memory = [mib for mib in sizes if mib is not None]
    if device == "cuda" and memory and len(memory) == len(sizes):
        lines += [
            "# Of the smallest device, as nvidia-smi says it, to warn of a cell that does not fit.",
            f"cluster_device_memory_mib: {min(memory)}",
        ]
    lines += [
        f"# What setup puts on the nodes: `{CALLED} systems` lists what there is.",
        "cluster_systems: [torch_gpt]",
        *_network(facts, device),
    ]
    return "\n".join(lines) + "\n"


def _network(facts: Mapping[str, Found], device: str) -> list[str]:
    """Write the interface by which the machines reach each other, for every process of a run."""
    names = dict.fromkeys(
        name for machine_facts in facts.values() for name in machine_facts.interfaces
    )
    if not names and len(facts) == 1:
        return ["cluster_env: {GLOO_SOCKET_IFNAME: lo}"]
    if not names:
        return [
            "# Which interface the nodes reach each other by could not be found out (`ip route`):",
            "# cluster_env: {NCCL_SOCKET_IFNAME: eth0, GLOO_SOCKET_IFNAME: eth0}",
        ]
    joined = ",".join(names)
    lines = [
        "# The interface by which the nodes reach each other; InfiniBand: NCCL_IB_HCA, too.",
        "cluster_env:",
        f"  GLOO_SOCKET_IFNAME: {scalar(joined)}",
    ]
    if len(names) > 1:  # gloo wants each of those that it is given, on every node
        lines[-1] = "  # GLOO_SOCKET_IFNAME: none is the same on all nodes"
    if len(names) > 1 and device == "cpu":
        lines[1] = "cluster_env: {}"
    if device == "cuda":
        lines.append(f"  NCCL_SOCKET_IFNAME: {scalar('=' + joined)}")
    if device == "npu":
        lines.append(f"  HCCL_SOCKET_IFNAME: {scalar('=' + joined)}")
    return lines


_SETUP = """\
---
# Nothing that needs root: driver, CUDA and compilers are used as they are. `true` has setup install
# those that the inventory names (docs/inventory.md), where ansible_user may sudo.
setup_privileged: false
"""

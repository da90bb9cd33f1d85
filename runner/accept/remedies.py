"""What to do about a fault, by the test or item that found it. Pure."""

DEFAULT = "make it as it is on the other nodes, and accept again"
# By how the name of a test or an item begins; the longest that fits counts.
REMEDIES = {
    "": DEFAULT,
    "lost": "look at the node's console and log (journalctl -b -1), then accept again",
    "unreachable": "make ssh to the node work without a prompt, or remove it from the inventory",
    "correct": "take the device out of service: it computes wrongly; have it replaced",
    "matmul": "look at what else runs there, at clocks, power limit and temperature, and at the"
    " processors that a job may have (cgroup quota, affinity)",
    "sustained": "look at temperature, fans and power limit: nvidia-smi -q -d PERFORMANCE",
    "memory": "look at ECC errors, memory modules and what else runs there",
    "to_device": "look at PCIe width and generation, and at NUMA binding",
    "from_device": "look at PCIe width and generation, and at NUMA binding",
    "switch": "look at the nodes' common switch (errors and load of its ports)",
    "nccl_tests_wrong": "look at dmesg (Xid) and nvidia-smi nvlink -e; have its devices tested",
    "nccl_tests": "look at the links between its devices: nvidia-smi nvlink -s, dmesg (Xid)",
    "node": "look at the links between its devices: nvidia-smi topo -m, nvidia-smi nvlink -s",
    "pair": "look at the node's cable, port and switch: link speed, errors (ethtool -S, ibstat)",
    "pair_delivered": "look for lost packets: the node's cable and port (ethtool -S, ip -s link),"
    " and the buffers of its switch",
    "all": "look at the slowest link and at the switches between the nodes",
    "storage": "look at the disk (smartctl -a), what fills it and what else writes to it",
    "train": "look at the stages before; if all of them pass, train on this node alone and profile",
    "loss": "take the node out of service: it computes something else than the others",
    "MTU": "set the interface's MTU to that of the other nodes (ip link set dev IFACE mtu N)",
    "time": "start a time service on the node (chrony, systemd-timesyncd)",
    "free disk": "make room at cluster_root, or name another folder",
    "host name": "correct the addresses in the inventory: two names are swapped",
    "usable CPUs": "raise the processors that a job may have: cgroup quota, cpuset or affinity",
    "CPU quota": "raise the cgroup's quota (cpu.max, cpu.cfs_quota_us), or remove it",
    "system": "run setup again, which brings the same versions everywhere",
    "packages": "install the same packages as on the other nodes",
    "libraries": "install the same libraries as on the other nodes",
    "GPU memory errors": "have the device tested, and replaced",
    "mark": "compare with the provider's data sheet, and ask why",
    "regression": "find what changed since the earlier acceptance (findings of stage alike)",
}

ON_CPUS = {
    "sustained": "look at temperature, fans and power limit: sensors, turbostat",
    "node": "look at what else runs there, and at its memory channels and NUMA nodes (numactl -H)",
}


def remedy(test: str, device: str = "") -> str:
    """Return what to do about what a test found on nodes of such devices.

    >>> remedy("pair_small") == REMEDIES["pair"]
    True
    """
    name = max((name for name in REMEDIES if test.startswith(name)), key=len)
    return ON_CPUS.get(name, REMEDIES[name]) if device == "cpu" else REMEDIES[name]

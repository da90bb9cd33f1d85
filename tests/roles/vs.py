"""A cluster like inventory/vs on test nodes: its roles and variables, with what a test node allows.

Test nodes are of this machine's system (document 000's were older), have no GPU (the driver is
forced on them, its module never loaded), and reach NVIDIA's repositories as tests/roles/
apt_repository.py makes them. The inventory's systems need CUDA 11 and minutes to build: torch_gpt,
which trains on a CPU, stands for them by the same role `trainer`.
"""

from typing import Any

import yaml

from runner.base.paths import PROJECT

# How many systems the inventory has.
SYSTEMS = len(
    yaml.safe_load((PROJECT / "inventory/vs/group_vars/all/cluster.yml").read_text())[
        "cluster_systems"
    ]
)
ROOT_FOLDER = "/opt/trainbench-vs"


def variables(vendor: dict[str, Any]) -> dict[str, Any]:
    """Of the inventory's group_vars; `vendor` is what `Vendor.served` gives."""
    return {
        **vendor,
        "cluster_root": ROOT_FOLDER,
        "cluster_device": "cuda",
        "cluster_devices_per_node": 2,
        "cluster_systems": ["torch_gpt"],
        "cluster_env": {"GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "eth0"},
        "base_gcc_version": "11",
        "base_time_sync": False,  # the nodes' clock is this machine's: chronyd would set that
        "nvidia_driver_force": True,
        "nvidia_driver_version": "535.104.05",
        "nvidia_driver_fabric_manager": "yes",
        "cuda_versions": ["11.3", "12.4"],
        "cuda_libraries": ["libcudnn8=8.2.1.32-1+cuda11.3", "libnccl2=2.9.9-1+cuda11.3"],
        "container_runtime_engines": ["docker"],
        "container_runtime_toolkit_version": "1.16.2",
        "ssh_mesh_enabled": True,
        "dataset_vocab_size": 1024,
        "dataset_max_bytes": 500_000,
    }

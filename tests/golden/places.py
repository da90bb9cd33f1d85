"""Inventories for whole commands: this machine by a local connection, with the stand-in trainer."""

import json
from pathlib import Path
from typing import Any


def inventory(folder: Path, hosts: Any = None, **variables: Any) -> Path:
    """An inventory folder; `hosts` is what hosts.yml says, this machine alone unless given."""
    local = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
    }
    said = {"nodes": {"hosts": {"localhost": local}}} if hosts is None else hosts
    (folder / "group_vars" / "all").mkdir(parents=True)
    (folder / "hosts.yml").write_text(said if isinstance(said, str) else json.dumps(said))
    shared = {"cluster_root": "/opt/tb", "cluster_devices_per_node": 2, **variables}
    (folder / "group_vars" / "all" / "cluster.yml").write_text(json.dumps(shared))
    return folder


def stood_in(folder: Path, root: Path, **variables: Any) -> Path:
    """An inventory of this machine whose trainer is the stand-in (tests/stand_in.py)."""
    return inventory(folder, cluster_root=str(root), **variables)

"""What `ansible-inventory --list` says, as a cluster.

Only the named keys below are read: other variables may hold secrets. Their values come
untemplated, so a `{{` in one of them is refused by name.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from node.schema import Fields, List, Mapped, Plain, Text, UnfitError
from node.validated_text import Address, HostName
from runner.base.env import read_env
from runner.base.errors import NODES, UserError, no_nodes
from runner.base.masking import is_secret
from runner.base.paths import node_root
from runner.base.suggest import nearest
from runner.inventory import site_engine
from runner.inventory.declared_pins import declared_pins
from runner.inventory.engine_keys import nodes_of_jobs, read_engine
from runner.inventory.key_rules import MOST_NAME, address_fault, quoted, root_fault, value_faults
from runner.inventory.listing import Unread, ansible_inventory
from runner.inventory.missing_inventory import absent
from runner.terms.cluster import CANN_HOME, DEVICES, LOST_CONTACT_S, Cluster, Node
from runner.terms.container_engines import ENGINES as CONTAINER_ENGINES
from runner.terms.container_engines import Containers
from runner.terms.engines.engine_settings import EngineSettings
from runner.terms.engines.engine_table import ENGINES, engine_keys
from runner.terms.orders import MOST_NODES

# Every key of a cluster that the runner reads from an inventory; docs/inventory.md is written from
# it. Those of one engine are in its module in runner/terms/engines/.
KEYS: Mapping[str, str] = {
    "cluster_root": "folder for systems, datasets and runs, on each node's own disk or with"
    " cluster_root_shared (absolute; relative to the checkout for a local connection)",
    "cluster_root_shared": "true: all nodes share cluster_root; setup installs there once"
    " (default false)",
    "cluster_device": "what the nodes train on: cpu, cuda or npu",
    "cluster_devices_per_node": "devices per node (for cpu: processes); the default of a cell's"
    " devices_per_node",
    "cluster_systems": "systems that setup installs",
    "cluster_address": "address of the node for rendezvous; default ansible_host",
    "cluster_switch": "name of the node's leaf switch; `accept` then compares switches (on Slurm,"
    " its topology names them)",
    "cluster_env": "variables for every process of every run, such as NCCL_SOCKET_IFNAME; of a"
    " secret (HF_TOKEN) only the name is recorded; it may be a vault or a lookup",
    "cluster_device_memory_mib": "memory of one device, to warn of a cell that does not fit",
    "cluster_engine": "what starts runs: "
    + ", or ".join(
        f"{engine.name} ([{engine.page}]({engine.page}))"
        if engine.page
        else f"{engine.name} (the default)"
        for engine in ENGINES.values()
    ),
    "cluster_scratch": "folder on each node's own disk, for caches of a run (absolute)",
    "cluster_checkpoints": "shared folder for checkpoints (absolute; default: below"
    " cluster_root, enough for one node, on Slurm and with cluster_root_shared)",
    "cluster_lost_contact_s": "seconds without contact after which a node is lost (default"
    f" {LOST_CONTACT_S:g}), longer with slow polls; the node ends its run after twice that",
    "cluster_group": "group of trusted users, who may read your campaigns, and own and write to"
    " folders of runs (default: only you)",
    "cluster_container_engine": "what runs images of pin sets ([containers.md]"
    f"(containers.md)): {', '.join(CONTAINER_ENGINES)}; default podman, in jobs the login node's",
    "cluster_container_ssh_port": "port of the sshd in containers, for launchers that use ssh;"
    " one of ssh_mesh_ports (default 2222)",
    "cluster_container_options": "further options of every container, such as"
    " --device=/dev/infiniband",
}
_FURTHER = ("npu_cann_home", "command_pins", "ansible_host", "ansible_connection")


# What `ansible-inventory --list` says: groups by name, and `_meta` with the hosts' variables.
_NAME = Text(lines=True)  # of any group and host; those of nodes are checked closer
_LISTED = Mapped(
    _NAME,
    Fields(
        {},
        {
            "hosts": (List(_NAME), []),
            "children": (List(_NAME), []),
            "hostvars": (Mapped(_NAME, Mapped(_NAME, Unread())), {}),
        },
    ),
)


def load_inventory(path: Path, instead: Mapping[str, Any] = MappingProxyType({})) -> Cluster:
    """Read an inventory folder or file, with some of its engine's keys `instead` of its own.

    Raises UserError that names the key and the cure.
    """
    if not path.exists():
        raise UserError(absent(path))
    return parse_inventory(ansible_inventory(path), path, instead)


def refuse_unedited(cluster: Cluster) -> None:
    """Refuse an address that is still to be edited, before nodes are asked."""
    addresses = [(node.host, node.address) for node in cluster.nodes]
    if fault := address_fault(addresses, f"{cluster.path}/hosts.yml"):
        raise UserError(fault)


def parse_inventory(
    listed: Mapping[str, Any], path: Path, instead: Mapping[str, Any] = MappingProxyType({})
) -> Cluster:
    """Build a cluster from `ansible-inventory --list`'s answer. Raises UserError."""
    try:
        return _cluster(_LISTED.check(listed, str(path)), path, instead)
    except UnfitError as error:
        raise UserError(str(error)) from None


def _cluster(listed: Mapping[str, Any], path: Path, instead: Mapping[str, Any]) -> Cluster:
    hosts = _members(listed)
    if not hosts:
        raise UserError(no_nodes(path))
    hostvars = listed.get("_meta", {}).get("hostvars", {})
    variables = {
        host: _checked_keys({**hostvars.get(host, {}), **instead}, host, path) for host in hosts
    }
    shared = {
        key: _same(variables, key, path)
        for key in (
            "cluster_root_shared",
            "cluster_device",
            "cluster_env",
            "cluster_device_memory_mib",
            "cluster_lost_contact_s",
            "cluster_group",
            "cluster_container_engine",
            "cluster_container_ssh_port",
            "cluster_container_options",
            "cluster_engine",
            "cluster_scratch",
            "cluster_checkpoints",
            "npu_cann_home",
            "command_pins",
            *engine_keys(),
        )
    }
    device = shared["cluster_device"] or "cpu"
    if device not in DEVICES:
        raise UserError(
            f"{path}: cluster_device is {quoted(device)}; it must be one of {', '.join(DEVICES)}"
        )
    for fault in value_faults(shared):
        raise UserError(f"{path}: {fault}")
    lost = shared["cluster_lost_contact_s"]
    lost = LOST_CONTACT_S if lost is None else lost
    env = shared["cluster_env"]
    if isinstance(env, dict):  # a secret's value was left out, but its name is in launch.sh
        env = {name: "" if is_secret(name) else value for name, value in env.items()}
    env = read_env(env, f"{path}: cluster_env")
    secrets = tuple(name for name in env if is_secret(name))
    nodes = tuple(_node(host, variables[host], path) for host in hosts)
    engine = read_engine(shared, str(path), device, nodes[0].devices)
    if engine.in_jobs:
        connections = {entry.get("ansible_connection") for entry in variables.values()}
        nodes = nodes_of_jobs(engine, nodes, str(path), local=connections == {"local"})
    return Cluster(
        name=_name(path),
        path=path,
        device=device,
        nodes=nodes,
        env={name: value for name, value in env.items() if name not in secrets},
        device_memory_mib=shared["cluster_device_memory_mib"] or None,
        lost_contact_s=float(lost),
        secrets=secrets,
        containers=_containers(shared, path, engine),
        cann_home=shared["npu_cann_home"] or CANN_HOME,
        engine=engine,
        scratch=PurePosixPath(shared["cluster_scratch"]) if shared["cluster_scratch"] else None,
        checkpoints=PurePosixPath(shared["cluster_checkpoints"])
        if shared["cluster_checkpoints"]
        else None,
        root_shared=_root_shared(shared["cluster_root_shared"], nodes, path),
        group=shared["cluster_group"] or "",
        command_pins=declared_pins(shared["command_pins"], str(path)),
    )


def _root_shared(value: Any, nodes: tuple[Node, ...], path: Path) -> bool:
    """Read whether nodes share their root, which is one folder then."""
    if not isinstance(value, bool | None):
        raise UserError(f"{path}: cluster_root_shared is {quoted(value)}; it must be true or false")
    roots = {node.root: node.host for node in nodes}
    if value and len(roots) > 1:
        raise UserError(
            f"{path}: cluster_root differs between {' and '.join(sorted(roots.values())[:2])},"
            " and cluster_root_shared is true; nodes that share it have it at one path"
        )
    return bool(value)


def _containers(shared: Mapping[str, Any], path: Path, starts: EngineSettings) -> Containers:
    """Read how the cluster runs containers."""
    default = Containers()
    engine = site_engine.engine_named(shared["cluster_container_engine"], starts)
    if engine not in tuple(CONTAINER_ENGINES):  # it may be a mapping, which has no hash
        raise UserError(
            f"{path}: cluster_container_engine is {quoted(engine)}; it must be one of"
            f" {', '.join(CONTAINER_ENGINES)}"
        )
    port = shared["cluster_container_ssh_port"]
    port = default.ssh_port if port is None else port
    return Containers(engine, port, tuple(shared["cluster_container_options"] or ()))


def _name(path: Path) -> str:
    resolved = path.resolve()
    if resolved.is_dir():
        return resolved.name if resolved.name != "inventory" else resolved.parent.name
    return resolved.stem if resolved.stem != "hosts" else resolved.parent.name


def _members(listed: Mapping[str, Any]) -> list[str]:
    """Return the hosts of the nodes and of their child groups, in the inventory's order, once."""
    hosts: dict[str, None] = {}
    groups, visited = [NODES], {NODES}
    while groups:
        group = listed.get(groups.pop(0), {})
        hosts |= dict.fromkeys(group.get("hosts", ()))
        children = [child for child in group.get("children", ()) if child not in visited]
        visited.update(children)
        groups = children + groups
    if len(hosts) > MOST_NODES:
        raise UserError(f"the inventory has {len(hosts)} nodes, more than {MOST_NODES}")
    return list(hosts)


def _checked_keys(variables: Mapping[str, Any], host: str, path: Path) -> dict[str, Any]:
    """Keep only the keys that we know; a misspelt `cluster_` key is an error, not a silence."""
    allowed = {**KEYS, **engine_keys()}
    prefixes = tuple(engine.prefix for engine in ENGINES.values() if engine.prefix)
    for key in variables:
        if key.startswith(("cluster_", *prefixes)) and key not in allowed:
            keys = engine_keys() if key.startswith(prefixes) else KEYS
            raise UserError(
                f"{path}: {host} has an unknown key {key!r}{nearest(key, keys)}; the keys are"
                f" {', '.join(keys)}"
            )
    values = {key: variables[key] for key in (*allowed, *_FURTHER) if key in variables}
    if isinstance(env := values.get("cluster_env"), dict):
        values["cluster_env"] = {k: None if is_secret(str(k)) else v for k, v in env.items()}
    for key, value in values.items():
        Plain(lines=key == "cluster_env").check(value, f"{path}: {key} of {host}")
        if re.search(r"\{[{%]", json.dumps(value)):
            raise UserError(
                f"{path}: {key} of {host} is a template ({{{{ ... }}}}), which the runner does not"
                " resolve; write the plain value"
            )
    return values


def _same(variables: Mapping[str, Mapping[str, Any]], key: str, path: Path) -> Any:
    """Read a key that holds for the whole cluster."""
    values = {json.dumps(entry.get(key), sort_keys=True): host for host, entry in variables.items()}
    if len(values) > 1:
        raise UserError(
            f"{path}: {key} differs between {' and '.join(sorted(values.values())[:2])}; it holds"
            " for the whole cluster, so set it once, in group_vars/all"
        )
    return json.loads(next(iter(values)))


def _node(host: str, variables: Mapping[str, Any], path: Path) -> Node:
    try:
        host = HostName(host)
    except UnfitError:
        raise UserError(
            f"{path}: {host!r} cannot be a node's name, because it also names folders; use letters,"
            " digits, '.', '_', '-', and put the address into ansible_host"
        ) from None
    local = variables.get("ansible_connection") == "local"
    root = variables.get("cluster_root")
    root = root if isinstance(root, str) else ""
    if fault := root_fault(root, local, host):
        raise UserError(f"{path}: {fault}")
    devices = variables.get("cluster_devices_per_node")
    if isinstance(devices, bool) or not isinstance(devices, int) or not 1 <= devices <= MOST_NODES:
        raise UserError(
            f"{path}: cluster_devices_per_node of {host} is {quoted(devices)}; it must be a whole"
            f" number of at least 1, and at most {MOST_NODES}"
        )
    switch = variables.get("cluster_switch")
    switch = "" if switch is None else switch
    if not isinstance(switch, str) or len(switch) > MOST_NAME:
        raise UserError(
            f"{path}: cluster_switch of {host} is {quoted(switch)}; it must be a switch's name, in"
            " quotes if it is a number"
        )
    default = "127.0.0.1" if local else variables.get("ansible_host") or host
    return Node(
        host=host,
        address=Address(
            variables.get("cluster_address") or default, f"{path}: the address of {host}"
        ),
        devices=devices,
        root=node_root(root),
        switch=switch,
    )

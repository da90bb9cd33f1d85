"""A pin set that is an image: a node's command as what a container engine starts. Pure.

docs/architecture.md has the design. The container has the node's network, shared memory and root
folder, each where the node has it, so that addresses, ports and paths are the same within.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from runner.base.errors import UserError
from runner.systems.common.pins import pins
from runner.terms.cell import Cell
from runner.terms.cluster import ENGINES, GPUS, Cluster
from runner.terms.run import Command, NodeContext

REMOVE: Mapping[str, tuple[str, ...]] = {
    "podman": ("rm", "--force", "--ignore", "--time=0"),
    "docker": ("rm", "--force"),
}
# The supervisor sets it, and finds the container's processes by it.
RUN_MARK = "PYTHON_TRAINBENCH_RUN"
SSHD = "trainbench-sshd"  # of the image: roles/container_image/files
WITHIN = "/etc/trainbench"  # where the image expects the mesh and the host key
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"


def image_of(system: str, pin: str) -> str:
    """Return the local name of a pin set's image; "" for a pin set that is an environment.

    plugins/filter/pins.py has the same rule; a test compares them.
    """
    return f"localhost/trainbench/{system}:{pin}" if "image" in pins(system).get(pin, {}) else ""


def check_image(cell: Cell, cluster: Cluster) -> None:
    """Refuse what no container can be given."""
    if not image_of(cell.system, cell.pin):
        return
    if cluster.device == "npu":
        raise UserError(f"pin {cell.pin} is an image, which gets no NPU here; take another pin")
    for node in cluster.nodes[: cell.nodes]:
        if ":" in str(node.root):
            raise UserError(
                f"cluster_root of {node.host} is {node.root}, and no engine can mount a path with"
                " ':'; name another folder"
            )


def wrap(command: Command, names: Iterable[str], node: NodeContext, root: PurePosixPath) -> Command:
    """Wrap the node's command in a container of its image, and say what ends the container for
    sure.

    `names` are those of its variables: no value is in argv, since the engine passes them on from
    its own environment.
    """
    cluster = node.containers
    engine = ENGINES[cluster.engine]
    name = f"trainbench-{hashlib.sha256(str(node.run_dir).encode()).hexdigest()[:12]}"
    name += f"-{node.node_rank}"
    argv = [engine, "run", "--rm", "--pull=never", "--name", name, "--network=host", "--ipc=host"]
    argv += [GPUS[cluster.engine]] if node.device == "cuda" else []
    argv += [*cluster.options, "--volume", f"{root}:{root}"]
    mounts = {f"{node.home}/mesh": "mesh", HOST_KEY: "ssh_host_ed25519_key"} if command.ssh else {}
    for place, within in mounts.items():
        argv += ["--volume", f"{place}:{WITHIN}/{within}:ro"]
    # Its sshd keeps the variables for a session there, secret ones among them: on no disk.
    argv += ["--tmpfs=/root/.ssh:mode=700"] if command.ssh else []
    argv += ["--workdir", command.cwd]
    for key in (*names, RUN_MARK):
        argv += ["--env", key]
    argv += [node.image, *((SSHD, str(cluster.ssh_port)) if command.ssh else ()), *command.argv]
    # What the image has is not looked for on the node.
    requires = {path: size for path, size in command.requires.items() if within_of(path, root)}
    if command.ssh:
        requires |= {f"{node.home}/mesh/authorized_keys": None, HOST_KEY: None}
    return replace(
        command,
        argv=tuple(argv),
        requires=requires,
        ports=(*command.ports, *((cluster.ssh_port,) if command.ssh else ())),
        serves=not command.argv,
        after=((engine, *REMOVE[cluster.engine], name),),
    )


def within_of(path: str, root: PurePosixPath) -> bool:
    """Return whether a path lies in the folder that the container shares with the node."""
    return PurePosixPath(path).is_relative_to(root)

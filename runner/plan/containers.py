"""A pin set that is an image: a node's command as what a container engine starts. Pure.

docs/architecture.md has the design. The container has the node's network, shared memory and root
folder, each where the node has it, so that addresses, ports and paths are the same within.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePosixPath

from node.supervisor.processes import SIGNATURE
from node.supervisor.slurm_environment import DEVICES
from runner.base.errors import UserError
from runner.systems.common.pins import pins
from runner.terms.cell import Cell
from runner.terms.cluster import Cluster
from runner.terms.container_engines import ENGINES, Container, ContainerEngine, Mount, image_name
from runner.terms.run import Command, NodeContext

SSHD = "trainbench-sshd"  # of the image: roles/container_image/files
JOB_ID = "{job_id}"  # filled in by what starts the step
WITHIN = "/etc/trainbench"  # where the image expects the mesh and the host key
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"


def image_of(system: str, pin: str) -> str:
    """Return the local name of a pin set's image; "" for a pin set that is an environment."""
    return image_name(system, pin) if "image" in pins(system).get(pin, {}) else ""


def check_image(cell: Cell, cluster: Cluster) -> None:
    """Refuse what no container can be given."""
    if not image_of(cell.system, cell.pin):
        return
    if cluster.device == "npu":
        raise UserError(f"pin {cell.pin} is an image, which gets no NPU here; take another pin")
    engine = ENGINES[cluster.containers.engine]
    _check_engine(engine, cell, cluster)
    for node in cluster.nodes[: cell.nodes]:
        _check_mounted(engine, f"cluster_root of {node.host}", node.root)
    _check_mounted(engine, "cluster_scratch", cluster.scratch)


def _check_mounted(engine: ContainerEngine, name: str, path: PurePosixPath | None) -> None:
    """Refuse a folder that the engine cannot be told to mount."""
    if odd := [letter for letter in engine.separators if letter in str(path)]:
        raise UserError(
            f"{name} is {path}, and {engine.name} cannot mount a path with '{odd[0]}'; name"
            " another folder"
        )


def _check_engine(engine: ContainerEngine, cell: Cell, cluster: Cluster) -> None:
    """Refuse an engine that the cluster's runs cannot have."""
    beginning = f"pin {cell.pin} is an image, and cluster_container_engine is {engine.name}"
    fitting = [
        candidate.name
        for candidate in ENGINES.values()
        if (candidate.filed or not cluster.one_root)
        and candidate.starter in ("", cluster.engine.starter)
    ]
    if engine.starter and cluster.engine.setup_lines(cell.placement):
        raise UserError(
            f"{beginning}, which runs the whole task in the image, without the node's modules;"
            f" remove {cluster.engine.prefix}setup, or use one of"
            f" {', '.join(option.name for option in ENGINES.values() if not option.starter)}"
        )
    if engine.name not in fitting:
        why = (
            f"which {engine.starter} alone can start"
            if engine.starter
            else "whose images are in each node's own storage, which setup does not reach here"
        )
        raise UserError(f"{beginning}, {why}; name one of {', '.join(fitting)}")
    if cluster.one_root and engine.kept and not cluster.scratch:
        raise UserError(
            f"{beginning}, which takes images into a storage on a disk of each node's own; set"
            " cluster_scratch to a folder there"
        )


def wrap(
    command: Command,
    names: Iterable[str],
    node: NodeContext,
    cluster: Cluster,
    campaign: PurePosixPath | None,
) -> Command:
    """Wrap the node's command in a container of its image, and say what ends the container for
    sure.

    `names` are those of its variables: no value is in argv, since the engine passes them on from
    its own environment. `campaign` is its folder, where the nodes see that.
    """
    settings, root = cluster.containers, cluster.nodes[node.node_rank].root
    engine = ENGINES[settings.engine]
    _check_mounted(engine, "the campaign's folder (--runs)", campaign)
    scratch = PurePosixPath(node.scratch) if node.scratch else None
    folders = [folder for folder in (root, campaign, scratch) if folder]
    mounts = [Mount(str(folder), str(folder)) for folder in _outermost(folders)]
    keys = {f"{node.home}/mesh": "mesh", HOST_KEY: "ssh_host_ed25519_key"} if command.ssh else {}
    mounts += [Mount(host_path, f"{WITHIN}/{within}", True) for host_path, within in keys.items()]
    stored = engine.kept and not cluster.one_root
    container = Container(
        name=_name(node, engine, cluster),
        image=node.image if stored else engine.file(node.home),
        argv=(*((SSHD, str(settings.ssh_port)) if command.ssh else ()), *command.argv),
        cwd=command.cwd,
        home=node.scratch or str(node.run_dir),
        mounts=mounts,
        env=(*names, *(DEVICES if cluster.engine.in_jobs else ()), *SIGNATURE),
        # Its sshd keeps the variables for a session there, secret ones among them.
        memory=("/root/.ssh",) if command.ssh else (),
        gpus=node.device == "cuda",
        options=settings.options,
        storage="" if stored else f"{cluster.scratch}/trainbench-images-{_short(root)[:8]}",
    )
    # What the image has is not looked for on the node.
    requires = {
        path: size
        for path, size in command.requires.items()
        if any(PurePosixPath(path).is_relative_to(folder) for folder in folders)
    }
    if not stored:
        requires[container.image] = None
    if command.ssh:
        requires |= {f"{node.home}/mesh/authorized_keys": None, HOST_KEY: None}
    return replace(
        command,
        argv=engine.argv(container),
        requires=requires,
        ports=(*command.ports, *((settings.ssh_port,) if command.ssh else ())),
        serves=not command.argv,
        after=engine.after(container),
        step=engine.step(container),
    )


def _name(node: NodeContext, engine: ContainerEngine, cluster: Cluster) -> str:
    """Name the container: the run's on this node, or what the job's next run finds unpacked.

    "" for what nobody asks for by a name, and goes with the step.
    """
    if not engine.starter:
        return f"trainbench-{_short(node.run_dir)}-{node.node_rank}"
    again = cluster.engine.one_job
    return f"trainbench-{JOB_ID}-{_short(node.home)}" if again else ""


def _short(path: PurePosixPath) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()[:12]


def _outermost(folders: Iterable[PurePosixPath]) -> list[PurePosixPath]:
    """Return the folders without those that are in another."""
    outermost: list[PurePosixPath] = []
    for folder in sorted(set(folders)):
        if not any(folder.is_relative_to(outer) for outer in outermost):
            outermost.append(folder)
    return outermost

"""Plan what each node of a cluster runs for a cell. Pure: the same input gives the same plan."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from node.supervisor import names
from node.supervisor.placeholders import MASTER_PORT, PORTS
from node.supervisor.scratch import PREFIX, TEMPORARY
from runner.base.paths import BASE_PATH, dataset_home, system_home
from runner.plan.containers import image_of, wrap
from runner.plan.profiling import with_nsys
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell, Matrix, seeded
from runner.terms.cluster import Cluster, Node
from runner.terms.container_engines import ENGINES, ContainerEngine
from runner.terms.faults import TORCHRUN
from runner.terms.orders import Chain, Limits, NodeRun
from runner.terms.run import Command, NodeContext, Run

# The variables that limit a process to some of a node's devices.
VISIBLE = {"cuda": "CUDA_VISIBLE_DEVICES", "npu": "ASCEND_RT_VISIBLE_DEVICES"}


def make_run(
    matrix: Matrix,
    cell: Cell,
    cluster: Cluster,
    *,
    campaign: str,
    repeat: int = 1,
    attempt: int = 1,
    port_try: int = 0,
    dataset_sizes: Mapping[str, int] | None = None,
    folder: PurePosixPath | None = None,
    begun: int | None = None,
) -> Run:
    """Plan one run, with its repeat's seed.

    `begun` is the first attempt of the chain whose checkpoints it resumes; by default this one.
    `dataset_sizes` (file name to bytes), if known, is checked on each node. `folder` is the
    attempt's folder, which the nodes of a job share.
    """
    cell = seeded(cell, matrix.seeds, repeat)
    run_id = f"{campaign}/{cell.id}/r{repeat}a{attempt}"
    port = port_of(run_id, port_try)
    dirs = run_folders(cluster, cluster.nodes[: cell.nodes], run_id, folder)
    scratch = scratch_of(cell, cluster, dirs[0])
    addresses = tuple(node.address for node in cluster.nodes[: cell.nodes])
    chain = None
    if cell.goes_on:
        chain_id = f"{campaign}/{cell.id}/r{repeat}-{begun or attempt}"
        chain = _chain(cell, cluster, chain_id)
    contexts = [
        _context(cell, cluster, rank, run_dir, port, scratch, addresses, chain)
        for rank, run_dir in enumerate(dirs)
    ]
    in_jobs = cluster.engine.in_jobs
    campaign_folder = (
        folder.parents[2] if in_jobs and folder else None
    )  # the campaign's, on the nodes
    return Run(
        campaign=campaign,
        cell=cell,
        repeat=repeat,
        attempt=attempt,
        warmup_iters=matrix.warmup_iters,
        limits=Limits(matrix.time_limit_s, matrix.stall_limit_s, cluster.lost_contact_s),
        master_address=cluster.nodes[0].address,
        master_port=port,
        nodes=tuple(
            _node_run(cell, cluster, context, port, dataset_sizes or {}, campaign_folder)
            for context in contexts
        ),
        secrets=cluster.secrets,
        setup=cluster.engine.setup_lines(cell.placement),
        teardown=cluster.engine.teardown_lines(cell.placement),
        chain=chain,
    )


def _chain(cell: Cell, cluster: Cluster, chain_id: str) -> Chain:
    """Plan where a repeat keeps its checkpoints, and which faults its nodes inject."""
    return Chain(
        folder=str(cluster.chain_folder(chain_id)),
        faults=cell.faults.planned if cell.faults else (),
        iteration=load_system(cell.system).counter(cell.parameters),
        one_end=cell.recovery != TORCHRUN,
    )


def _node_run(
    cell: Cell,
    cluster: Cluster,
    context: NodeContext,
    port: int,
    dataset_sizes: Mapping[str, int],
    campaign: PurePosixPath | None,
) -> NodeRun:
    """Plan one node's part: the system's command, in a container if the pin set is an image."""
    rank = context.node_rank
    node = cluster.nodes[rank]
    command = with_nsys(load_system(cell.system).command(cell, context), cell, context)
    env = _env(command, cell, cluster, context)
    if context.image:
        command = wrap(command, (*env, *cluster.secrets), context, cluster, campaign)
        env = env if command.step else {"PATH": BASE_PATH, **env}  # the engine's own
    required = {str(context.dataset / name): size for name, size in dataset_sizes.items()}
    return NodeRun(
        host=node.host,
        node_rank=rank,
        argv=command.argv,
        env=env,
        cwd=command.cwd,
        files=command.files,
        requires={**command.requires, **required},
        ports=((port,) if rank == 0 else ()) + command.ports,
        device=cluster.device,
        device_ids=_device_ids(cell, cluster, {} if command.picks_devices else env),
        runs=str(node.root / "runs"),
        dir=str(context.run_dir),
        serves=command.serves,
        after=command.after,
        step=command.step,
        scratch=context.scratch,
        processes=command.processes,
        tasks=command.tasks,
    )


def _context(
    cell: Cell,
    cluster: Cluster,
    rank: int,
    run_dir: PurePosixPath,
    port: int,
    scratch: str,
    addresses: tuple[str, ...],
    chain: Chain | None,
) -> NodeContext:
    """Collect what a system needs to know about a node to build its command."""
    root = cluster.nodes[rank].root
    home = system_home(root, cell.system, cell.pin) if cell.pin else run_dir
    image = image_of(cell.system, cell.pin)
    return NodeContext(
        node_rank=rank,
        nnodes=cell.nodes,
        nproc_per_node=cell.devices_per_node,
        addresses=addresses,
        master_address=cluster.nodes[0].address,
        master_port=MASTER_PORT if cluster.engine.in_jobs else str(port),
        home=home,
        dataset=dataset_home(root, cell.dataset) if cell.dataset else run_dir,
        run_dir=run_dir,
        scratch=scratch,
        device=cluster.device,
        device_ids=cell.device_ids,
        base_env=_base_env(home, cell, cluster, image, scratch),
        env={**cluster.env, **cell.env},
        image=image,
        containers=cluster.containers,
        cann_home=cluster.cann_home,
        checkpoints=chain.folder if chain else "",
    )


def run_folders(
    cluster: Cluster, nodes: Sequence[Node], run_id: str, folder: PurePosixPath | None
) -> list[PurePosixPath]:
    """Return a run's folder on each of its nodes.

    In a job it is the one in `folder`, the attempt's, which the nodes share with bench.
    """
    if cluster.engine.in_jobs and folder:
        return [folder / names.node(rank, node.host) for rank, node in enumerate(nodes)]
    return [cluster.run_folder(node, run_id) for node in nodes]


def scratch_of(cell: Cell, cluster: Cluster, run_dir: PurePosixPath) -> str:
    """Return the path of the run's scratch folder on each node's local disk; "" if it needs none.

    A local root needs none, nor does a writable container. A shared file system is too slow for
    scratch files, and the nodes' files would collide there.
    """
    if image_of(cell.system, cell.pin) and _engine(cluster).writable:
        return ""
    above = cluster.scratch or (PurePosixPath("/tmp") if cluster.one_root else None)  # noqa: S108  # 0700
    digest = hashlib.sha256(str(run_dir).encode()).hexdigest()[:12]
    return str(above / f"{PREFIX}{digest}") if above else ""


def _engine(cluster: Cluster) -> ContainerEngine:
    return ENGINES[cluster.containers.engine]


def port_of(run_id: str, port_try: int = 0) -> int:
    """Return the run's port, derived from its id: the same on every node and in a dry run."""
    digest = hashlib.sha256(f"{run_id}#{port_try}".encode()).digest()
    return PORTS[int.from_bytes(digest[:4], "big") % len(PORTS)]


def _base_env(
    home: PurePosixPath, cell: Cell, cluster: Cluster, image: str, scratch: str
) -> dict[str, str]:
    """Return the variables of every process of a run, whatever its system.

    An image has its own PATH; a writable container keeps its own caches.
    """
    path = f"{home}/env/bin:{BASE_PATH}" if cell.pin else BASE_PATH
    env = {} if image else {"PATH": path}
    env |= {} if image and _engine(cluster).writable else _caches(home, scratch)
    env["PYTHONUNBUFFERED"] = "1"
    env["PYTHONFAULTHANDLER"] = "1"  # a segfault, or a stall's ABRT, leaves stacks in the log
    if cluster.device == "cuda":
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # device ids are nvidia-smi's
    return env


def _caches(home: PurePosixPath, scratch: str) -> dict[str, str]:
    """Return where compilers cache: in the run's scratch folder, or with the pin set on the node.

    By default they use the home folder, where nodes that share it raced and waited for locks.
    """
    above = scratch or f"{home}/cache"
    return {
        "TORCHINDUCTOR_CACHE_DIR": f"{above}/inductor",
        "TORCH_EXTENSIONS_DIR": f"{above}/extensions",
        "TRITON_CACHE_DIR": f"{above}/triton",
        **({"TMPDIR": f"{scratch}/{TEMPORARY}"} if scratch else {}),
    }


def _device_ids(cell: Cell, cluster: Cluster, env: Mapping[str, str]) -> tuple[int, ...]:
    """Return the devices that a node's processes use and whose samples count for the run.

    If CUDA_VISIBLE_DEVICES or the like lists numbers, these are taken: an inventory may leave
    some devices of a machine to others.
    """
    visible = env.get(VISIBLE.get(cluster.device, ""), "").split(",")[: cell.devices_per_node]
    if len(visible) == cell.devices_per_node and all(
        device.strip().isdecimal() for device in visible
    ):
        return tuple(int(device) for device in visible)
    return cell.device_ids or tuple(range(cell.devices_per_node))


def _env(command: Command, cell: Cell, cluster: Cluster, context: NodeContext) -> dict[str, str]:
    """Merge the base, then the system's, the cluster's and the cell's variables: the last
    one wins.
    """
    env = dict(context.base_env)
    if cell.device_ids is not None and cluster.device == "cuda" and not command.picks_devices:
        env[VISIBLE["cuda"]] = ",".join(str(number) for number in cell.device_ids)
    return {**env, **command.env, **context.env}


def campaign_name(matrix: Matrix, cluster: Cluster) -> str:
    """Name a campaign after both its matrix and its inventory."""
    return f"{matrix.name}-{cluster.name}"

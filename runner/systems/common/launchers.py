"""The launchers' own options, one argv a node, and the files that they read. Pure."""

import re
import shlex
from collections.abc import Mapping, Sequence

from runner.base.errors import UserError
from runner.systems.common.pins import pins
from runner.terms.cell import Cell
from runner.terms.cluster import Cluster
from runner.terms.container_engines import ENGINES
from runner.terms.run import Command, NodeContext

LAUNCH, RUN, DEEPSPEED = "torch.distributed.launch", "torch.distributed.run", "deepspeed"
SRUN = "srun"
PYTHON = "python"
INSIDE_QUOTES = r'[\\"$`]'  # what a shell gives a meaning to between double quotes
PDSH = "/usr/bin/pdsh"
HOSTFILE = "hostfile"


def static_ranks(node: NodeContext) -> list[str]:
    """Return what torch.distributed.launch, torch.distributed.run and oneflow's launcher
    all take.
    """
    return [
        *("--nproc_per_node", str(node.nproc_per_node)),
        *("--nnodes", str(node.nnodes)),
        *("--node_rank", str(node.node_rank)),
        *("--master_addr", node.master_address),
        *("--master_port", node.master_port),
    ]


def torch(module: str, node: NodeContext, python: str) -> list[str]:
    """Return `python3 -m torch.distributed.launch` or `.run`, up to the trainer's script.

    `run` also writes each rank's output into the run's folder, and marks its lines `[default0]:`.
    """
    argv = [python, "-m", module, *static_ranks(node)]
    if module == RUN:
        argv += ["--max_restarts", "0", "--tee", "3", "--log_dir", f"{node.run_dir}/ranks"]
    return argv


def elastic(node: NodeContext, python: str) -> list[str]:
    """Return torchrun that starts processes again itself; its nodes meet at the first one's port.

    Ranks are not static then: who comes first to the meeting is the first.
    """
    return [
        *(python, "-m", RUN, "--nnodes", str(node.nnodes)),
        *("--nproc_per_node", str(node.nproc_per_node), "--max-restarts", "100"),
        *("--rdzv-backend", "c10d", "--rdzv-id", "trainbench"),
        *("--rdzv-endpoint", f"{node.master_address}:{node.master_port}"),
        *("--local-addr", node.addresses[node.node_rank]),
    ]


def by_srun(
    node: NodeContext,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    requires: Mapping[str, int | None],
) -> Command:
    """Have srun start a task for each device; each gets its ranks of Slurm, by torch's names.

    As torchrun does, it gives a process one thread where a node has several.
    """
    meeting = {"MASTER_ADDR": node.master_address, "MASTER_PORT": node.master_port}
    threads = {"OMP_NUM_THREADS": "1"} if node.nproc_per_node > 1 else {}
    return Command(
        tuple(argv),
        {**threads, **env, **meeting},
        cwd,
        requires=requires,
        tasks=node.nproc_per_node,
    )


def itself(
    node: NodeContext,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    requires: Mapping[str, int | None],
) -> Command:
    """Start the trainer without a launcher, as the only process of its node, with torch's names."""
    ranks = {"RANK": f"{node.node_rank}", "WORLD_SIZE": f"{node.nnodes}"}
    local = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    meeting = {"MASTER_ADDR": node.master_address, "MASTER_PORT": node.master_port}
    return Command(tuple(argv), {**env, **ranks, **local, **meeting}, cwd, requires=requires)


def deepspeed(
    node: NodeContext,
    script: list[str],
    env: Mapping[str, str],
    files: Mapping[str, str],
    requires: Mapping[str, int | None],
    *,
    quotes: bool,
) -> Command:
    """Start the deepspeed launcher on the first node, which starts every node's processes over ssh.

    The others prepare the same files at the same place, and wait. It changes into the folder that
    it was started in, on every node, and reads `.deepspeed_env` there; so that is the run's folder.
    On one node there is no hostfile, and no ssh is needed. `quotes`: see `environment_file`.
    """
    program = node.program("deepspeed")
    options = ["--master_port", node.master_port]
    written = dict(files)
    needed: dict[str, int | None] = {**requires, program: None}
    if node.nnodes > 1:
        written[HOSTFILE] = hostfile(node)
        variables = {**node.base_env, **env, **node.env}
        written[".deepspeed_env"] = environment_file(variables, quotes=quotes)
        needed[PDSH] = None
        options += ["--hostfile", HOSTFILE, "--master_addr", node.master_address]
    if node.in_job and node.device == "cuda":
        # It takes these where no option says which; the supervisor puts the job's in their place.
        env = {**env, "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(node.nproc_per_node)))}
    else:
        options += _devices(node)
    return Command(
        argv=(program, *options, *script) if node.node_rank == 0 else (),
        env=env,
        cwd=str(node.run_dir),
        files=written,
        requires=needed,
        picks_devices=True,
        ssh=node.nnodes > 1,
    )


def _devices(node: NodeContext) -> list[str]:
    """Name the devices of a cell that gives their numbers: --include and --num_gpus exclude
    each other.
    """
    if node.device_ids is None:
        return ["--num_nodes", str(node.nnodes), "--num_gpus", str(node.nproc_per_node)]
    ids = ",".join(str(number) for number in node.device_ids)
    hosts = node.addresses if node.nnodes > 1 else ("localhost",)
    return ["--include", "@".join(f"{host}:{ids}" for host in hosts)]


def hostfile(node: NodeContext) -> str:
    """Write an address and its devices a line, in the order of ranks.

    As many as the cell takes, or as reach its highest device.
    """
    slots = max(node.device_ids) + 1 if node.device_ids else node.nproc_per_node
    return "".join(f"{address} slots={slots}\n" for address in node.addresses)


def environment_file(env: Mapping[str, str], *, quotes: bool) -> str:
    """Write `.deepspeed_env`: variables that the launcher sets on every node.

    Of its own environment it passes on only names that begin with NCCL, PYTHON and a few more. It
    writes `export NAME=value` into a remote shell; since 0.15.2, which `quotes` says, in double
    quotes, within which some signs still mean something.
    """
    lines = [
        f"{name}={re.sub(INSIDE_QUOTES, _escaped, value) if quotes else shlex.quote(value)}\n"
        for name, value in env.items()
    ]
    return "".join(lines)


def _escaped(sign: re.Match[str]) -> str:
    return f"\\{sign[0]}"


def check_deepspeed(cell: Cell, cluster: Cluster, *, keeps_signs: bool) -> None:
    """Refuse what the deepspeed launcher cannot do on several nodes.

    `keeps_signs`: it splits a line of `.deepspeed_env` at its first `=` only (since 0.6).
    """
    if cell.nodes == 1:
        return
    if not cluster.engine.over_ssh:
        raise UserError(
            "launcher deepspeed starts the processes of other nodes over ssh, which nodes of"
            f" {cluster.engine.title} refuse; take launcher torch.distributed.launch or torchrun"
        )
    engine = ENGINES[cluster.containers.engine]
    if not engine.over_ssh and "image" in pins(cell.system).get(cell.pin, {}):
        raise UserError(
            "launcher deepspeed starts the processes of other nodes over ssh, which a container of"
            f" {engine.name} does not let in; take launcher torch.distributed.launch or torchrun,"
            " or set cluster_container_engine to"
            f" {' or '.join(engine.name for engine in ENGINES.values() if engine.over_ssh)}"
        )
    nodes = cluster.nodes[: cell.nodes]
    for node in nodes[1:]:
        if node.root != nodes[0].root:
            raise UserError(
                f"cluster_root is {nodes[0].root} on {nodes[0].host} and {node.root} on"
                f" {node.host}; the deepspeed launcher takes one for all, so make them the same"
            )
    if cluster.secrets:
        raise UserError(
            f"the deepspeed launcher writes {cluster.secrets[0]} into command lines, which everyone"
            " on the nodes can read; take it out of cluster_env, or take launcher"
            " torch.distributed.launch or torchrun"
        )
    for name, value in {**cluster.env, **cell.env}.items():
        if "\n" in value or ("=" in value and not keeps_signs):
            raise UserError(
                f"the variable {name} holds a line break or `=`, which this deepspeed launcher"
                " cannot pass to other nodes; change it, or take launcher torch.distributed.launch"
            )

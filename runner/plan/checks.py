"""Refuse a cell that cannot run, before anything is touched. Pure: a cell and a cluster in."""

from collections.abc import Iterable
from math import prod

from node.supervisor.placeholders import WORD
from runner.base.errors import Faults, UserError
from runner.base.text import counted
from runner.plan.containers import check_image, image_of
from runner.plan.fault_checks import check_faults
from runner.plan.make import VISIBLE
from runner.plan.profiling import check_profile
from runner.systems.common.command_keys import NODE
from runner.systems.common.launchers import SRUN
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell
from runner.terms.cluster import Cluster
from runner.terms.container_engines import ENGINES
from runner.terms.record import DATA_PARALLEL

# torch/distributed/elastic/agent/server/local_elastic_agent.py, and what `processes` gives alike.
GIVEN = frozenset(
    {
        *("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
        *("MASTER_ADDR", "MASTER_PORT"),
    }
)


def check_cells(cells: Iterable[Cell], cluster: Cluster, warmup_iters: int | None) -> None:
    """Check cells against the cluster. Raises UserError naming cell, key and cure."""
    refused: dict[str, list[str]] = {}  # sentence to cells
    for cell in cells:
        try:
            check_cell(cell, cluster, warmup_iters)
        except UserError as error:
            for sentence in error.sentences:
                refused.setdefault(sentence, []).append(cell.name)
    faults = Faults()
    for reason, names in refused.items():
        more_cells = f" and {counted(len(names) - 1, 'other cell')}" if len(names) > 1 else ""
        with faults.gathered():
            raise UserError(f"cell {names[0]}{more_cells}: {reason}")
    faults.check()


def check_cell(cell: Cell, cluster: Cluster, warmup_iters: int | None) -> None:
    """Run the checks that hold for every system, and the system's own; all faults are told."""
    Faults().run_all(
        lambda: _check_placement(cell, cluster),
        lambda: _check_env(cell, cluster),
        lambda: _check_starter(cell, cluster),
        lambda: _check_machines(cell, cluster),
        lambda: _check_sizes(cell),
        lambda: _check_iterations(cell, warmup_iters),
        lambda: check_image(cell, cluster),
        lambda: check_profile(cell, cluster),
        lambda: check_faults(cell, cluster),
    )
    load_system(cell.system).check(cell, cluster)


def _check_placement(cell: Cell, cluster: Cluster) -> None:
    """Refuse what the engine is not told, and what it decides."""
    for fault in cluster.engine.cell_faults(
        cell.placement, cluster.name, cluster.device, cell.devices_per_node
    ):
        raise UserError(fault)
    if cell.device_ids and cluster.engine.in_jobs:
        raise UserError(
            f"device_ids cannot be used: {cluster.engine.title} assigns the devices of a job; set"
            f" devices_per_node: {cell.devices_per_node} instead"
        )


def _check_env(cell: Cell, cluster: Cluster) -> None:
    """Refuse variables against the launcher, and those in which a job would fill in text."""
    variable = VISIBLE.get(cluster.device, "")
    visible = {**cluster.env, **cell.env}.get(variable)
    if visible is not None and len(visible.split(",")) < cell.devices_per_node:
        raise UserError(
            f"{variable} is {visible!r}, and the cell uses {cell.devices_per_node} devices of a"
            " node; take it out of env (device_ids chooses devices), or lower devices_per_node"
        )
    for name, value in cell.env.items():
        if name in GIVEN and cell.parameters.get("launcher") != NODE:
            raise UserError(f"env: {name} is what the launcher gives each process; take it out")
        if cluster.engine.in_jobs and (match := WORD.search(value)):
            raise UserError(
                f"env: {name} has {match[0]}, which a job of {cluster.engine.title} fills in on its"
                " nodes; take it out"
            )


def _check_starter(cell: Cell, cluster: Cluster) -> None:
    """Refuse to have processes started by a scheduler that is not there, or into a container."""
    if cell.parameters.get("launcher") != SRUN:
        return
    if cluster.engine.starter != SRUN:
        raise UserError(
            f"launcher srun is Slurm's, and cluster_engine of the inventory {cluster.name} is"
            f" {cluster.engine.name}; take another launcher, or name an inventory of Slurm with -i"
        )
    if image_of(cell.system, cell.pin) and not ENGINES[cluster.containers.engine].starter:
        raise UserError(
            f"launcher srun starts a process for each device, and {cluster.containers.engine} one"
            " container for a node; take another launcher, or cluster_container_engine: pyxis"
        )


def _check_machines(cell: Cell, cluster: Cluster) -> None:
    devices = load_system(cell.system).devices
    if cluster.device not in devices:
        raise UserError(
            f"{cell.system} trains on {' or '.join(devices)}, but cluster_device of the inventory"
            f" {cluster.name} is {cluster.device}; name another system or inventory"
        )
    if cell.nodes > len(cluster.nodes):
        most = f"the inventory {cluster.name} has {len(cluster.nodes)}"
        cure = "lower it, or name a larger inventory with -i"
        if cluster.engine.in_jobs:
            key = f"{cluster.engine.prefix}nodes"
            most = f"{key} of the inventory {cluster.name} is {len(cluster.nodes)}"
            cure = "lower it, or raise that"
        raise UserError(f"nodes is {cell.nodes}, but {most}; {cure}")
    for node in cluster.nodes[: cell.nodes]:
        if cell.devices_per_node > node.devices:
            raise UserError(
                f"devices_per_node is {cell.devices_per_node}, but"
                f" {'a node' if cluster.engine.in_jobs else node.host} has {node.devices}"
                " (cluster_devices_per_node in the inventory); lower it"
            )
        if cell.device_ids and max(cell.device_ids) >= node.devices:
            raise UserError(
                f"device_ids names {max(cell.device_ids)}, but {node.host} has devices 0 to"
                f" {node.devices - 1}"
            )


def _check_sizes(cell: Cell) -> None:
    """Check that parallel sizes divide the world size, each other, the batch and the model."""
    system = load_system(cell.system)
    sizes = system.sizes(cell)
    splits = [split for split in system.parallel if split.name in sizes]
    model_sizes = {split.name: sizes[split.name] for split in splits if not split.within}
    if cell.world_size % prod(model_sizes.values()):
        product = " x ".join(f"{name} {size}" for name, size in model_sizes.items() if size > 1)
        raise UserError(
            f"{product} does not divide the {cell.world_size} devices (nodes {cell.nodes} x"
            f" devices_per_node {cell.devices_per_node}); change one"
        )
    for split in splits:
        ranks = prod(sizes.get(name, 1) for name in split.within)
        if split.within and ranks % sizes[split.name]:
            raise UserError(
                f"{split.name} {sizes[split.name]} does not divide {' x '.join(split.within)}"
                f" {ranks}, whose ranks it splits; change one"
            )
    model = system.architecture(cell)
    for divided in model.divided() if model else ():
        size = sizes.get(divided.size, 1)
        if divided.count % size:
            raise UserError(
                f"{divided.size} {size} does not divide {divided.what} {divided.count}; change one"
            )
    if batch := system.given_batch_size(cell):
        micro = int(cell.parameters["micro_batch_size"])
        data = sizes[DATA_PARALLEL]
        if batch % (micro * data):
            fewer = f", or lower devices_per_node, which is {cell.devices_per_node}"
            raise UserError(
                f"micro_batch_size {micro} x data_parallel {data} does not divide"
                f" global_batch_size {batch}; make that a multiple of {micro * data}"
                f"{fewer if cell.devices_per_node > 1 else ''}"
            )


def _check_iterations(cell: Cell, warmup_iters: int | None) -> None:
    iterations = cell.parameters.get("train_iters")
    interval = cell.parameters.get("log_interval") or 1
    warmup_iters = warmup_iters or 0
    if iterations is not None and iterations < warmup_iters + interval:
        raise UserError(
            f"train_iters {iterations} leaves nothing to measure after warmup_iters"
            f" {warmup_iters} with log_interval {interval}; set train_iters to at"
            f" least {warmup_iters + interval}"
        )

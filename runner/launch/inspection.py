"""Ask the nodes, once a campaign, what they have: reachable, set up, the same, enough data."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from node.checked import InsidePath, Sha256
from node.dataset.megatron_mmap import DatasetError, check_split
from node.schema import Fields, Mapped, Maybe, Plain, UnfitError, Whole
from runner.base.errors import UserError, unreachable
from runner.base.paths import dataset_home, env_file, system_home
from runner.folder.campaign import Campaign
from runner.inventory.inventory import refuse_unedited
from runner.launch.engine import Engine
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell
from runner.terms.cluster import Cluster
from runner.terms.inspected import ENV, Inspected

# What bench reads from dataset.json; docs/inventory.md lists them for datasets of one's own.
# Where its manifest says vocab_size, which trainers need, a smaller one of a cell is refused.
DATASET = Fields(
    {
        "documents": Whole(),
        "tokens": Whole(),
        "bytes": Mapped(InsidePath, Whole()),
        "sha256": Mapped(InsidePath, Sha256),
    },
    {"vocab_size": (Maybe(Whole()), None)},
)
MANIFESTS = {
    "system": ("installed.json", Fields({"identity": Plain(16, lines=True)})),
    "dataset": ("dataset.json", DATASET),
}
SETUP = "run `ansible-playbook playbooks/setup.yml -i {inventory}`"


def inspect(
    engine: Engine,
    campaign: Campaign,
    cluster: Cluster,
    cells: Sequence[Cell],
    cancelled: Callable[[], bool],
) -> dict[str, dict[str, int]]:
    """Inspect the nodes that `cells` use; return dataset name to its files' sizes in bytes.

    Raises UserError naming the node (all that are out of reach) and the cure: not set up, different
    from the others, a dataset too small for the cells, or not what the campaign began with.
    """
    refuse_unedited(cluster)
    nodes = cluster.nodes[: max(cell.nodes for cell in cells)]
    wanted = {name for cell in cells for name in load_system(cell.system).fingerprinted(cell)}
    # All nodes are asked at once, unless their root folders differ.
    facts: dict[str, Inspected] = {}
    for root in sorted({node.root for node in nodes}):
        hosts = [node.host for node in nodes if node.root == root]
        paths = {
            ENV: str(env_file(root, cluster.root_shared))
        }  # recorded where verify left it, not required
        paths |= {name: str(_manifest_path(root, name)) for name in wanted}
        facts |= engine.inspect(hosts, paths, campaign, cancelled)
    setup = SETUP.format(inventory=cluster.path)
    for host, inspected in facts.items():
        if inspected.problem:
            raise UserError(f"what {host} said of itself cannot be read: {inspected.problem}")
    silent = {
        host: inspected.unreachable
        for host, inspected in facts.items()
        if inspected.unreachable is not None
    }
    if silent:
        raise UserError(unreachable(silent, cluster.path))
    manifests = {
        name: {
            host: _manifest(name, inspected.files.get(name), host, setup)
            for host, inspected in facts.items()
        }
        for name in sorted(wanted)
    }
    recorded = {name: _same(name, each, setup) for name, each in manifests.items()}
    campaign.fix_environment({name: _identity(value) for name, value in recorded.items()})
    reading = [cell for cell in cells if cell.dataset]
    for cell in reading:
        check_dataset(cell, recorded[f"dataset {cell.dataset}"])
    return {cell.dataset: dict(recorded[f"dataset {cell.dataset}"]["bytes"]) for cell in reading}


def _manifest_path(root: PurePosixPath, name: str) -> PurePosixPath:
    """Return where a node has the manifest of a pin set or dataset."""
    kind, _, what = name.partition(" ")
    home = dataset_home(root, what) if kind == "dataset" else system_home(root, *what.split("/"))
    return home / MANIFESTS[kind][0]


def _manifest(name: str, manifest: Any, host: str, setup: str) -> dict[str, Any]:
    """Return what is read of a manifest. Raises UserError naming the host and the key."""
    if manifest is None:
        raise UserError(f"{name} is not on {host}; {_listed(name)} in the inventory, and {setup}")
    file, kind = MANIFESTS[name.partition(" ")[0]]
    try:
        checked: dict[str, Any] = kind.check(manifest, f"{file} of {name} on {host}")
    except UnfitError as error:
        raise UserError(f"{error}; {setup}") from None
    return checked


def _listed(name: str) -> str:
    """Name the inventory's variables without which setup brings neither: `list X in Y`."""
    kind, _, what = name.partition(" ")
    if kind == "dataset":
        return f"list {what} in dataset_names"
    system, _, pin = what.partition("/")
    return f"list {system} in cluster_systems and {pin} in {system}_pin_sets"


def _identity(manifest: dict[str, Any]) -> Any:
    """Return what must be the same on every node and for a whole campaign.

    installed.json of a system says it as `identity`, dataset.json as the checksums of its files.
    """
    return manifest["identity"] if "identity" in manifest else manifest["sha256"]


def _same(name: str, manifests: Mapping[str, dict[str, Any]], setup: str) -> dict[str, Any]:
    """Return the manifest that all hosts share. Raises UserError naming the host that differs."""
    (first, manifest), *others = manifests.items()
    for host, other in others:
        if _identity(other) != _identity(manifest):
            raise UserError(f"{name} on {host} differs from the one on {first}; {setup}")
    return manifest


def check_dataset(cell: Cell, manifest: dict[str, Any]) -> None:
    """Refuse a vocabulary below the dataset's, and splits with too few documents for the
    iterations.
    """
    values = cell.parameters
    given, there = values.get("vocab_size"), manifest.get("vocab_size")
    if given is not None and isinstance(there, int) and given < there:
        raise UserError(
            f"cell {cell.name}: vocab_size is {given}, but dataset {cell.dataset} has {there}"
            f" tokens; make it {there} or more, or name another dataset"
        )
    if not values.get("split"):
        return
    system = load_system(cell.system)
    model = system.architecture(cell)
    length = values.get("seq_length") if model is None else model.seq_length
    if length is None:
        return
    batch = system.batch_size(cell) or 0
    try:
        check_split(
            documents=int(manifest["documents"]),
            tokens=int(manifest["tokens"]),
            split=str(values["split"]),
            seq_length=length,
            train_samples=int(values["train_iters"]) * batch,
            valid_samples=int(values.get("eval_iters") or 0) * batch,
        )
    except DatasetError as error:
        raise UserError(f"cell {cell.name}: dataset {cell.dataset}: {error}") from None

"""Ask the nodes, once a campaign, what they have: reachable, set up, the same, enough data."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from node.dataset.megatron_mmap import DatasetError, check_split
from node.schema import Fields, Mapped, Maybe, Plain, UnfitError, Whole
from node.validated_text import InsidePath, Sha256
from runner.base.errors import UserError
from runner.base.paths import dataset_home, env_file, system_home
from runner.base.ssh_words import unusable
from runner.base.suggested_commands import played
from runner.base.text import listing
from runner.folder.campaign import Campaign
from runner.folder.relied import changed_files
from runner.inventory.inventory import refuse_unedited
from runner.launch.engine import Engine
from runner.systems.common.pins import pins
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell
from runner.terms.cluster import Cluster
from runner.terms.inspected import ENV, Inspected, Sought

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
# What setup did not bring, and what makes it the same on all nodes.
SAME = {
    "folder": "give all nodes the same commit and files, or one folder that they share",
    "python": "give all nodes the same Python and packages",
}


def inspect(
    engine: Engine,
    campaign: Campaign,
    cluster: Cluster,
    cells: Sequence[Cell],
    cancelled: Callable[[], bool],
    matrix: str = "",
) -> dict[str, dict[str, int]]:
    """Inspect the nodes that `cells` use; return dataset name to its files' sizes in bytes.

    `matrix` is the text of their matrix: that file may be in the trainer's folder, and may grow.
    Raises UserError naming the node (all that are out of reach) and the cure: not set up, different
    from the others, a dataset too small for the cells, or not what the campaign began with.
    """
    refuse_unedited(cluster)
    nodes = cluster.nodes[: max(cell.nodes_held for cell in cells)]
    names = {name for cell in cells for name in load_system(cell.system).fingerprinted(cell)}
    relied = sorted(name for name in names if name.partition(" ")[0] in {*MANIFESTS, *SAME})
    # All nodes are asked at once, unless their root folders differ.
    facts: dict[str, Inspected] = {}
    for root in sorted({node.root for node in nodes}):
        hosts = [node.host for node in nodes if node.root == root]
        facts |= engine.inspect(hosts, _asked(root, cluster, relied, matrix), campaign, cancelled)
    setup = f"run {played('setup', cluster.path)}"
    for host, inspected in facts.items():
        if inspected.problem:
            raise UserError(f"the inspection of {host} cannot be read: {inspected.problem}")
    silent = {
        host: inspected.unreachable
        for host, inspected in facts.items()
        if inspected.unreachable is not None
    }
    if silent:
        raise UserError(unusable(silent, cluster.path, cluster.addresses))
    _refuse_bare(facts, relied, setup)
    stated = {
        name: {host: _stated(name, inspected, host, setup) for host, inspected in facts.items()}
        for name in relied
    }
    files = {
        name: {host: inspected.relied_files.get(name, {}) for host, inspected in facts.items()}
        for name in relied
    }
    recorded = {
        name: _same(name, facts_by_host, files[name], setup)
        for name, facts_by_host in stated.items()
    }
    campaign.fix_environment(
        {name: _identity(value) for name, value in recorded.items()},
        next(iter(facts.values())).relied_files,
    )
    reading = [cell for cell in cells if cell.dataset]
    for cell in reading:
        check_dataset(cell, recorded[f"dataset {cell.dataset}"])
    return {cell.dataset: dict(recorded[f"dataset {cell.dataset}"]["bytes"]) for cell in reading}


def _refuse_bare(facts: Mapping[str, Inspected], wanted: Sequence[str], setup: str) -> None:
    """Refuse nodes that have nothing of what setup brings. Raises UserError that names all."""
    manifests = [name for name in wanted if name.partition(" ")[0] in MANIFESTS]
    bare = [
        host
        for host, inspected in facts.items()
        if not any(inspected.files.get(name) for name in manifests)
    ]
    if manifests and bare:
        verb = "is" if len(bare) == 1 else "are"
        cure = setup
        if any(map(_may_be_of_a_matrix, manifests)):
            cure += "; for one of a matrix's `pins`: setup --matrix FILE"
        missing = " and no ".join(manifests)
        raise UserError(
            f"{listing(bare)} {verb} not set up for this: there is no {missing}; {cure}"
        )


def _may_be_of_a_matrix(name: str) -> bool:
    """Whether no system has a pin set of this name by itself."""
    kind, _, subject = name.partition(" ")
    system, _, pin = subject.partition("/")
    return kind != "dataset" and (system == "command" or pin not in pins(system))


def _asked(root: PurePosixPath, cluster: Cluster, wanted: Sequence[str], matrix: str) -> Sought:
    """Ask nodes with this root for what cells name as what their figures hang on."""
    relied: dict[str, dict[str, str]] = {kind: {} for kind in SAME}
    # env.json is recorded where verify left it, and not required.
    paths = {ENV: str(env_file(root, cluster.root_shared))}
    for name in wanted:
        kind, _, subject = name.partition(" ")
        if kind in SAME:
            relied[kind][name] = subject
        else:
            paths[name] = str(_manifest_path(root, name))
    apart = (hashlib.sha256(matrix.encode()).hexdigest(),) if matrix else ()
    return Sought(paths, folders=relied["folder"], pythons=relied["python"], apart=apart)


def _manifest_path(root: PurePosixPath, name: str) -> PurePosixPath:
    """Return where a node has the manifest of a pin set or dataset."""
    kind, _, subject = name.partition(" ")
    home = (
        dataset_home(root, subject) if kind == "dataset" else system_home(root, *subject.split("/"))
    )
    return home / MANIFESTS[kind][0]


def _stated(name: str, inspected: Inspected, host: str, setup: str) -> Mapping[str, Any]:
    """Return what a host says of something by its name. Raises UserError naming the host."""
    if name.partition(" ")[0] not in SAME:
        return _manifest(name, inspected.files.get(name), host, setup)
    answer: Mapping[str, Any] = inspected.relied.get(name) or {"problem": f"nothing said of {name}"}
    if "problem" in answer:
        raise UserError(f"{host}: {answer['problem']}")
    return answer


def _manifest(name: str, manifest: Any, host: str, setup: str) -> dict[str, Any]:
    """Return what is read of a manifest. Raises UserError naming the host and the key."""
    if manifest is None:
        raise UserError(
            f"{name} is not on {host}; {setup}, which brings what the inventory lists"
            f" ({_listed(name)})"
        )
    file, kind = MANIFESTS[name.partition(" ")[0]]
    try:
        checked: dict[str, Any] = kind.check(manifest, f"{file} of {name} on {host}")
    except UnfitError as error:
        raise UserError(f"{error}; {setup}") from None
    return checked


def _listed(name: str) -> str:
    """Name the inventory's variables without which setup brings neither: `X in Y`."""
    kind, _, subject = name.partition(" ")
    if kind == "dataset":
        return f"{subject} in dataset_names"
    system, _, pin = subject.partition("/")
    return (
        f"{system} in cluster_systems, {pin} in {system}_pin_sets; one of a matrix's `pins`:"
        " setup --matrix FILE"
    )


def _identity(stated: Mapping[str, Any]) -> Any:
    """Return what must be the same on every node and for a whole campaign.

    installed.json of a system says it as `identity`, dataset.json as the checksums of its files; a
    folder's or Python's fingerprint is one whole.
    """
    return next((stated[key] for key in ("identity", "sha256") if key in stated), dict(stated))


def _same(
    name: str,
    stated: Mapping[str, Mapping[str, Any]],
    files: Mapping[str, Mapping[str, str]],
    setup: str,
) -> Mapping[str, Any]:
    """Return what all hosts say. Raises UserError naming the host that says something else."""
    (reference_host, reference), *other_hosts = stated.items()
    kind = name.partition(" ")[0]
    for host, facts_there in other_hosts:
        if _identity(facts_there) != _identity(reference):
            keys = [
                key
                for key in {**reference, **facts_there}
                if reference.get(key) != facts_there.get(key)
            ]
            changed = changed_files(files[reference_host], files[host])
            detail = f" ({changed or ', '.join(keys)})" if kind in SAME else ""
            cure = SAME.get(kind, setup)
            raise UserError(
                f"{name} on {host} differs from the one on {reference_host}{detail}; {cure}"
            )
    return reference


def check_dataset(cell: Cell, manifest: Mapping[str, Any]) -> None:
    """Refuse a vocabulary below the dataset's, and splits with too few documents for the
    iterations.
    """
    values = cell.parameters
    vocab_size, there = values.get("vocab_size"), manifest.get("vocab_size")
    if vocab_size is not None and isinstance(there, int) and vocab_size < there:
        raise UserError(
            f"cell {cell.name}: vocab_size is {vocab_size}, but dataset {cell.dataset} has {there}"
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

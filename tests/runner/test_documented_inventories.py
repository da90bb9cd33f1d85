"""Each document's inventory has what the cells of its matrices need, so that setup brings it."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.base.paths import PROJECT
from runner.inventory.inventory import parse_inventory
from runner.launch.inspection import _listed
from runner.matrix.file import load_matrix
from runner.plan import checks
from runner.systems.common.pins import pins
from runner.systems.common.registry import system_names
from tests.asked_once import ansible_inventory
from tests.runner.builders import one_device

USES = re.compile(r"bench --matrix (matrices/\S+\.yaml) -i (inventory/[\w/-]+)$", re.MULTILINE)
# What a matrix's own head says: it, and the inventory that it is for.
PAIRS = sorted(
    found
    for path in (PROJECT / "matrices").glob("*/*.yaml")
    for found in USES.findall(path.read_text(encoding="utf-8"))
)
INVENTORIES = sorted({inventory for _, inventory in PAIRS})


@cache
def listed(inventory: str) -> Any:
    return ansible_inventory(PROJECT / inventory)


def variables(inventory: str) -> dict[str, Any]:
    """Of its first node, as Ansible lists them."""
    found: dict[str, Any] = next(iter(listed(inventory)["_meta"]["hostvars"].values()))
    return found


def default(role: str, name: str) -> Any:
    path = PROJECT / "roles" / role / "defaults" / "main.yml"
    return yaml.safe_load(path.read_text(encoding="utf-8"))[name]


def pin_sets(inventory: str, system: str) -> list[str]:
    name = f"{system}_pin_sets"
    found: list[str] = variables(inventory).get(name) or default(system, name)
    return found


def test_every_document_has_its_inventory() -> None:
    named = {Path(name).name for name in INVENTORIES}
    assert named == {"vs", "start-fast", "thumt", "osdi", "ascend", "ascend-cuda"}


@pytest.mark.parametrize(("file", "inventory"), PAIRS)
def test_setup_brings_what_a_documents_cells_need(file: str, inventory: str) -> None:
    place = parse_inventory(listed(inventory), Path(inventory))
    found = load_matrix(PROJECT / file, place.devices_of)
    have = variables(inventory)
    checks.check_cells(found.cells, place, found.warmup_iters)
    for cell in found.cells:
        assert cell.system in have["cluster_systems"]
        assert cell.pin in pin_sets(inventory, cell.system)
        assert cell.dataset in have.get("dataset_names", default("dataset", "dataset_names"))
        if cell.nodes > 1 and cell.parameters.get("launcher") == "deepspeed":
            assert have["ssh_mesh_enabled"] is True, f"{cell.name}: its launcher works over ssh"
        if "image" in pins(cell.system)[cell.pin]:
            assert place.containers.engine in have["container_runtime_engines"]


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_an_inventory_has_what_is_measured_there_alone_and_the_tools_for_it(inventory: str) -> None:
    have = variables(inventory)
    files = [file for file, of in PAIRS if of == inventory]
    cells = [cell for file in files for cell in load_matrix(PROJECT / file, one_device).cells]
    assert set(have["cluster_systems"]) == {cell.system for cell in cells}
    used = [pins(system)[pin] for system in have["cluster_systems"]
            for pin in pin_sets(inventory, system)]  # fmt: skip
    # A trainer of the documents' days names its Python; without one a node's own might be any.
    assert all("python" in pin or "image" in pin for pin in used)
    if have["cluster_device"] == "cuda":
        assert {pin["cuda"] for pin in used if "cuda" in pin} == set(have["cuda_versions"])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "system libai/33adb976",
            "libai in cluster_systems, 33adb976 in libai_pin_sets; one of a matrix's `pins`:"
            " setup --matrix FILE",
        ),
        ("dataset enwiki", "enwiki in dataset_names"),
    ],
)
def test_what_a_node_lacks_is_to_be_listed_by_a_variable_that_there_is(
    name: str, words: str
) -> None:
    assert _listed(name) == words


def test_every_system_has_its_list_of_pin_sets() -> None:
    for name in system_names():
        assert default(name, f"{name}_pin_sets")

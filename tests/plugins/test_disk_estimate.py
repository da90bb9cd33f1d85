"""The disk space that setup needs, item by item."""

from typing import Any

import pytest
import yaml

from plugins.disk_estimate import items, room_fault
from plugins.inventory_check import read
from runner.base.paths import PROJECT

SIZES = yaml.safe_load((PROJECT / "roles/validate/vars/main.yml").read_text())[
    "__validate_sizes_mib"
]
KNOWN = read(PROJECT)
GIB = 1 << 20  # in KiB


def wanted(**values: Any) -> list[tuple[str, int | None]]:
    values = {"cluster_systems": ["torch_gpt"], "torch_gpt_pin_sets": ["torch-2.13"], **values}
    return [(item.name, item.mib) for item in items(values, KNOWN, SIZES)]


def test_sizes_are_those_of_what_the_inventory_names_and_unknown_ones_are_none() -> None:
    tools = ("the datasets' tools", SIZES["dataset_tools"])
    data = ("dataset default", SIZES["dataset_default"])
    assert wanted() == [("torch_gpt/torch-2.13", SIZES["torch_cpu"]), tools, data]
    assert wanted(cluster_device="cuda")[0][1] == SIZES["torch_cuda"]
    assert wanted(torch_gpt_existing_python="/x", dataset_existing_python="/x") == [data]
    more = wanted(torch_gpt_pin_sets=["container"], dataset_names=["oscar-1GB"])
    assert more == [("torch_gpt/container", None), tools, ("dataset oscar-1GB", None)]


@pytest.mark.parametrize("free", ["", "-", str(2 * GIB)])
def test_what_fits_and_what_nobody_knows_is_no_fault(free: str) -> None:
    values = {"cluster_systems": ["torch_gpt"], "torch_gpt_pin_sets": ["torch-2.13"]}
    assert room_fault("n1", "/opt/tb", free, items(values, KNOWN, SIZES), ()) == ""


def test_a_disk_that_is_too_small_is_named_with_the_sum_by_item() -> None:
    values = {
        "cluster_systems": ["torch_gpt"],
        "torch_gpt_pin_sets": ["torch-2.13", "container"],
        "dataset_names": ["default", "oscar-1GB"],
    }
    found = items(values, KNOWN, SIZES)
    assert room_fault("n1", "/opt/tb", str(GIB // 2), found, ()) == (
        "n1 has 512.0 MiB free on the disk of /opt/tb, and setup brings 1.1 GiB at least:"
        " torch_gpt/torch-2.13 993.0 MiB, the datasets' tools 142.0 MiB, dataset default 33.0 MiB,"
        " and of a size that is not known, torch_gpt/container, dataset oscar-1GB; make room"
        " there, or name another cluster_root"
    )
    there = {"systems/torch_gpt/torch-2.13/installed.json"}
    assert room_fault("n1", "/opt/tb", str(GIB // 2), found, there) == ""

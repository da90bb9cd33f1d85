"""What doctor's matrix product reached on a run's devices; missing, with the reason, otherwise."""

from typing import Any

import pytest

from runner.figures.devices import multiplied_in, reached
from runner.tables.campaign_table import to_csv, to_table
from runner.terms.product import WEEK_S, Product, Products
from runner.terms.record import Reached
from tests.runner.documents import rows
from tests.runner.tables.test_tables import cell

PRODUCTS = Products(
    {
        "n1": (Product("bf16", 5.0, (700.0, 720.0)), Product("fp32", 5.0, (50.0, 50.0))),
        "n2": (Product("bf16", 5.0, (680.0, 700.0)),),
    }
)


@pytest.mark.parametrize(
    ("hosts", "ids", "rate"),
    [(["n1"], [0], 700), (["n1"], [1], 720), (["n1", "n2"], [0, 1], 700)],
)
def test_it_is_the_mean_of_the_devices_that_the_run_had(
    hosts: list[str], ids: list[int], rate: float
) -> None:
    assert reached(PRODUCTS, hosts, ids, "bf16", "cuda") == Reached(rate, missing="")


@pytest.mark.parametrize(
    ("hosts", "ids", "arithmetic", "kind", "words"),
    [
        (["n1"], [0], None, "cuda", "does not say in which precision"),
        (
            ["n1"],
            [0],
            "tf32",
            "cuda",
            "in tf32 on node_rank 0 within the week before",
        ),
        (["n1", "n2"], [0], "fp32", "cuda", "no matrix product in fp32 on node_rank 1"),
        (["n3"], [0], "bf16", "cuda", "no matrix product in bf16 on node_rank 0"),
        (
            ["n1"],
            [2],
            "bf16",
            "cuda",
            "devices 0 to 1 of node_rank 0, and the run had 2",
        ),
        (["n1"], [0], "fp32", "cpu", "2 processes on the cores of node_rank 0, and the run had 1"),
    ],
)
def test_without_it_there_is_a_reason(
    hosts: list[str], ids: list[int], arithmetic: str | None, kind: str, words: str
) -> None:
    found = reached(PRODUCTS, hosts, ids, arithmetic, kind)
    assert found.tflop_per_s is None
    assert words in found.missing


@pytest.mark.parametrize(
    ("device", "kind", "arithmetic"),
    [
        ("", "cpu", "fp32"),
        ("Tesla V100-SXM2-32GB", "cuda", "fp32"),
        ("NVIDIA H200", "cuda", "tf32"),
        ("a card of the future", "cuda", "tf32"),
    ],
)
def test_tf32_is_fp32_where_a_device_has_none(device: str, kind: str, arithmetic: str) -> None:
    assert multiplied_in("tf32", device, kind) == arithmetic
    assert multiplied_in("bf16", device, kind) == "bf16"


def test_a_week_after_it_was_measured_it_says_nothing() -> None:
    now = 5.0 + WEEK_S
    assert PRODUCTS.fresh(now) == PRODUCTS
    assert PRODUCTS.fresh(now, ["n2"]).nodes == {"n2": PRODUCTS.nodes["n2"]}
    assert PRODUCTS.fresh(now + 1) == PRODUCTS.fresh(4.0) == Products()


def test_the_column_is_the_models_rate_in_percent_of_the_products_or_missing() -> None:
    """A row of two repeats has the mean of what doctor measured before each."""
    more: dict[str, Any] = {"arithmetic": "bf16"}
    (none,) = rows([cell("a", 800, **more)])
    rate = none["figures"]["model_tflop_per_s_per_device"]
    assert rate is not None
    assert none["figures"]["matmul_percent"] is None
    assert none["missing"]["matmul_percent"] == "it has not run"
    two = [cell("a", 800, **more, repeat=n, reached=Reached(n * rate)) for n in (1, 3)]
    (row,) = rows(two)
    assert row["figures"]["matmul_percent"] == 50
    assert "matmul_percent" not in row["missing"]
    assert "matmul_percent" in to_csv([row]).splitlines()[0].split(",")
    shown = " ".join(to_table([row], 400, wide=True, all_notes=True).split())
    assert "in percent of what doctor's matrix product reached on the same devices" in shown

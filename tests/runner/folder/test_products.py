"""products.json: kept by doctor for a week, read by whoever shows a run."""

import json
from pathlib import Path

import pytest

from runner.folder.products import keep_products, load_products
from runner.folder.stored import UnreadableError
from runner.terms.product import WEEK_S, Product, Products


def measured(at: float, rate: float, *hosts: str, arithmetic: str = "bf16") -> Products:
    return Products({host: (Product(arithmetic, at, (rate,)),) for host in hosts})


def test_the_newest_of_each_node_and_arithmetic_is_kept_for_a_week(tmp_path: Path) -> None:
    assert load_products(tmp_path) == Products()
    keep_products(tmp_path, measured(10.0, 1.0, "n1", "n2"), 10.0)
    keep_products(tmp_path, measured(11.0, 50.0, "n2", arithmetic="fp32"), 11.0)
    keep_products(tmp_path, measured(20.0, 2.0, "n2"), 20.0)
    assert load_products(tmp_path).nodes == {
        "n1": (Product("bf16", 10.0, (1.0,)),),
        "n2": (Product("fp32", 11.0, (50.0,)), Product("bf16", 20.0, (2.0,))),
    }
    later = 12.0 + WEEK_S
    keep_products(tmp_path, measured(later, 3.0, "n3"), later)
    assert set(load_products(tmp_path).nodes) == {"n2", "n3"}


@pytest.mark.parametrize(
    "nodes",
    [
        [],
        {"../n1": []},
        {"n1": [{"arithmetic": "bf16", "at": -1, "tflop_per_s": [1.0]}]},
        {"n1": [{"arithmetic": "bf16", "at": 1, "tflop_per_s": ["fast"]}]},
        {"n1": [{"arithmetic": "bf16", "at": 1, "tflop_per_s": [1e400]}]},
    ],
)
def test_what_does_not_fit_is_refused_and_doctor_begins_anew(tmp_path: Path, nodes: object) -> None:
    (tmp_path / "products.json").write_text(json.dumps({"schema": 1, "nodes": nodes}))
    with pytest.raises(UnreadableError, match=r"\A[^\n]*products\.json[^\n]*\Z"):
        load_products(tmp_path)
    keep_products(tmp_path, measured(10.0, 1.0, "n1"), 10.0)
    assert set(load_products(tmp_path).nodes) == {"n1"}

"""bench offers a search for a matrix with many cells of one training."""

import json
from typing import Any

import pytest

from runner.matrix.file import parse_matrix
from runner.terms.cell import Matrix
from runner.tuner.offer import offer
from tests.runner.builders import small_cluster

MANY = {"micro_batch_size": [1, 2, 4, 8, 16], "zero_stage": [0, 1, 2, 3, 3][:4]}


def matrix(axes: dict[str, Any]) -> Matrix:
    defaults = {"system": "torch_gpt", "global_batch_size": 64, "nodes": 2}
    content = {"name": "many", "defaults": defaults, "axes": axes}
    return parse_matrix(json.dumps(content), "many.yaml", "many", lambda _: 1)


def test_a_large_matrix_of_one_training_is_offered_a_search() -> None:
    line = offer(matrix({**MANY, "precision": ["fp32", "bf16"]}), small_cluster(2, 1))
    assert line.startswith("40 cells: to find the fastest alone, `trainbench tune` would run about")
    assert 1 < int(line.split("about ")[1].split()[0]) < 40


@pytest.mark.parametrize(
    "axes",
    [MANY, {**MANY, "seq_length": [64, 128]}, {**MANY, "global_batch_size": [64, 128]}],
    ids=["few cells", "other samples", "other batches"],
)
def test_what_a_search_cannot_answer_is_not_offered_one(axes: dict[str, Any]) -> None:
    assert offer(matrix(axes), small_cluster(2, 1)) == ""

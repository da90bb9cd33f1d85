"""What bench refuses once it knows what the nodes have, such as a dataset that does not fit."""

from typing import Any

import pytest

from runner.base.errors import UserError
from runner.launch import inspection
from runner.matrix.file import parse_matrix
from tests.runner.builders import one_device

MANIFEST: dict[str, Any] = {"documents": 744, "tokens": 3_556_629, "vocab_size": 4096}


def check(manifest: dict[str, Any], system: str = "torch_gpt", **values: Any) -> None:
    words = "".join(f", {key}: {value}" for key, value in values.items())
    text = f"defaults: {{system: {system}{words}}}"
    (cell,) = parse_matrix(text, "m.yaml", "m", one_device).cells
    inspection.check_dataset(cell, manifest)


@pytest.mark.parametrize(
    ("system", "values"),
    [
        ("torch_gpt", {}),
        ("torch_gpt", {"vocab_size": 4096}),
        ("torch_gpt", {"vocab_size": 50257}),
        ("oneflow_gpt", {}),
        ("megatron_core", {}),
    ],
)
def test_a_vocabulary_that_holds_the_dataset_passes(system: str, values: dict[str, Any]) -> None:
    check(MANIFEST, system, **values)
    check({key: value for key, value in MANIFEST.items() if key != "vocab_size"}, system, **values)


@pytest.mark.parametrize("system", ["torch_gpt", "oneflow_gpt"])
def test_a_smaller_one_is_refused_by_its_key(system: str) -> None:
    with pytest.raises(UserError) as refused:
        check(MANIFEST, system, vocab_size=4000)
    assert str(refused.value) == (
        f"cell {system}: vocab_size is 4000, but dataset default has 4096 tokens; make it 4096 or"
        " more, or name another dataset"
    )


def test_too_few_documents_are_refused_by_the_dataset() -> None:
    with pytest.raises(UserError, match="cell torch_gpt: dataset default: "):
        check({**MANIFEST, "documents": 2})

"""What checkpoints take, beside what is free: estimated, compared where it was asked, warned of."""

from typing import Any

import pytest

from runner.plan.dryrun import describe, dry_run
from runner.systems.common.registry import load_system
from runner.terms.inspected import ENV, Inspected
from tests.runner.builders import small_cluster, small_matrix

SIZES = {"num_layers": 2, "hidden_size": 128, "num_attention_heads": 4, "seq_length": 64}
WEIGHTS = 2 * 12 * 128 * 128 + 128 * 4096  # 2 layers, and the vocabulary of the default corpus


def asked(host_free_mib: dict[str, int], path: str = "/opt/tb") -> dict[str, Inspected]:
    return {
        host: Inspected(files={ENV: {"disk": {"path": path, "free_mib": free, "total_mib": 10**6}}})
        for host, free in host_free_mib.items()
    }


def told(inspected: dict[str, Inspected], cluster: Any = None, **more: Any) -> tuple[Any, str]:
    keys = {"checkpoint_interval": 10, "train_iters": 100, **SIZES, **more}
    matrix, cluster = small_matrix(defaults=keys), cluster or small_cluster(1)
    plans = dry_run(matrix, cluster, inspected=inspected)
    return plans[0].get("checkpoint_room"), describe(plans, matrix, cluster)


def test_bytes_are_those_of_weights_and_optimizer_and_stand_beside_the_free_disk() -> None:
    room, text = told(asked({"n1": 5000}))
    assert room == {
        "bytes": 12 * WEIGHTS,
        "at_once": 3,
        "free_mib": {"n1": 5000},
        "missing": "",
    }
    assert (
        "a checkpoint takes about 10.5 MiB, 3 at once 31.5 MiB; 5,000 MiB were free on n1" in text
    )
    assert "warning" not in text


def test_what_does_not_fit_is_warned_of_with_the_cure() -> None:
    _, text = told(asked({"n1": 20}))
    assert "warning: 31.5 MiB of checkpoints do not fit on n1; lower checkpoint_keep" in text
    _, text = told(asked({"n1": 20}), checkpoint_keep=1, train_iters=11)
    assert "1 at once 10.5 MiB; 20.0 MiB were free" in text
    assert "warning" not in text


@pytest.mark.parametrize(
    ("inspected", "more", "words"),
    [
        ({}, {}, "no node was asked yet how much disk is free"),
        (asked({"n1": 20}, "/elsewhere"), {}, "how much is free there was not asked"),
        ({"n1": Inspected(problem="torn")}, {}, "how much is free there was not asked"),
    ],
)
def test_without_a_look_at_that_disk_the_bytes_stand_alone(
    inspected: dict[str, Inspected], more: dict[str, Any], words: str
) -> None:
    room, text = told(inspected, **more)
    assert room["free_mib"] == {}
    assert f"3 at once 31.5 MiB; {words}" in text


def test_the_fullest_of_several_nodes_counts() -> None:
    cluster = small_cluster(2, root_shared=True)
    _, text = told(asked({"n1": 500, "n2": 400}), cluster, nodes=2, global_batch_size=16)
    assert "400 MiB were free on n2" in text


def test_a_trainer_of_which_nobody_knows_says_so_and_a_cell_without_checkpoints_nothing() -> None:
    keys = {
        "system": "command",
        "argv": ["train", "{checkpoints}"],
        "log": "torch_gpt",
        "cwd": "/x",
    }
    more = {"samples_per_step": 8, "train_iters": 50, "resumes": True, "checkpoint_interval": 5}
    matrix = small_matrix(defaults={**keys, **more})
    plans = dry_run(matrix, small_cluster(1))
    assert plans[0]["checkpoint_room"]["bytes"] is None
    words = "size of a checkpoint: nobody knows the size of this trainer's"
    assert words in describe(plans, matrix, small_cluster(1))
    assert told({}, checkpoint_interval=None)[0] is None


def test_megatron_has_half_precision_weights_beside_its_masters() -> None:
    size = load_system("megatron_core").checkpoint_bytes
    assert size is not None
    values = {"num_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "seq_length": 4}
    values |= {"vocab_size": 16}
    assert size({**values, "precision": "bf16"}) / size({**values, "precision": "fp32"}) == 14 / 12

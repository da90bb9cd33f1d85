"""The analytic model: its components by hand, its derivatives, and its fit."""

from dataclasses import replace

import numpy as np
import pytest

from runner.tune.candidates import MachineRates
from runner.tune.step_time import COEFFICIENTS, PRIOR_MEAN, components, fit, log_times
from tests.runner.tune.machine import grid, layout

RATES = MachineRates(matmul=1e14, memory=1e12, inside=1e11, between=1e10)
NAMES = [one.name for one in COEFFICIENTS]


def seconds(**changes: object) -> dict[str, float]:
    one = replace(layout(2, 2, 2, 4), **changes)  # type: ignore[arg-type]
    return dict(zip(NAMES, components([one], RATES)[0].tolist(), strict=True))


def test_components_by_hand() -> None:
    found = seconds()
    micro_batches, slots, tokens, hidden = 32 / 8, 32 / 8 + 1, 4 * 1024, 1024
    passes = slots * 24 / 2 * 4
    layer = tokens * (24 * hidden**2 + 4 * 1024 * hidden)
    head = 6 * tokens * hidden * 50_304
    weights = (12 * 12 * hidden**2 + 50_304 * hidden) / 2
    traffic = tokens * hidden * (10 + 24 / 2 + 5 * 16 * 1024 / hidden / 2)
    assert found == pytest.approx(
        {
            "matmul": (passes * layer + micro_batches * head) / 2 / 1e14,
            "elementwise": passes * traffic / 1e12,
            "tensor_bytes": passes * 2 * 2 * tokens * hidden * 2 / 2 / 1e11,
            "launch": passes,
            "tensor_launch": 2 * passes,
            "gradient_bytes": weights * 4 * 2 / 2 / 1e11,
            "stage_bytes": slots * 2 * tokens * hidden * 2 / 1e11,
            "optimizer": weights * 32 / 1e12,
            "micro_batch": micro_batches,
            "step": 1.0,
        }
    )


def test_what_leaves_the_node_is_slower() -> None:
    inside, across = seconds(), seconds(devices_per_node=2)
    assert across["tensor_bytes"] == inside["tensor_bytes"]
    # Four tensor and data parallel ranks are on two nodes; a ring has one adapter per node.
    assert across["gradient_bytes"] == pytest.approx(10 * inside["gradient_bytes"])
    assert across["stage_bytes"] == pytest.approx(10 * inside["stage_bytes"])
    assert seconds(devices_per_node=1)["tensor_bytes"] == pytest.approx(10 * inside["tensor_bytes"])


@pytest.mark.parametrize(
    ("changes", "name", "factor"),
    [
        ({"recompute": "none"}, "launch", 3 / 4),
        ({"virtual_stages": 2}, "launch", 4.5 / 5),
        ({"zero_stage": 1}, "optimizer", 1 / 2),
        ({"matmul_share": 0.5}, "matmul", 2.0),
        ({"zero_stage": 3}, "gradient_bytes", (4 + 2 * 4 * 2) / 8),
    ],
)
def test_what_a_setting_changes(changes: dict[str, object], name: str, factor: float) -> None:
    assert seconds(**changes)[name] == pytest.approx(factor * seconds()[name])


def test_one_device_communicates_nothing() -> None:
    one = components([layout(1, 1, 1, 1)], RATES)[0]
    for name in ("tensor_bytes", "tensor_launch", "gradient_bytes", "stage_bytes"):
        assert one[NAMES.index(name)] == 0


def test_derivatives() -> None:
    parts = components([one.layout for one in grid() if one.layout], RATES)
    times, slopes = log_times(parts, PRIOR_MEAN)
    assert slopes.sum(axis=1) == pytest.approx(1.0)
    for at in range(len(NAMES)):
        more = PRIOR_MEAN + 1e-6 * (np.arange(len(NAMES)) == at)
        change = (log_times(parts, more)[0] - times) / 1e-6
        assert change == pytest.approx(slopes[:, at], abs=1e-4)


def test_the_fit_predicts_and_one_wrong_row_does_not_bend_it() -> None:
    parts = components([one.layout for one in grid() if one.layout], RATES)
    logs = PRIOR_MEAN + np.random.default_rng(0).uniform(-0.5, 0.5, len(NAMES))
    truth = log_times(parts, logs)[0]
    wrong = truth + np.where(np.arange(len(truth)) == 5, 2.0, 0.0)
    for measured in (truth, wrong):
        error = log_times(parts, fit(parts, measured))[0] - truth
        assert np.sqrt(np.mean(error**2)) < 0.04
    assert fit(parts[:0], truth[:0]) == pytest.approx(PRIOR_MEAN)

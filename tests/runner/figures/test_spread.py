"""The interval of a difference: what is beyond the noise of both, and what is not."""

import numpy as np

from runner.figures.spread import difference


def test_a_difference_within_noise_is_none_and_one_beyond_it_is_real() -> None:
    """Two cells with intervals of 41 to 75 and 53 to 70 differ by nothing that can be told."""
    generator = np.random.default_rng(0)
    noisy, calmer = generator.normal(60.9, 20, 40), generator.normal(61.5, 12, 40)
    low, high = difference([noisy.tolist()], [calmer.tolist()]) or (1, 1)
    assert low < 0 < high
    steady, slower = generator.normal(100, 1, 40), generator.normal(72, 1, 40)
    low, high = difference([slower.tolist()], [steady.tolist()]) or (0, 0)
    assert low < -28 < high < -26


def test_equal_runs_differ_by_noise_alone_and_few_values_have_no_interval() -> None:
    run = np.random.default_rng(3).normal(100, 5, 40).tolist()
    low, high = difference([run], [run]) or (1, 1)
    assert low < 0 < high
    assert difference([run[:3]], [run]) is None
    assert difference([], [run]) is None


def test_the_interval_of_a_difference_covers_the_true_one_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(11)
    hits = 0
    for _ in range(60):
        ours, theirs = generator.normal(110, 6, 50), generator.normal(100, 6, 50)
        low, high = difference([ours.tolist()], [theirs.tolist()]) or (0, 0)
        hits += low <= 10 <= high
    assert hits >= 51

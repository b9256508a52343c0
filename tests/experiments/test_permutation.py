from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from attnaudit.core.errors import InputError
from attnaudit.core.kernels import kernel
from attnaudit.core.ragged import Ragged
from attnaudit.core.random import shuffle
from attnaudit.experiments.permutation import Permutation, _median_through_tail, median_delta_y
from attnaudit.experiments.rows import row_streams
from tests.oracles.permutation import all_permutations, naive_permutation
from tests.traces import make_trace, sigmoid_rows

SHUFFLE = kernel(shuffle)


@pytest.mark.parametrize(("outputs", "hidden"), [(1, None), (2, None), (4, None), (3, 6)])
def test_the_median_is_one_that_the_papers_loop_could_find(outputs: int, hidden: int | None):
    """Quantiles of all T! orders bracket the sampled median, with the odds of a miss below one in a million per row."""
    trace = make_trace(12, (1, 5), outputs, seed=1, hidden=hidden)
    found = Permutation(permutations=400)(trace)["median_delta_y"]
    low, high = binom.ppf([1e-7, 1 - 1e-7], 400, 0.5) / 400
    for row in range(len(trace)):
        every = all_permutations(trace, row)
        below = every[int(np.floor(low * (len(every) - 1)))]
        above = every[int(np.ceil(high * (len(every) - 1)))]
        assert below - 1e-9 <= found[row] <= above + 1e-9


def test_the_mean_over_instances_is_that_of_the_papers_loop():
    trace = make_trace(120, (3, 20), seed=2)
    found = Permutation()(trace)["median_delta_y"].to_numpy()
    rng = np.random.default_rng(0)
    expected = np.array([naive_permutation(trace, row, 100, rng) for row in range(len(trace))])
    difference = found - expected
    assert abs(difference.mean()) < 4 * difference.std() / np.sqrt(len(difference)) + 1e-4


@pytest.mark.parametrize("outputs", [1, 2, 4])
def test_the_compiled_way_and_the_general_way_see_the_same_shuffles(outputs: int):
    trace = make_trace(40, (1, 20), outputs, seed=3, candidates=outputs > 1)
    streams = row_streams(trace, 0, "permutation")
    compiled = median_delta_y(trace.readout, trace.alpha, streams, 60)
    general = _median_through_tail(trace.readout, trace.alpha, streams, 60)
    np.testing.assert_allclose(compiled, general, atol=1e-12)


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch):
    trace = make_trace(40, (1, 20), 3, seed=4, hidden=5)
    whole = Permutation(permutations=10)(trace)["median_delta_y"]
    monkeypatch.setattr("attnaudit.experiments.permutation.BLOCK", 300)
    np.testing.assert_allclose(Permutation(permutations=10)(trace)["median_delta_y"], whole, atol=1e-12)


def test_attention_that_no_shuffle_changes_has_no_effect():
    uniform = sigmoid_rows(Ragged.from_rows([[1.0], [0.5, 0.5], [0.25] * 4]), np.random.default_rng(0).normal(size=7))
    assert Permutation()(uniform)["median_delta_y"].to_list() == [0.0, 0.0, 0.0]


def test_every_order_is_equally_likely():
    counts: dict[tuple[float, ...], int] = {}
    weights = np.arange(4.0)
    stream = row_streams(make_trace(1), 0, "permutation")[0]
    for k in range(24_000):
        SHUFFLE(weights, stream, k)
        counts[tuple(weights)] = counts.get(tuple(weights), 0) + 1
    assert len(counts) == 24
    chi_square = sum((count - 1000) ** 2 / 1000 for count in counts.values())
    assert chi_square < 60


def test_max_alpha_is_the_largest_weight():
    trace = make_trace(20, seed=5)
    np.testing.assert_array_equal(Permutation(permutations=1)(trace)["max_alpha"], [alpha.max() for alpha in trace.alpha])


def test_no_permutation_is_refused():
    with pytest.raises(InputError, match=r"permutation\.permutations"):
        Permutation(permutations=0)

from dataclasses import dataclass, replace
from math import factorial

import numpy as np
import pytest
from scipy.stats import binom

from attnaudit.core.random import shuffled
from attnaudit.experiments import shuffles
from attnaudit.experiments.permutation import Permutation
from attnaudit.experiments.rows import row_streams
from attnaudit.experiments.shuffles import COUNTS, ENUMERATED, median_and_error, median_delta_y
from attnaudit.stats.measures import tvd
from attnaudit.trace.tails import Tail
from tests.oracles.permutation import all_permutations
from tests.tails import opaque
from tests.traces import make_trace, with_columns


def bracket(every, shuffles):
    """Quantiles of all orders that a sampled median misses with odds below one in a million."""
    low, high = binom.ppf([1e-7, 1 - 1e-7], shuffles, 0.5) / shuffles * (len(every) - 1)
    return every[int(np.floor(low))] - 1e-9, every[int(np.ceil(high))] + 1e-9


@pytest.mark.parametrize(("outputs", "hidden"), [(1, None), (2, None), (4, None), (3, 6)])
def test_the_median_is_one_that_the_papers_loop_could_find(outputs, hidden):
    trace = make_trace(12, (1, 5), outputs, seed=1, hidden=hidden)
    for row, found in enumerate(Permutation(permutations=400)(trace)["median_delta_y"]):
        low, high = bracket(all_permutations(trace, row), 400)
        assert low <= found <= high


@pytest.mark.parametrize("outputs", [1, 2, 4])
def test_the_kernel_shuffles_as_keyed_random_numbers_say(outputs):
    trace = make_trace(40, (1, 20), outputs, seed=3, candidates=outputs > 1)
    streams = row_streams(trace, 0, "permutation")
    own, alpha, change = trace.readout(trace.alpha), trace.alpha, []
    for number in range(60):
        alpha = shuffled(alpha, streams, number)
        change.append(tvd(trace.readout(alpha), own))
    measured = median_delta_y(trace.readout, trace.alpha, streams, 60)
    expected = median_and_error(np.sort(np.array(change), axis=0).T)
    np.testing.assert_allclose(measured, expected, atol=1e-12)


@pytest.mark.parametrize("kind", [{"outputs": 1}, {"outputs": 3}, {"outputs": 3, "hidden": 6}])
@pytest.mark.parametrize("general", [False, True])
def test_words_are_shuffled_where_special_tokens_keep_their_weights(kind, general):
    """The median over all orders of the words' weights, from the paper's loop; no value where all tokens are special, or none is."""
    base = make_trace(40, (1, 6), seed=5, **kind)
    marks = [
        [t % 3 == row % 3 and row % 4 > 0 for t in range(size)]
        for row, size in enumerate(base.alpha.lengths.tolist())
    ]
    trace = with_columns(base, special=marks)
    experiment, compared = Permutation(permutations=4001), 0
    found = experiment(opaque(trace) if general else trace)["median_delta_y_words"]
    for row, special in enumerate(marks):
        if all(special) or not any(special):
            assert found[row] is None
            continue
        every = all_permutations(trace, row, np.flatnonzero(~np.array(special)))
        low, high = bracket(every, 4001)
        assert low <= found[row] <= high
        compared += 1
    assert compared >= 15
    assert "median_delta_y_words" not in Permutation()(base).columns


@pytest.mark.parametrize("outputs", [1, 3])
def test_of_short_rows_all_orders_are_taken(outputs):
    trace = make_trace(25, (1, ENUMERATED), outputs, seed=6)
    table = Permutation()(trace)
    expected = [np.median(all_permutations(trace, row)) for row in range(len(trace))]
    np.testing.assert_allclose(table["median_delta_y"], expected, atol=1e-12)
    assert table["shuffles"].to_list() == [
        factorial(length) for length in trace.alpha.lengths.tolist()
    ]
    assert (table["median_error"] == 0).all()


def test_rows_are_shuffled_until_the_error_is_as_wanted():
    """The same shuffles as a fixed number of them gives: no row depends on another, or on how many others there are."""
    trace = make_trace(40, (ENUMERATED + 1, 25), seed=7, sharpness=2.0)
    table = Permutation(error=0.004)(trace)
    draws, errors = table["shuffles"].to_numpy(), table["median_error"].to_numpy()
    assert len(set(draws.tolist())) > 2
    assert ((errors <= 0.004) | (draws == COUNTS[-1])).all()
    for count in sorted(set(draws.tolist())):
        fixed = Permutation(permutations=count)(trace)
        np.testing.assert_array_equal(
            fixed["median_delta_y"].to_numpy()[draws == count],
            table["median_delta_y"].to_numpy()[draws == count],
        )
        if count > COUNTS[0]:
            before = Permutation(permutations=count // 2)(trace)["median_error"].to_numpy()
            assert (before[draws == count] > 0.004).all()


@dataclass
class Counting:
    """Counts the predictions that it is asked for at a time."""

    tail: Tail
    counts: list[int]

    def __call__(self, pooled, rows):
        self.counts.append(len(pooled))
        return self.tail(pooled, rows)


def test_a_tail_is_given_as_many_shuffles_at_a_time_as_memory_allows(monkeypatch):
    trace = make_trace(40, (7, 9), 3, seed=2, hidden=5)
    tail = Counting(trace.readout.tail, [])
    monkeypatch.setattr(shuffles, "NUMBERS", 4096)
    counted = replace(trace.readout, tail=tail)
    median_delta_y(counted, trace.alpha, row_streams(trace, 0, "x"), 20)
    # Each prediction has a weighted sum, an offset and an output.
    numbers, of_a_row = (5 + 5 + 3) * max(tail.counts), (5 + 5 + 3) * 20
    assert 4096 - of_a_row < numbers <= 4096


@pytest.mark.parametrize("spread", ["uniform", "exponential", "normal"])
def test_the_error_is_that_of_the_median_over_draws(spread):
    """Of many rows of 200 draws: the root of the mean squared error is the standard deviation of their medians, to 6 %."""
    draws = getattr(np.random.default_rng(3), spread)(size=(4000, 200))
    errors = median_and_error(np.sort(draws, axis=1)).error
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(np.median(draws, axis=1).std(), rel=0.06)


def test_the_correlation_of_two_seeds_is_the_one_expected():
    trace = make_trace(400, (8, 20), seed=8, sharpness=2.0)
    first, other = (Permutation(permutations=60, seed=seed) for seed in (0, 1))
    table = first(trace)
    median, error = table["median_delta_y"].to_numpy(), table["median_error"].to_numpy()
    found = np.corrcoef(median, other(trace)["median_delta_y"])[0, 1]
    assert 1 - np.mean(error**2) / median.var() == pytest.approx(found, abs=0.02)
    assert found < 0.99

from __future__ import annotations

from collections import Counter
from math import factorial
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

from attnaudit.core.errors import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.core.random import shuffled
from attnaudit.experiments.permutation import Permutation
from attnaudit.experiments.rows import row_streams
from attnaudit.experiments.shuffles import COUNTS, ENUMERATED, median_and_error, median_delta_y
from attnaudit.stats.measures import tvd
from attnaudit.trace import Trace
from tests.oracles.permutation import all_permutations, naive_permutation
from tests.tails import opaque
from tests.traces import make_trace, sigmoid_rows


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
    found = Permutation(permutations=100)(trace)["median_delta_y"].to_numpy()
    rng = np.random.default_rng(0)
    expected = np.array([naive_permutation(trace, row, 100, rng) for row in range(len(trace))])
    difference = found - expected
    assert abs(difference.mean()) < 4 * difference.std() / np.sqrt(len(difference)) + 1e-4


@pytest.mark.parametrize("outputs", [1, 2, 4])
def test_the_kernel_shuffles_as_keyed_random_numbers_say(outputs: int):
    trace = make_trace(40, (1, 20), outputs, seed=3, candidates=outputs > 1)
    streams = row_streams(trace, 0, "permutation")
    own, alpha, change = trace.readout(trace.alpha), trace.alpha, []
    for number in range(60):
        alpha = shuffled(alpha, streams, number)
        change.append(tvd(trace.readout(alpha), own))
    measured = median_delta_y(trace.readout, trace.alpha, streams, 60)
    expected = median_and_error(np.sort(np.array(change), axis=0).T)
    np.testing.assert_allclose(measured, expected, atol=1e-12)
    np.testing.assert_allclose(measured.median, np.median(change, axis=0), atol=1e-12)


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch):
    trace = make_trace(40, (1, 20), 3, seed=4, hidden=5)
    whole = Permutation(permutations=10)(trace)["median_delta_y"]
    monkeypatch.setattr("attnaudit.experiments.shuffles.BLOCK", 300)
    np.testing.assert_allclose(
        Permutation(permutations=10)(trace)["median_delta_y"], whole, atol=1e-12
    )


@pytest.mark.parametrize("kind", [{"outputs": 1}, {"outputs": 3}, {"outputs": 3, "hidden": 6}])
@pytest.mark.parametrize("general", [False, True])
def test_words_are_shuffled_where_special_tokens_keep_their_weights(
    kind: dict[str, Any], general: bool
):
    """The median over all orders of the words' weights, from the paper's loop; no value where all tokens are special, or none is."""
    base = make_trace(40, (1, 6), seed=5, **kind)
    marks = [
        [t % 3 == row % 3 and row % 4 > 0 for t in range(size)]
        for row, size in enumerate(base.alpha.lengths.tolist())
    ]
    trace = Trace(
        base.table.with_columns(pl.Series("special", marks, pl.List(pl.Boolean))),
        base.metadata,
        base.tail,
    )
    found = Permutation(permutations=4001)(opaque(trace) if general else trace)[
        "median_delta_y_words"
    ]
    compared = 0
    for row, special in enumerate(marks):
        if all(special) or not any(special):
            assert found[row] is None
            continue
        every = all_permutations(trace, row, np.flatnonzero(~np.array(special)))
        low, high = binom.ppf([1e-7, 1 - 1e-7], 4001, 0.5) / 4001
        assert (
            every[int(np.floor(low * (len(every) - 1)))] - 1e-9
            <= found[row]
            <= every[int(np.ceil(high * (len(every) - 1)))] + 1e-9
        )
        compared += 1
    assert compared >= 15
    assert "median_delta_y_words" not in Permutation()(base).columns


def test_attention_that_no_shuffle_changes_has_no_effect():
    uniform = sigmoid_rows(
        Ragged.from_rows([[1.0], [0.5, 0.5], [0.25] * 4]), np.random.default_rng(0).normal(size=7)
    )
    assert Permutation()(uniform)["median_delta_y"].to_list() == [0.0, 0.0, 0.0]


def test_every_order_is_equally_likely():
    weights = Ragged.from_rows([np.arange(4.0)])
    stream = row_streams(make_trace(1), 0, "permutation")
    counts = Counter[tuple[float, ...]]()
    for number in range(24_000):
        weights = shuffled(weights, stream, number)
        counts[tuple(weights.values.tolist())] += 1
    assert len(counts) == 24
    chi_square = sum((count - 1000) ** 2 / 1000 for count in counts.values())
    assert chi_square < 60


def test_max_alpha_is_the_largest_weight():
    trace = make_trace(20, seed=5)
    np.testing.assert_array_equal(
        Permutation(permutations=1)(trace)["max_alpha"], [alpha.max() for alpha in trace.alpha]
    )


def test_no_permutation_is_refused():
    with pytest.raises(InputError, match=r"permutation\.permutations"):
        Permutation(permutations=0)


@pytest.mark.parametrize("outputs", [1, 3])
def test_of_short_rows_all_orders_are_taken(outputs: int):
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
    assert Permutation(error=0.004)(trace.take(np.arange(7, 9))).equals(table[7:9])


@pytest.mark.parametrize("spread", ["uniform", "exponential", "normal"])
def test_the_error_is_that_of_the_median_over_draws(spread: str):
    """Of many rows of 200 draws: the root of the mean squared error is the standard deviation of their medians, to 6 %."""
    draws = getattr(np.random.default_rng(3), spread)(size=(4000, 200))
    errors = median_and_error(np.sort(draws, axis=1)).error
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(np.median(draws, axis=1).std(), rel=0.06)


def test_the_correlation_of_two_seeds_is_the_one_expected():
    trace = make_trace(400, (8, 20), seed=8, sharpness=2.0)
    first, other = (Permutation(permutations=60, seed=seed) for seed in (0, 1))
    table = first(trace)
    said = first.summarise(table).filter(group="all", measure="seed_correlation").row(0, named=True)
    found = np.corrcoef(table["median_delta_y"], other(trace)["median_delta_y"])[0, 1]
    assert said["low"] <= said["value"] <= said["high"]
    assert said["value"] == pytest.approx(found, abs=0.02)
    assert found < 0.99

"""Draws of keyed streams: independent of order, distributed as named, equal to splitmix64."""

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from attnaudit.core.ragged import Ragged
from attnaudit.core.random import below, bits, shuffled, stream_keys, uniform
from tests.oracles import random_orders


def key(seed=0, purpose="test", number=0):
    return stream_keys(seed, purpose, np.array([number]))


def test_seed_purpose_and_every_number_of_the_name_make_another_stream():
    names = [np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])]
    purposes = [(seed, name) for seed in (0, 1) for name in ("permutation", "adversary")]
    assert len(np.unique([stream_keys(*one, *names) for one in purposes])) == 16


def test_draws_follow_their_distributions():
    counts = np.bincount(below(key(), np.arange(60_000), 6), minlength=6)
    assert chisquare(counts).pvalue > 1e-3
    assert kstest(uniform(key(), np.arange(20_000)), "uniform").pvalue > 1e-3


def test_neighbouring_streams_are_unrelated():
    one, other = (uniform(key(number=number), np.arange(20_000)) for number in (1, 2))
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.03
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.03


def test_draws_are_those_of_splitmix64_at_a_position():
    keys, counters = stream_keys(1, "test", np.arange(4)), np.arange(9)
    expected = [[random_orders.keyed_bits(int(k), c) for c in range(9)] for k in keys]
    np.testing.assert_array_equal(bits(keys[:, None], counters), np.array(expected, np.uint64))
    expected = [[random_orders.keyed_below(int(k), c, c + 1) for c in range(9)] for k in keys]
    np.testing.assert_array_equal(below(keys[:, None], counters, counters + 1), expected)


@pytest.mark.parametrize("number", [0, 7])
def test_rows_of_any_lengths_are_shuffled_in_their_own_streams(number):
    lengths = [5, 0, 1, 12, 2, 12, 3]
    keys = stream_keys(2, "test", np.arange(len(lengths)))
    rows = Ragged.from_rows([np.arange(length) for length in lengths])
    orders = [random_orders.keyed_order(n, k, number) for n, k in zip(lengths, keys, strict=True)]
    for row, order in zip(shuffled(rows, keys, number), orders, strict=True):
        assert row.tolist() == order

from __future__ import annotations

import numpy as np
from numba import njit
from scipy.stats import chisquare, kstest

from attnaudit.core.kernels import kernel
from attnaudit.core.random import draw_below, draw_normal, draw_uniform, stream_keys

BELOW, NORMAL, UNIFORM = kernel(draw_below), kernel(draw_normal), kernel(draw_uniform)


@njit
def _below(key, count, bound):
    return np.array([BELOW(key, k, bound) for k in range(count)])


@njit
def _normals(key, count):
    return np.array([NORMAL(key, k) for k in range(count)])


@njit
def _uniforms(key, count):
    return np.array([UNIFORM(key, k) for k in range(count)])


def key(seed: int = 0, purpose: str = "test", number: int = 0) -> np.uint64:
    return stream_keys(seed, purpose, np.array([number]))[0]


def test_a_row_keeps_its_stream_wherever_it_stands():
    instance, layer = np.arange(50), np.repeat(-1, 50)
    whole = stream_keys(3, "permutation", instance, layer)
    order = np.random.default_rng(0).permutation(50)
    np.testing.assert_array_equal(
        stream_keys(3, "permutation", instance[order], layer), whole[order]
    )


def test_seed_purpose_and_every_number_of_the_name_make_another_stream():
    names = [np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])]
    streams = np.concatenate(
        [
            stream_keys(seed, purpose, *names)
            for seed in (0, 1)
            for purpose in ("permutation", "adversary")
        ]
    )
    assert len(np.unique(streams)) == 16


def test_draws_follow_their_distributions():
    counts = np.bincount(_below(key(), 60_000, 6), minlength=6)
    assert chisquare(counts).pvalue > 1e-3
    assert kstest(_uniforms(key(), 20_000), "uniform").pvalue > 1e-3
    assert kstest(_normals(key(), 20_000), "norm").pvalue > 1e-3


def test_neighbouring_streams_are_unrelated():
    one, other = _normals(key(number=1), 20_000), _normals(key(number=2), 20_000)
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.03
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.03

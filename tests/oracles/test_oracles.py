"""The oracles themselves catch a planted bug: each comparison fails for a variant that is wrong on purpose."""

import math

import numpy as np
import pytest
from scipy.stats import kendalltau

from attnaudit.experiments.adversary import exact as adversary_exact
from attnaudit.experiments.adversary.exact import slab_within
from attnaudit.experiments.adversary.experiment import divergence
from tests.oracles.adversary import brute_force_adversary
from tests.oracles.agreement import naive_overlap
from tests.oracles.kendall import naive_kendall
from tests.oracles.permutation import all_permutations
from tests.oracles.readout import naive_jsd, naive_prediction, naive_tvd
from tests.oracles.scores import expected_precision
from tests.traces import make_trace

TIED_X, TIED_Y = np.array([1.0, 1.0, 2.0, 3.0, 3.0]), np.array([1.0, 2.0, 2.0, 2.0, 5.0])


@pytest.fixture(scope="module")
def trace():
    return make_trace(20, (4, 6), seed=0)


def test_tau_a_is_not_tau_b():
    pairs = [(i, j) for i in range(5) for j in range(i)]
    balance = sum(np.sign(TIED_X[i] - TIED_X[j]) * np.sign(TIED_Y[i] - TIED_Y[j]) for i, j in pairs)
    tau, _ = naive_kendall(TIED_X, TIED_Y)
    assert abs(balance / len(pairs) - tau) > 0.05
    assert tau == pytest.approx(np.array(kendalltau(TIED_X, TIED_Y))[0])


def test_a_p_value_that_forgets_ties_is_found():
    no_ties = math.erfc(
        abs(np.array(kendalltau(TIED_X, TIED_Y))[0])
        * math.sqrt(9 * 5 * 4 / (2 * 15))
        / math.sqrt(2)
    )
    assert abs(naive_kendall(TIED_X, TIED_Y)[1] - no_ties) > 0.01


def _pairs_swapped(trace, row, epsilon):
    """The exact adversary with the weight of a pair put on the wrong token."""
    one = trace.take(np.array([row]))
    slab = slab_within(one.readout, one.alpha, epsilon)
    found = adversary_exact.furthest_attention(one.alpha, slab).values.copy()
    used = np.flatnonzero(found)
    if len(used) == 2:
        found[used] = found[used[::-1]]
    return found


def test_a_pair_with_its_weights_swapped_is_found(trace):
    outside = 0
    for row, alpha in enumerate(trace.alpha):
        moved = naive_prediction(trace, row, _pairs_swapped(trace, row, 0.01))
        outside += naive_tvd(moved, naive_prediction(trace, row, alpha)) > 0.01 + 1e-9
    assert outside > len(trace) / 2


def test_single_tokens_alone_are_found_to_fall_short(trace):
    """Brute force reaches further than an adversary that tries no pairs."""
    slab = slab_within(trace.readout, trace.alpha, 0.01)
    short = 0
    for row, alpha in enumerate(trace.alpha):
        relevance = slab.relevance[trace.alpha.offsets[row] :][: len(alpha)]
        inside = (slab.low[row] <= relevance) & (relevance <= slab.high[row])
        worth = 0.5 * math.log(2) + adversary_exact.gains(np.ones(len(alpha)), alpha)
        alone = worth[inside].max(initial=0.0)
        short += alone < brute_force_adversary(trace, row, 0.01)[0] - 1e-6
    assert short > len(trace) / 2


def test_pairs_at_one_bound_alone_are_found_to_fall_short():
    trace = make_trace(40, (3, 6), seed=1)
    slab = slab_within(trace.readout, trace.alpha, 0.1)
    one_sided = adversary_exact.Slab(slab.relevance, np.full(40, -np.inf), slab.high)
    found = adversary_exact.furthest_attention(trace.alpha, one_sided)
    moved = naive_tvd_rows(trace, found.values, trace.alpha.offsets)
    assert (moved > 0.1 + 1e-9).any()
    assert (
        divergence(found, trace.alpha)
        > [brute_force_adversary(trace, row, 0.1)[0] + 1e-6 for row in range(40)]
    ).any()


def naive_tvd_rows(trace, values, offsets):
    rows = range(len(trace))
    moved = [naive_prediction(trace, row, values[offsets[row] : offsets[row + 1]]) for row in rows]
    return np.array(
        [naive_tvd(moved[row], naive_prediction(trace, row, trace.alpha[row])) for row in rows]
    )


def test_a_jsd_in_bits_is_found():
    p, q = np.array([0.9, 0.1]), np.array([0.2, 0.8])
    assert naive_jsd(p, q) != pytest.approx(naive_jsd(p, q, log=math.log2), rel=0.1)


def test_shuffles_that_only_rotate_are_found(trace):
    """The median of rotations is not the median of all orders."""
    different = 0
    for row, alpha in enumerate(trace.alpha):
        before = naive_prediction(trace, row, alpha)
        rotated = [
            naive_tvd(naive_prediction(trace, row, np.roll(alpha, k)), before)
            for k in range(len(alpha))
        ]
        low, high = np.quantile(all_permutations(trace, row), [0.4, 0.6])
        different += not low <= np.median(rotated) <= high
    assert different > 3


def test_a_readout_without_its_offset_is_found(trace):
    readout = trace.readout
    for row, alpha in enumerate(trace.alpha):
        logit = float(alpha @ readout.contribution[row][:, 0])
        assert naive_prediction(trace, row, alpha)[0] != pytest.approx(
            1 / (1 + math.exp(-logit)), abs=1e-6
        )


def test_a_precision_that_breaks_ties_by_position_is_found():
    score, rationale = np.array([1.0, 1.0, 0.0]), np.array([True, False, False])
    by_position = rationale[np.argsort(-score, kind="stable")[:1]].mean()
    assert expected_precision(score, rationale) == 0.5
    assert by_position == 1.0


def test_tops_in_common_that_break_ties_by_position_are_found():
    u, v = np.array([1.0, 1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0, 0.0])
    first, second = (set(np.argsort(-values, kind="stable")[:1].tolist()) for values in (u, v))
    assert naive_overlap(u.tolist(), v.tolist(), 25) == 0.5
    assert len(first & second) == 0

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from attnaudit.core.ragged import Ragged
from attnaudit.experiments.adversary.exact import (
    furthest_attention,
    gains,
    slab_within,
    unconstrained_bound,
)
from attnaudit.experiments.adversary.experiment import Adversary, divergence
from attnaudit.stats.measures import LN2, tvd
from tests.oracles.adversary import brute_force_adversary
from tests.oracles.readout import naive_jsd
from tests.traces import make_trace, trace_of


def check_against_brute_force(trace, epsilon):
    table = Adversary(epsilon=epsilon)(trace)
    for row in range(len(trace)):
        expected, _ = brute_force_adversary(trace, row, epsilon)
        assert table["emax_jsd"][row] == pytest.approx(expected, abs=1e-9), f"instance {row}"
    check_is_allowed(trace, table, epsilon)
    return table


def check_is_allowed(trace, table, epsilon):
    """What the table says of the attention it holds is true, and the output under it stays within ε."""
    found = Ragged.from_rows(table["alpha"].to_list(), dtype=np.float64)
    prediction, change = trace.readout(found), table["delta_y"]
    np.testing.assert_allclose(found.sum(), 1.0, atol=1e-12)
    assert (found.values >= 0).all()
    np.testing.assert_allclose(prediction, np.array(table["prediction"].to_list()), atol=1e-12)
    np.testing.assert_allclose(tvd(prediction, trace.readout(trace.alpha)), change, atol=1e-12)
    assert (change <= epsilon + 1e-9).all()
    assert (table["emax_jsd"] >= 0).all()
    assert (table["emax_jsd"] <= table["emax_jsd_upper"]).all()
    assert (table["emax_jsd_upper"] <= LN2 + 1e-12).all()
    expected = [naive_jsd(a, b) for a, b in zip(found, trace.alpha, strict=True)]
    np.testing.assert_allclose(expected, table["emax_jsd"], atol=1e-12)


@pytest.mark.parametrize("kind", [{}, {"outputs": 2}, {"zeros": 0.5}], ids=str)
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.05, 0.3])
def test_no_token_and_no_pair_beats_it(kind, epsilon):
    check_against_brute_force(make_trace(40, (1, 8), seed=1, **kind), epsilon)


def test_candidates_that_leave_one_answer_free_the_attention():
    trace = make_trace(40, (1, 8), 2, seed=3, candidates=True)
    assert trace.candidates is not None
    free = ~trace.candidates.all(axis=1)
    found = check_against_brute_force(trace, 0.01)["emax_jsd"].to_numpy()
    np.testing.assert_allclose(found[free], unconstrained_bound(trace.alpha)[free], atol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.01])
def test_an_output_that_rounds_to_certainty_is_kept_by_all_that_round_there(sign, epsilon):
    trace = trace_of([[0.5, 0.3, 0.2]], [0.0, 5.0, -5.0], 900.0 * sign)
    table = Adversary(epsilon=epsilon)(trace)
    assert table["emax_jsd"].item() == pytest.approx(unconstrained_bound(trace.alpha)[0], abs=1e-12)
    assert table["delta_y"].item() <= epsilon + 1e-12


EDGES = {
    "one token": ([1.0], [3.0], 0.5),
    "all relevance equal": ([0.2, 0.3, 0.5], [1.7, 1.7, 1.7], -0.3),
    "no relevance": ([0.2, 0.3, 0.5], [0.0, 0.0, 0.0], 0.0),
    "ties in both": ([0.25, 0.25, 0.25, 0.25], [1.0, 1.0, -1.0, -1.0], 0.0),
    "probability 1": ([0.5, 0.5], [800.0, 900.0], 0.0),
    "probability 0": ([0.5, 0.5], [-800.0, -900.0], 0.0),
    "near 1, and one token that would change it": ([0.6, 0.3, 0.1], [30.0, 25.0, -90.0], 0.0),
    "all attention on one token": ([0.0, 1.0, 0.0], [-1.0, 0.2, 1.0], 0.0),
    "large numbers that cancel": ([0.5, 0.5, 0.0], [1e4, -1e4, 0.0], 0.1),
    "offset decides": ([0.4, 0.6], [0.001, -0.002], 9.0),
    "uniform": ([1 / 6] * 6, [-2.0, -1.0, 0.0, 0.5, 1.0, 3.0], 0.2),
}


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("epsilon", [0.01, 0.2])
def test_edges(name, epsilon):
    alpha, relevance, offset = EDGES[name]
    check_against_brute_force(trace_of([alpha], relevance, offset), epsilon)


@pytest.mark.parametrize("seed", range(3))
def test_no_allowed_point_beats_it(seed):
    """Samples of the allowed set, and its vertices found by linear programs in random directions."""
    trace = make_trace(6, (3, 9), seed=seed)
    slab = slab_within(trace.readout, trace.alpha, 0.05)
    best = Adversary(epsilon=0.05)(trace)["emax_jsd"]
    rng = np.random.default_rng(seed)
    for row, alpha in enumerate(trace.alpha):
        relevance, size = trace.alpha.with_values(slab.relevance)[row], len(alpha)
        samples = rng.dirichlet(np.full(size, 0.2), 4000)
        sums = samples @ relevance
        inside = samples[(sums >= slab.low[row]) & (sums <= slab.high[row])]
        sides, limits = (
            np.array([relevance, -relevance]),
            np.array([slab.high[row], -slab.low[row]]),
        )
        finite = np.isfinite(limits)
        program = {"A_ub": sides[finite], "b_ub": limits[finite], "A_eq": np.ones((1, size))}
        for direction in rng.normal(size=(40, size)):
            vertex = np.maximum(linprog(direction, b_eq=[1.0], **program).x, 0.0)
            inside = np.vstack([inside, vertex / vertex.sum()])
        assert max(naive_jsd(point, alpha) for point in inside) <= best[row] + 1e-9


weights = st.lists(st.floats(0, 1), min_size=2, max_size=9).filter(lambda w: sum(w) > 0.1)


@settings(max_examples=60)
@given(weights, st.data())
def test_any_attention_and_relevance_in_any_order(raw, data):
    alpha, offset = np.array(raw) / sum(raw), data.draw(st.floats(-3, 3))
    numbers = st.lists(st.floats(-6, 6), min_size=len(raw), max_size=len(raw))
    relevance = np.array(data.draw(numbers))
    table = check_against_brute_force(trace_of([alpha], relevance, offset), 0.05)
    order = np.array(data.draw(st.permutations(range(len(raw)))))
    other = Adversary(epsilon=0.05)(trace_of([alpha[order]], relevance[order], offset))
    assert other["emax_jsd"].item() == pytest.approx(table["emax_jsd"].item(), abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.01, 0.2])
def test_two_tokens_stay_in_the_slab_to_the_last_bit(epsilon):
    """Rounding must not bring their weighted sum out of it."""
    trace, pairs = make_trace(300, (2, 15), seed=9), 0
    slab = slab_within(trace.readout, trace.alpha, epsilon)
    for row, alpha in enumerate(furthest_attention(trace.alpha, slab)):
        relevance, tokens = trace.readout.contribution[row][:, 0], np.flatnonzero(alpha)
        if len(tokens) == 2:
            one, other = alpha[tokens] * relevance[tokens]
            assert slab.low[row] <= one + other <= slab.high[row], row
            pairs += 1
    assert pairs > 100


@pytest.mark.parametrize("long", [True, False])
def test_pruning_loses_nothing(long):
    """Against all pairs at once, where long rows make the bounds work, or few tokens say far more than others."""
    rng = np.random.default_rng(2)
    alpha = [rng.dirichlet(np.full(8, 0.3)) for _ in range(400)]
    trace = trace_of(alpha, np.clip(rng.standard_cauchy(3200), -30.0, 30.0))
    if long:
        trace = make_trace(12, (150, 400), seed=6, sharpness=0.7)
    slab = slab_within(trace.readout, trace.alpha, 0.01 if long else 0.05)
    found = divergence(furthest_attention(trace.alpha, slab), trace.alpha)
    for row, alpha in enumerate(trace.alpha):
        relevance = trace.alpha.with_values(slab.relevance)[row]
        expected = _best_of_all_pairs(alpha, relevance, slab.low[row], slab.high[row])
        assert found[row] == pytest.approx(expected, abs=1e-10)


def _best_of_all_pairs(alpha, relevance, low, high):
    f = gains  # broadcasts
    single = f(np.ones_like(alpha), alpha)[(low <= relevance) & (relevance <= high)]
    best = single.max(initial=-0.5 * LN2)
    for c in (low, high):
        below, above = np.flatnonzero(relevance < c), np.flatnonzero(relevance > c)
        if np.isfinite(c) and len(below) and len(above):
            share = (relevance[above] - c) / (relevance[above] - relevance[below][:, None])
            worth = f(share, alpha[below][:, None]) + f(1 - share, alpha[above])
            best = max(best, worth.max())
    return float(0.5 * LN2 + best)

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from attnaudit.core.errors import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.experiments.adversary.exact import (
    furthest_attention,
    gains,
    slab_within,
    unconstrained_bound,
)
from attnaudit.experiments.adversary.experiment import Adversary, divergence
from attnaudit.stats.measures import LN2, tvd
from attnaudit.trace import Trace
from tests.oracles.adversary import brute_force_adversary
from tests.oracles.readout import naive_jsd
from tests.traces import make_trace, sigmoid_rows


def rows_of(table: pl.DataFrame, column: str) -> Ragged:
    return Ragged.from_rows([np.array(row) for row in table[column].to_list()], dtype=np.float64)


def check_against_brute_force(trace: Trace, epsilon: float) -> None:
    table = Adversary(epsilon=epsilon)(trace)
    for row in range(len(trace)):
        expected, _ = brute_force_adversary(trace, row, epsilon)
        assert table["emax_jsd"][row] == pytest.approx(expected, abs=1e-9), (
            f"instance {row}, T = {len(trace.alpha[row])}"
        )
    check_is_allowed(trace, table, epsilon)


def check_is_allowed(trace: Trace, table: pl.DataFrame, epsilon: float) -> None:
    """What the table says of the attention it holds is true, and the output under it stays within ε."""
    found = rows_of(table, "alpha")
    prediction = trace.readout(found)
    np.testing.assert_allclose(found.sum(), 1.0, atol=1e-12)
    assert (found.values >= 0).all()
    np.testing.assert_allclose(prediction, np.array(table["prediction"].to_list()), atol=1e-12)
    np.testing.assert_allclose(
        tvd(prediction, trace.readout(trace.alpha)), table["delta_y"], atol=1e-12
    )
    assert (table["delta_y"] <= epsilon + 1e-9).all()
    assert (table["emax_jsd"] >= 0).all()
    assert (table["emax_jsd"] <= table["emax_jsd_upper"]).all()
    assert (table["emax_jsd_upper"] <= LN2 + 1e-12).all()
    np.testing.assert_allclose(
        [naive_jsd(a, b) for a, b in zip(found, trace.alpha, strict=True)],
        table["emax_jsd"],
        atol=1e-12,
    )


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.3])
def test_no_token_and_no_pair_beats_it(outputs: int, epsilon: float):
    check_against_brute_force(make_trace(60, (1, 8), outputs, seed=1), epsilon)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.01])
def test_an_output_that_rounds_to_certainty_is_kept_by_all_that_round_there(
    sign: float, epsilon: float
):
    trace = sigmoid_rows(
        Ragged.from_rows([np.array([0.5, 0.3, 0.2])]),
        np.array([0.0, 5.0, -5.0]),
        offset=900.0 * sign,
    )
    table = Adversary(epsilon=epsilon)(trace)
    assert table["emax_jsd"].item() == pytest.approx(unconstrained_bound(trace.alpha)[0], abs=1e-12)
    assert table["delta_y"].item() <= epsilon + 1e-12


def test_exact_zeros_in_attention():
    check_against_brute_force(make_trace(60, (1, 8), seed=2, zeros=0.5), 0.01)


def test_candidates_that_leave_one_answer_free_the_attention():
    trace = make_trace(60, (1, 8), 2, seed=3, candidates=True)
    candidates = trace.candidates
    assert candidates is not None
    check_against_brute_force(trace, 0.01)
    free = ~candidates.all(axis=1)
    table = Adversary()(trace)
    np.testing.assert_allclose(
        table["emax_jsd"].to_numpy()[free], unconstrained_bound(trace.alpha)[free], atol=1e-12
    )


def edge_rows() -> dict[str, tuple[list[float], list[float], float]]:
    """Attention, relevance and offset at the edges."""
    return {
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


@pytest.mark.parametrize("name", edge_rows())
@pytest.mark.parametrize("epsilon", [0.01, 0.2])
def test_edges(name: str, epsilon: float):
    alpha, relevance, offset = edge_rows()[name]
    check_against_brute_force(
        sigmoid_rows(Ragged.from_rows([alpha]), np.array(relevance), offset), epsilon
    )


def test_one_token_has_no_adversary():
    table = Adversary()(sigmoid_rows(Ragged.from_rows([[1.0]]), np.array([2.0])))
    assert table["emax_jsd"].item() == 0
    assert table["delta_y"].item() == 0
    assert table["alpha"].item().to_list() == [1.0]


def test_epsilon_zero_keeps_the_output():
    trace = make_trace(80, (1, 12), seed=4)
    table = Adversary(epsilon=0.0)(trace)
    assert table["delta_y"].to_numpy().max() <= 1e-12
    assert table["emax_jsd"].to_numpy().mean() > 0.1


@pytest.mark.parametrize("seed", range(3))
def test_no_allowed_point_beats_it(seed: int):
    """Samples of the allowed set, and its vertices found by linear programs in random directions."""
    trace = make_trace(6, (3, 9), seed=seed)
    slab, best = (
        slab_within(trace.readout, trace.alpha, 0.05),
        Adversary(epsilon=0.05)(trace)["emax_jsd"].to_numpy(),
    )
    rng = np.random.default_rng(seed)
    for row, alpha in enumerate(trace.alpha):
        relevance = slab.relevance[trace.alpha.offsets[row] : trace.alpha.offsets[row + 1]]
        samples = rng.dirichlet(np.full(len(alpha), 0.2), 4000)
        inside = samples[
            (samples @ relevance >= slab.low[row]) & (samples @ relevance <= slab.high[row])
        ]
        directions = rng.normal(size=(40, len(alpha)))
        vertices = [
            _furthest_along(direction, relevance, slab.low[row], slab.high[row])
            for direction in directions
        ]
        reached = [naive_jsd(point, alpha) for point in [*inside, *vertices]]
        assert max(reached) <= best[row] + 1e-9


def _furthest_along(
    direction: np.ndarray, relevance: np.ndarray, low: float, high: float
) -> np.ndarray:
    sides, limits = [], []
    for sign, limit in ((1.0, high), (-1.0, -low)):
        if np.isfinite(limit):
            sides.append(sign * relevance)
            limits.append(limit)
    simplex = np.ones((1, len(relevance)))
    solution = linprog(
        direction,
        A_ub=np.array(sides) if sides else None,
        b_ub=limits or None,
        A_eq=simplex,
        b_eq=[1.0],
    )
    return np.maximum(solution.x, 0) / np.maximum(solution.x, 0).sum()


weights = st.lists(st.floats(0, 1), min_size=2, max_size=9).filter(lambda w: sum(w) > 0.1)


@settings(max_examples=60)
@given(weights, st.data())
def test_any_attention_and_relevance(raw: list[float], data: st.DataObject):
    alpha = np.array(raw) / sum(raw)
    relevance = data.draw(st.lists(st.floats(-6, 6), min_size=len(raw), max_size=len(raw)))
    trace = sigmoid_rows(
        Ragged.from_rows([alpha]), np.array(relevance), data.draw(st.floats(-3, 3))
    )
    check_against_brute_force(trace, 0.05)
    order = np.array(data.draw(st.permutations(range(len(raw)))))
    shuffled = sigmoid_rows(
        Ragged.from_rows([alpha[order]]),
        np.array(relevance)[order],
        float(trace.readout.offset[0, 0]),
    )
    assert Adversary(epsilon=0.05)(shuffled)["emax_jsd"].item() == pytest.approx(
        Adversary(epsilon=0.05)(trace)["emax_jsd"].item(), abs=1e-6
    )


@pytest.mark.parametrize("epsilon", [0.01, 0.2])
def test_two_tokens_stay_in_the_slab_to_the_last_bit(epsilon: float):
    """Rounding must not bring their weighted sum out of it."""
    trace, pairs = make_trace(300, (2, 15), seed=9), 0
    slab = slab_within(trace.readout, trace.alpha, epsilon)
    for row, alpha in enumerate(furthest_attention(trace.alpha, slab)):
        relevance, tokens = trace.readout.contribution[row][:, 0], np.flatnonzero(alpha)
        if len(tokens) == 2:
            one, other = tokens
            assert (
                slab.low[row]
                <= alpha[one] * relevance[one] + alpha[other] * relevance[other]
                <= slab.high[row]
            ), row
            pairs += 1
    assert pairs > 100


def test_more_freedom_never_finds_less():
    trace = make_trace(80, (1, 30), seed=5)
    found = [
        Adversary(epsilon=epsilon)(trace)["emax_jsd"].to_numpy()
        for epsilon in (0.0, 0.001, 0.01, 0.1, 0.5, 1.0)
    ]
    assert (np.diff(found, axis=0) >= -1e-12).all()
    np.testing.assert_allclose(found[-1], unconstrained_bound(trace.alpha), atol=1e-12)


def test_pruning_loses_nothing_at_length():
    """Against all pairs at once, where long rows make the bounds work."""
    trace = make_trace(12, (150, 400), seed=6, sharpness=0.7)
    slab = slab_within(trace.readout, trace.alpha, 0.01)
    found = divergence(furthest_attention(trace.alpha, slab), trace.alpha)
    for row, alpha in enumerate(trace.alpha):
        relevance = slab.relevance[trace.alpha.offsets[row] : trace.alpha.offsets[row + 1]]
        assert found[row] == pytest.approx(
            _best_of_all_pairs(alpha, relevance, slab.low[row], slab.high[row]), abs=1e-10
        )


def _best_of_all_pairs(alpha: np.ndarray, relevance: np.ndarray, low: float, high: float) -> float:
    f: Any = gains  # broadcasts
    best = max(
        (0.5 * LN2 + f(1.0, a) for a, r in zip(alpha, relevance, strict=True) if low <= r <= high),
        default=0.0,
    )
    for c in (low, high):
        below, above = np.flatnonzero(relevance < c), np.flatnonzero(relevance > c)
        if np.isfinite(c) and len(below) and len(above):
            share = (relevance[above] - c) / (relevance[above] - relevance[below][:, None])
            best = max(
                best,
                (0.5 * LN2 + f(share, alpha[below][:, None]) + f(1 - share, alpha[above])).max(),
            )
    return float(best)


def test_gains_add_up_to_the_divergence():
    alpha = np.array([0.1, 0.0, 0.6, 0.3])
    other = np.array([0.0, 0.25, 0.75, 0.0])
    total = 0.5 * LN2 + sum(gains(a, b) for a, b in zip(other, alpha, strict=True))
    assert total == pytest.approx(naive_jsd(other, alpha), abs=1e-15)


@pytest.mark.parametrize(
    ("settings_", "part"),
    [
        ({"method": "exat"}, "did you mean exact?"),
        ({"epsilon": -1}, "from 0 to 1"),
        ({"k": 0}, "k ≥ 1"),
    ],
)
def test_bad_settings_are_refused(settings_: dict, part: str):
    with pytest.raises(InputError, match=part.replace("?", r"\?")):
        Adversary(**settings_)


def test_it_takes_every_distribution_and_refuses_several_sigmoids():
    for method in ("exact", "relaxed"):
        for trace in (
            make_trace(5),
            make_trace(5, outputs=3),
            make_trace(5, outputs=2, hidden=4),
            make_trace(5, outputs=1, hidden=4),
        ):
            assert Adversary(method=method).refuses(trace) is None
        assert "several sigmoid outputs" in (
            Adversary(method=method).refuses(several_sigmoids()) or ""
        )


def several_sigmoids() -> Trace:
    """Three labels, each with its own sigmoid."""
    alpha = Ragged.from_rows([[0.5, 0.5]], dtype=np.float32)
    contribution = alpha.with_values(np.zeros((2, 3), np.float32))
    return Trace.from_arrays(
        activation="sigmoid", class_names=["a", "b", "c"], instance=np.arange(1), tokens=[["w0", "w1"]], alpha=alpha, readout=contribution,
        offset=np.zeros((1, 3), np.float32), prediction=np.full((1, 3), 0.5, np.float32),
    )  # fmt: skip

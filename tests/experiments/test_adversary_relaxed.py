from __future__ import annotations

import numpy as np
import pytest
import torch

from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.experiments.adversary.relaxed import (
    Batch,
    Search,
    loss_slope,
    search_attentions,
    starting_scores,
)
from attnaudit.experiments.rows import row_streams
from attnaudit.trace import Trace
from tests.experiments.test_adversary_exact import check_is_allowed
from tests.oracles.relaxed_adversary import (
    accepted_divergence,
    adversary_loss,
    naive_search,
    padded,
)
from tests.traces import make_trace

K = 4


def starts(trace: Trace) -> torch.Tensor:
    """Where the search starts, padded: (B, K, T)."""
    scores = torch.zeros(len(trace), K, int(trace.alpha.lengths.max()), dtype=torch.float64)
    streams = row_streams(trace, 0, "adversary")
    for row, length in enumerate(trace.alpha.lengths):
        own = starting_scores(streams[row : row + 1], K, int(length))
        scores[row, :, :length] = torch.tensor(own[0])
    return scores


def slope_of_row(trace: Trace, row: int, scores: np.ndarray, epsilon: float) -> np.ndarray:
    """The slope of the loss by the scores (K, T) of one row."""
    batch = Batch.from_rows(trace.readout, trace.alpha, np.array([row]))
    own, _ = batch.predict(batch.alpha[:, None])
    return loss_slope(batch, scores[None], own, Search(epsilon=epsilon, k=K))[0]


@pytest.mark.parametrize("outputs", [1, 2, 4])
@pytest.mark.parametrize("hidden", [None, 6])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.9])
def test_the_slope_by_hand_is_that_of_autograd(outputs: int, hidden: int | None, epsilon: float):
    trace = make_trace(8, (2, 12), outputs, seed=1, hidden=hidden, candidates=outputs > 1)
    model, alpha = padded(trace)
    free = starts(trace).requires_grad_(True)
    (expected,) = torch.autograd.grad(
        adversary_loss(free, model, alpha, epsilon, 500.0).sum(), free
    )
    for row, old in enumerate(trace.alpha):
        slope = slope_of_row(trace, row, free.detach()[row, :, : len(old)].numpy(), epsilon)
        np.testing.assert_allclose(
            slope, expected[row, :, : len(old)].numpy(), atol=1e-8, rtol=1e-8
        )


@pytest.mark.parametrize("added", [600.0, -600.0])
def test_the_slope_is_the_same_where_all_scores_are_larger_by_one_number(added: float):
    trace = make_trace(4, (3, 8), seed=1)
    scores = starts(trace).numpy()
    for row, length in enumerate(trace.alpha.lengths):
        own = scores[row, :, :length]
        expected = slope_of_row(trace, row, own, 0.01)
        np.testing.assert_allclose(slope_of_row(trace, row, own + added, 0.01), expected, atol=1e-9)


@pytest.mark.parametrize(("outputs", "hidden"), [(1, None), (3, None), (1, 4), (3, 4)])
def test_the_steps_are_those_of_torch(outputs: int, hidden: int | None):
    trace = make_trace(5, (2, 10), outputs, seed=2, hidden=hidden)
    search = Search(k=K, steps=25)
    found = search_attentions(
        trace.readout, trace.alpha, row_streams(trace, 0, "adversary"), search
    )
    model, alpha = padded(trace)
    expected = naive_search(model, alpha, starts(trace), steps=25).numpy()
    for row, old in enumerate(trace.alpha):
        mine = found[trace.alpha.offsets[row] :][: len(old)].T
        np.testing.assert_allclose(mine, expected[row, :, : len(old)], atol=1e-7)


def test_exact_is_at_least_relaxed_everywhere():
    trace = make_trace(60, (1, 25), seed=3, zeros=0.1)
    exact, relaxed = Adversary()(trace), Adversary(method="relaxed")(trace)
    assert (exact["emax_jsd"] >= relaxed["emax_jsd"] - 1e-9).all()
    assert relaxed["emax_jsd"].to_numpy().mean() > 0.2
    check_is_allowed(trace, relaxed, 0.01)


def test_exact_is_at_least_the_plain_search_everywhere():
    trace = make_trace(12, (2, 15), seed=4)
    model, alpha = padded(trace)
    plain = accepted_divergence(
        model, alpha, naive_search(model, alpha, starts(trace)), 0.01
    ).numpy()
    assert (Adversary()(trace)["emax_jsd"].to_numpy() >= plain - 1e-9).all()
    assert plain.mean() > 0.2


def test_relaxed_stays_below_its_bound_with_more_classes():
    trace = make_trace(30, (1, 15), 4, seed=5)
    check_is_allowed(trace, Adversary(method="relaxed", epsilon=0.05)(trace), 0.05)


def test_accepting_more_than_is_searched_for_finds_more():
    trace = make_trace(40, (2, 20), seed=6)
    paper, code = (
        Adversary(method="relaxed")(trace),
        Adversary(method="relaxed", accept=0.05)(trace),
    )
    assert (code["emax_jsd"] >= paper["emax_jsd"]).all()
    assert code["delta_y"].to_numpy().max() <= 0.05


def test_no_step_and_nothing_accepted_leave_attention_as_it_is():
    trace = make_trace(20, (2, 20), seed=7)
    table = Adversary(method="relaxed", steps=0, accept=0.0)(trace)
    np.testing.assert_array_equal(np.concatenate(table["alpha"].to_list()), trace.alpha.values)
    assert (table["emax_jsd"] == 0).all()


def test_another_seed_is_another_search():
    trace = make_trace(20, (5, 20), seed=8)
    one, other = (
        Adversary(method="relaxed", steps=20, seed=1)(trace),
        Adversary(method="relaxed", steps=20, seed=2)(trace),
    )
    assert not one["alpha"].equals(other["alpha"])


def test_for_two_classes_the_bound_of_the_search_is_the_exact_maximum() -> None:
    trace = make_trace(40, (3, 15), seed=5)
    exact = Adversary()(trace)["emax_jsd"].to_numpy()
    searched = Adversary(method="relaxed", steps=50)(trace)
    np.testing.assert_allclose(searched["emax_jsd_upper"].to_numpy(), exact, atol=1e-9)
    wider = Adversary(method="relaxed", steps=50, accept=0.05)(trace)["emax_jsd_upper"].to_numpy()
    np.testing.assert_allclose(
        wider, Adversary(epsilon=0.05)(trace)["emax_jsd"].to_numpy(), atol=1e-9
    )

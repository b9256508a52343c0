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
from tests.oracles.relaxed_adversary import adversary_loss, naive_search, padded
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


@pytest.mark.parametrize("outputs", [1, 2, 4])
@pytest.mark.parametrize("hidden", [None, 6])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.9])
def test_the_slope_by_hand_is_that_of_autograd(outputs: int, hidden: int | None, epsilon: float):
    """Also where all scores are larger or smaller by one number."""
    trace = make_trace(8, (2, 12), outputs, seed=1, hidden=hidden, candidates=outputs > 1)
    model, alpha = padded(trace)
    free = starts(trace).requires_grad_(True)
    loss = adversary_loss(free, model, alpha, epsilon, 500.0).sum()
    (expected,) = torch.autograd.grad(loss, free)
    for row, old in enumerate(trace.alpha):
        scores = free.detach()[row, :, : len(old)].numpy()
        batch = Batch.from_rows(trace.readout, trace.alpha, np.array([row]))
        for added in (0.0, 600.0, -600.0):
            slope = loss_slope(batch, scores[None] + added, epsilon)[0]
            known = expected[row, :, : len(old)].numpy()
            np.testing.assert_allclose(slope, known, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize(("outputs", "hidden"), [(1, None), (3, None), (1, 4), (3, 4)])
def test_the_steps_are_those_of_torch(outputs: int, hidden: int | None):
    trace = make_trace(5, (2, 10), outputs, seed=2, hidden=hidden)
    streams, search = row_streams(trace, 0, "adversary"), Search(k=K, steps=25)
    found = search_attentions(trace.readout, trace.alpha, streams, search)
    expected = naive_search(*padded(trace), starts(trace), steps=25).numpy()
    for row, old in enumerate(trace.alpha):
        mine = found[trace.alpha.offsets[row] :][: len(old)].T
        np.testing.assert_allclose(mine, expected[row, :, : len(old)], atol=1e-7)


def test_exact_is_at_least_relaxed_everywhere_and_its_bound_for_two_classes():
    trace = make_trace(40, (1, 20), seed=3, zeros=0.1)
    exact, relaxed = Adversary()(trace)["emax_jsd"], Adversary(method="relaxed")(trace)
    assert (exact >= relaxed["emax_jsd"] - 1e-9).all()
    assert relaxed["emax_jsd"].to_numpy().mean() > 0.2
    check_is_allowed(trace, relaxed, 0.01)
    np.testing.assert_allclose(relaxed["emax_jsd_upper"], exact, atol=1e-9)


def test_accepting_more_than_is_searched_for_finds_more():
    trace = make_trace(30, (2, 20), seed=6)
    paper, code = (
        Adversary(method="relaxed", steps=200, accept=accept)(trace) for accept in (None, 0.05)
    )
    assert (code["emax_jsd"] >= paper["emax_jsd"]).all()
    assert (code["emax_jsd"] > paper["emax_jsd"]).any()
    assert code["delta_y"].to_numpy().max() <= 0.05
    bound = Adversary(epsilon=0.05)(trace)["emax_jsd"]
    np.testing.assert_allclose(code["emax_jsd_upper"], bound, atol=1e-9)

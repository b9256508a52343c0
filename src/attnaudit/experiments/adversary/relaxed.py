"""The relaxed adversary of Jain & Wallace 2019, Algorithm 3: gradient search for k attentions.

It minimises −Σ_i JSD(α⁽ⁱ⁾, â) − 1/(k(k−1)) Σ_{i<j} JSD(α⁽ⁱ⁾, α⁽ʲ⁾)
+ λ/k Σ_i max(0, TVD(ŷ⁽ⁱ⁾, ŷ) − ε) over α⁽ⁱ⁾ = softmax(u⁽ⁱ⁾). Rows of one length are searched
together, so that nothing is padded and no row depends on its company.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int64, UInt64
from scipy.special import softmax

from attnaudit.core.ragged import Ragged
from attnaudit.core.random import normal
from attnaudit.experiments.through_tail import predict_several
from attnaudit.stats.measures import tvd
from attnaudit.trace.readout import Readout
from attnaudit.trace.tails import TanhTail

Scores = Float[np.ndarray, "n k T"]

NUMBERS = 1 << 18  # weights and contributions searched together: more would leave the cache
LEAST = 1e-300  # in place of a weight of 0, before its logarithm is taken
RATE, PENALTY = 0.01, 500.0  # of Adam, and λ, in the paper


class Search(NamedTuple):
    """Settings of the search; the paper's values are the defaults."""

    epsilon: float = 0.01
    k: int = 5
    steps: int = 500


class Batch(NamedTuple):
    """Rows of one length T.

    Attributes:
        alpha: The model's own attention.
        contribution: What each position contributes.
        readout: Readout of these rows.
    """

    alpha: Float[np.ndarray, "n T"]
    contribution: Float[np.ndarray, "n T P"]
    readout: Readout

    @classmethod
    def from_rows(cls, readout: Readout, alpha: Ragged, rows: Int64[np.ndarray, " n"]) -> Batch:
        """Take rows of one length out of a trace."""
        part, own = readout.take(rows), alpha.take(rows).values.astype(np.float64)
        contribution = part.contribution.values.reshape(len(rows), -1, part.offset.shape[1])
        return cls(own.reshape(len(rows), -1), contribution, part)


def search_attentions(
    readout: Readout, alpha: Ragged, streams: UInt64[np.ndarray, " n"], search: Search
) -> Float[np.ndarray, "N k"]:
    """Return the k attentions of every row that the search ends with; some may be beyond ε.

    Args:
        readout: Readout of all rows; its tail is a formula.
        alpha: The model's own attention.
        streams: Random numbers of each row.
        search: Settings.
    """
    ends = np.empty((len(alpha.values), search.k))
    numbers = readout.contribution.values.shape[1] + 4 * search.k
    for length in np.unique(alpha.lengths).tolist():
        every = np.flatnonzero(alpha.lengths == length)
        for rows in np.array_split(every, -(-len(every) * length * numbers // NUMBERS)):
            batch = Batch.from_rows(readout, alpha, rows)
            found = _descend(batch, starting_scores(streams[rows], search.k, length), search)
            ends[alpha.positions(rows)] = found.transpose(0, 2, 1).reshape(-1, search.k)
    return ends


def starting_scores(streams: UInt64[np.ndarray, " n"], k: int, length: int) -> Scores:
    """Draw where the search starts: log-uniform attention, and 3 · N(0, 1) in every score."""
    counters = np.arange(k * length).reshape(k, length)
    return 3.0 * normal(streams[:, None, None], counters) - np.log(length)


def loss_slope(batch: Batch, scores: Scores, epsilon: float) -> Scores:
    """Return ∂loss/∂scores.

    ∂JSD(p, q)/∂p = ½ ln(2p/(p+q)), and through a softmax g becomes p (g − Σ p g).
    """
    weights, readout = softmax(scores, axis=2), batch.readout
    k, safe = weights.shape[1], np.maximum(weights, LEAST)
    slope = -0.5 * np.log(2.0 * safe / (safe + batch.alpha[:, None]))
    for i in range(k if k > 1 else 0):
        # Of itself the logarithm is 0.
        among = 0.5 * np.log(2.0 * safe / (safe + weights[:, i : i + 1]))
        slope -= among / (k * (k - 1.0))
    sums, rows = weights @ batch.contribution, np.arange(len(weights))
    own = predict_several(readout, batch.alpha[:, None] @ batch.contribution, rows)
    prediction = predict_several(readout, sums, rows)
    sign = np.sign(prediction - own)
    if readout.activation == "sigmoid":
        pull = sign * prediction * (1.0 - prediction)
    else:
        mean = (0.5 * sign * prediction).sum(axis=2, keepdims=True)
        pull = prediction * (0.5 * sign - mean)
    if isinstance(readout.tail, TanhTail):
        pooled = readout.offset[:, None] + sums
        pull = (pull @ readout.tail.weight) * (1.0 - np.tanh(pooled) ** 2)
    distance = tvd(prediction, np.broadcast_to(own, prediction.shape))
    pull = np.where((distance > epsilon)[:, :, None], PENALTY / k * pull, 0.0)
    slope += pull @ batch.contribution.transpose(0, 2, 1)
    return weights * (slope - (weights * slope).sum(axis=2, keepdims=True))


def _descend(batch: Batch, scores: np.ndarray, search: Search) -> Scores:
    """Return the attentions that Adam with AMSGrad (Reddi et al. 2018) ends with."""
    mean, square, largest = (np.zeros_like(scores) for _ in range(3))
    for step in range(1, search.steps + 1):
        slope = loss_slope(batch, scores, search.epsilon)
        mean += 0.1 * (slope - mean)
        square += 0.001 * (slope**2 - square)
        np.maximum(largest, square, out=largest)
        rate = RATE / (1.0 - 0.9**step)
        scores = scores - rate * mean / (np.sqrt(largest / (1.0 - 0.999**step)) + 1e-8)
    return softmax(scores, axis=2)

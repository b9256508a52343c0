"""The relaxed adversary of Jain & Wallace 2019, Algorithm 3: gradient search for k attentions.

It minimises −Σ_i JSD(α⁽ⁱ⁾, â) − 1/(k(k−1)) Σ_{i<j} JSD(α⁽ⁱ⁾, α⁽ʲ⁾)
+ λ/k Σ_i max(0, TVD(ŷ⁽ⁱ⁾, ŷ) − ε) over α⁽ⁱ⁾ = softmax(u⁽ⁱ⁾). Rows of one length are searched
together, so that nothing is padded and no row depends on its company.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64, UInt64
from scipy.special import softmax

from attnaudit.core.ragged import Ragged
from attnaudit.core.random import normal
from attnaudit.stats.measures import tvd
from attnaudit.trace.readout import Readout
from attnaudit.trace.tails import IdentityTail, TanhTail

NUMBERS = 1 << 18  # weights and contributions searched together: more would leave the cache
LEAST = 1e-300  # in place of a weight of 0, before its logarithm is taken


@dataclass(frozen=True)
class Search:
    """Settings of the search; the paper's values are the defaults."""

    epsilon: float = 0.01
    k: int = 5
    steps: int = 500
    learning_rate: float = 0.01
    penalty: float = 500.0


@dataclass(frozen=True)
class Batch:
    """Rows of one length T.

    Attributes:
        alpha: The model's own attention, ``(n, T)``.
        contribution: What each position contributes, ``(n, T, P)``.
        readout: Readout of these rows.
    """

    alpha: Float[np.ndarray, "n T"]
    contribution: Float[np.ndarray, "n T P"]
    readout: Readout

    @classmethod
    def from_rows(cls, readout: Readout, alpha: Ragged, rows: Int64[np.ndarray, " n"]) -> Batch:
        """Take rows of one length out of a trace."""
        part = readout.take(rows)
        length = int(alpha.lengths[rows[0]])
        own = alpha.take(rows).values.reshape(len(rows), length).astype(np.float64)
        return cls(own, part.contribution.values.reshape(len(rows), length, -1), part)

    def predict(self, weights: Float[np.ndarray, "n k T"]) -> tuple[np.ndarray, np.ndarray]:
        """Return the predictions ``(n, k, C)`` and what goes into the tail, ``(n, k, P)``."""
        sums = weights @ self.contribution
        n, k, width = sums.shape
        rows = np.repeat(np.arange(n), k)
        prediction = self.readout.of_sums(sums.reshape(n * k, width), rows)
        return prediction.reshape(n, k, -1), self.readout.offset[:, None] + sums

    def pull_back(self, slopes: Float[np.ndarray, "n k C"], pooled: np.ndarray) -> np.ndarray:
        """Return the slopes by the attended sum, ``(n, k, P)``, of slopes by the logits."""
        if isinstance(self.readout.tail, IdentityTail):
            return slopes
        assert isinstance(self.readout.tail, TanhTail)
        return (slopes @ self.readout.tail.weight) * (1.0 - np.tanh(pooled) ** 2)


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
    for rows in _batches(alpha, readout.contribution.values.shape[1] + 4 * search.k):
        batch = Batch.from_rows(readout, alpha, rows)
        scores = starting_scores(streams[rows], search.k, batch.alpha.shape[1])
        found = _descend(batch, scores, search)
        ends[alpha.positions(rows)] = found.transpose(0, 2, 1).reshape(-1, search.k)
    return ends


def starting_scores(
    streams: UInt64[np.ndarray, " n"], k: int, length: int
) -> Float[np.ndarray, "n k T"]:
    """Draw where the search starts: log-uniform attention, and 3 · N(0, 1) in every score."""
    counters = np.arange(k * length).reshape(k, length)
    return 3.0 * normal(streams[:, None, None], counters) - np.log(length)


def loss_slope(
    batch: Batch, scores: Float[np.ndarray, "n k T"], own: np.ndarray, search: Search
) -> Float[np.ndarray, "n k T"]:
    """Return ∂loss/∂scores; ``own`` are the model's own predictions, ``(n, 1, C)``.

    ∂JSD(p, q)/∂p = ½ ln(2p/(p+q)), and through a softmax g becomes p (g − Σ p g).
    """
    weights = softmax(scores, axis=2)
    k = weights.shape[1]
    safe = np.maximum(weights, LEAST)
    slope = -0.5 * np.log(2.0 * safe / (safe + batch.alpha[:, None]))
    for i in range(k if k > 1 else 0):
        # Of itself the logarithm is 0.
        among = 0.5 * np.log(2.0 * safe / (safe + weights[:, i : i + 1]))
        slope -= among / (k * (k - 1.0))
    prediction, pooled = batch.predict(weights)
    sign = np.sign(prediction - own)
    if batch.readout.activation == "sigmoid":
        by_logit = sign * prediction * (1.0 - prediction)
    else:
        mean = (0.5 * sign * prediction).sum(axis=2, keepdims=True)
        by_logit = prediction * (0.5 * sign - mean)
    distance = tvd(prediction, np.broadcast_to(own, prediction.shape))
    outside = (distance > search.epsilon)[:, :, None]
    pull = batch.pull_back(by_logit, pooled) @ batch.contribution.transpose(0, 2, 1)
    slope += np.where(outside, search.penalty / k * pull, 0.0)
    return weights * (slope - (weights * slope).sum(axis=2, keepdims=True))


def _descend(batch: Batch, scores: np.ndarray, search: Search) -> Float[np.ndarray, "n k T"]:
    """Return the attentions that Adam with AMSGrad (Reddi et al. 2018) ends with."""
    own, _ = batch.predict(batch.alpha[:, None])
    mean, square, largest = (np.zeros_like(scores) for _ in range(3))
    for step in range(1, search.steps + 1):
        slope = loss_slope(batch, scores, own, search)
        mean += 0.1 * (slope - mean)
        square += 0.001 * (slope**2 - square)
        np.maximum(largest, square, out=largest)
        rate = search.learning_rate / (1.0 - 0.9**step)
        scores = scores - rate * mean / (np.sqrt(largest / (1.0 - 0.999**step)) + 1e-8)
    return softmax(scores, axis=2)


def _batches(alpha: Ragged, numbers: int) -> Iterator[Int64[np.ndarray, " n"]]:
    """Yield rows of one length, as many as have `NUMBERS` numbers, ``numbers`` a position."""
    for length in np.unique(alpha.lengths):
        rows = np.flatnonzero(alpha.lengths == length)
        count = max(NUMBERS // max(int(length) * numbers, 1), 1)
        yield from (rows[start : start + count] for start in range(0, len(rows), count))

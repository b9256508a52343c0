"""Outputs of many rows under alternative attention, computed in few calls of the tail.

A call of a tail costs far more than one row in it. So callers collect the alternatives of many
rows, and memory limits the size of a call. The last digits of a float32 network may change with the
batch. Decisions and limits leave that much room (`Tolerance.network`), so results do not depend on
batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.core.shapes import Indices, PerClass, PerRow, RowInts, RowMask
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.stats.measures import Activation, predicted_class, tvd, two_classes
from attnaudit.trace import IdentityTail, LinearTail, Readout, TanhTail

# Contributions and outputs of one call: 32 MiB.
NUMBERS = 1 << 22
# The same of a formula: they stay in the cache, and no memory is mapped anew.
OF_FORMULA = 1 << 16

Measure = Callable[[PerClass, Indices], np.ndarray]


def has_compiled_tail(readout: Readout) -> bool:
    """Return whether the tail is a formula of this package; all other tails are networks."""
    return isinstance(readout.tail, IdentityTail | TanhTail)


def output_layer(
    tail: LinearTail, activation: Activation
) -> tuple[Float[np.ndarray, "C P"], Float[np.ndarray, " C"]]:
    """Return weight and bias of two or more classes; a sigmoid output has a first with logit 0."""
    # Bounds must hold to the rounding of float64, whatever the dtype of the model.
    weight, bias = (np.asarray(part, np.float64) for part in (tail.weight, tail.bias))
    if activation == "sigmoid":
        # A softmax over logits 0 and x gives class 1 the probability sigmoid(x).
        weight, bias = np.vstack([np.zeros_like(weight), weight]), np.append(0.0, bias)
    return weight, bias


@dataclass(frozen=True)
class Outputs:
    """Outputs of n rows under the model's own attention, to compare alternatives with.

    Attributes:
        readout: Readout of the rows.
        alpha: The model's own attention.
        own: Predictions under it, ``(n, C)``.
        decided: Predicted class, ``(n,)``.
    """

    readout: Readout
    alpha: Ragged
    own: PerClass
    decided: RowInts

    @classmethod
    def of(cls, readout: Readout, alpha: Ragged) -> Outputs:
        """Compute the outputs of all rows under ``alpha``."""
        positions = max(NUMBERS // readout.offset.shape[1], 1)
        own = np.concatenate(
            [readout.take(rows)(alpha.take(rows)) for rows in alpha.blocks(positions)]
        )
        return cls(readout, alpha, own, predicted_class(own))

    def take(self, rows: Indices) -> Outputs:
        """Select rows."""
        return Outputs(
            self.readout.take(rows), self.alpha.take(rows), self.own[rows], self.decided[rows]
        )

    def under_few(
        self,
        rows: Indices,
        tokens: Int64[np.ndarray, "m k"],
        weights: Float[np.ndarray, "m k"],
        measure: Measure,
    ) -> np.ndarray:
        """Measure the predictions under attention to at most k tokens.

        Args:
            rows: Row of each of m alternatives; rows may repeat.
            tokens: Positions in the row that are attended to.
            weights: Their weights.
            measure: Maps predictions ``(b, C)`` and their rows ``(b,)`` to the values to keep.
        """
        # Only k contributions are read per alternative, so the cost does not grow with T.
        starts = self.readout.contribution.offsets[rows, None]

        def sums(chosen):
            contribution = self.readout.contribution.values[starts[chosen] + tokens[chosen]]
            return (weights[chosen, :, None] * contribution).sum(axis=1)

        return self.under_sums(rows, sums, measure, tokens.shape[1])

    def under_sums(
        self,
        rows: Indices,
        sums: Callable[[slice], Float[np.ndarray, "b P"]],
        measure: Measure,
        terms: int = 1,
    ) -> np.ndarray:
        """Measure the predictions under m attended sums.

        Only the sums and predictions of one call are in memory at a time.

        Args:
            rows: Row of each sum; rows may repeat.
            sums: Maps a slice of the alternatives to their attended sums.
            measure: Maps predictions ``(b, C)`` and their rows ``(b,)`` to the values to keep.
            terms: Number of contributions that a sum reads, for the memory of a call.
        """
        numbers = (terms + 1) * self.readout.offset.shape[1] + self.own.shape[1]
        # The measure of no rows gives an empty result the right shape and dtype.
        parts = [measure(self.own[:0], rows[:0])]
        most = OF_FORMULA if has_compiled_tail(self.readout) else NUMBERS
        per_call = max(most // numbers, 1)
        for first in range(0, len(rows), per_call):
            chosen = slice(first, first + per_call)
            parts.append(measure(self.readout.of_sums(sums(chosen), rows[chosen]), rows[chosen]))
        return np.concatenate(parts)

    def distance(self, prediction: PerClass, rows: Indices) -> PerRow:
        """Return the TVD from the output under the model's own attention."""
        return tvd(prediction, self.own.T.take(rows, axis=1).T)

    def lead(self, prediction: PerClass, rows: Indices) -> PerRow:
        """Return the probability of the predicted class minus that of its likeliest rival."""
        both = two_classes(prediction)
        at = np.arange(len(rows)), self.decided[rows]
        rivals = both.copy()
        rivals[at] = -np.inf
        return both[at] - rivals.max(axis=1, initial=-1.0)

    def flips(self, prediction: PerClass, rows: Indices) -> RowMask:
        """Return whether the prediction is another class than under the model's own attention."""
        # The lead is a difference of two probabilities, each with its noise.
        return self.lead(prediction, rows) < -2 * TOLERANCE.network

    def probability(self, prediction: PerClass, rows: Indices) -> PerRow:
        """Return the probability of the class predicted under the model's own attention."""
        return two_classes(prediction)[np.arange(len(rows)), self.decided[rows]]


def predict_several(
    readout: Readout, sums: Float[np.ndarray, "n k P"], rows: RowInts
) -> Float[np.ndarray, "n k C"]:
    """Return the predictions of rows with k attended sums each."""
    n, k, width = sums.shape
    return readout.of_sums(sums.reshape(-1, width), np.repeat(rows, k)).reshape(n, k, -1)


def few_tokens(
    lengths: Indices,
    tokens: Int64[np.ndarray, "m k"],
    weights: Float[np.ndarray, "m k"],
) -> Ragged:
    """Build attention to at most k tokens.

    Args:
        lengths: Number of tokens of each alternative's row.
        tokens: Positions that are attended to.
        weights: Their weights; those of a repeated position add up.
    """
    made = Ragged.from_lengths(np.zeros(lengths.sum()), lengths)
    # Plain indexing with += would count a repeated position once.
    np.add.at(made.values, made.offsets[:-1, None] + tokens, weights)
    return made


def attended_sums(readout: Readout, rows: Indices, attention: Ragged) -> Float[np.ndarray, "b P"]:
    """Compute ``Σ_t attention_t · contribution_t``.

    Args:
        readout: Readout with the contributions.
        rows: Row of each attention; rows may repeat.
        attention: The alternatives, one per entry of ``rows``.
    """
    contribution = readout.contribution
    sums = np.empty((len(rows), contribution.values.shape[1]))
    ends = np.append(np.flatnonzero(np.diff(rows)) + 1, len(rows)) if len(rows) else []
    start = 0
    for end in map(int, ends):
        # Alternatives of one row share its contributions, which are not copied for each.
        weights = attention.values[attention.offsets[start] : attention.offsets[end]]
        # Unlike a matrix product, einsum adds in the same order for any number of alternatives.
        sums[start:end] = np.einsum(
            "kt,tp->kp", weights.reshape(end - start, -1), contribution[rows[start]]
        )
        start = end
    return sums

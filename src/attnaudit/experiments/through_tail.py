"""Outputs under other attention for a tail that no kernel computes, such as a stored network: many rows at once, in few calls.

A call costs far more than a row of it, so that callers collect the alternatives of many rows, and memory bounds each call. A prediction
may differ in its last digits with the batch that it is computed in. Decisions and limits leave that much room (`NOISE`), so that results do
not depend on batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from attnaudit.core.kernels import for_kernel, kernel, over_rows
from attnaudit.core.ragged import Ragged
from attnaudit.stats.measures import predicted_class, tvd
from attnaudit.trace import Trace
from attnaudit.trace.readout import IdentityTail, Readout, TanhTail

NUMBERS = 1 << 22  # contributions and outputs of one call
BLOCK = 1 << 14  # positions of the rows whose alternatives are considered together
NOISE = (
    2e-6  # of a probability: what a float32 network gives for the same attention in another batch
)


def has_compiled_tail(readout: Readout) -> bool:
    """Whether kernels compute the tail; all other tails are called."""
    return isinstance(readout.tail, IdentityTail | TanhTail)


def through_network(trace: Trace) -> str | None:
    """Why what needs a compiled tail does not apply to a trace; None where it does. Also of a trace that was read without its tail."""
    if has_compiled_tail(trace.readout) and trace.metadata["tail"] in ("identity", "tanh_mlp"):
        return None
    return "does not apply: the attended sum goes through the rest of the model before the output"


@dataclass(frozen=True)
class Outputs:
    """The outputs of ``readout`` compared with those under the model's own attention ``alpha``: ``own`` (n, C), ``decided`` (n,)."""

    readout: Readout
    alpha: Ragged
    own: Float[np.ndarray, "n C"]
    decided: Int64[np.ndarray, " n"]

    @classmethod
    def of(cls, readout: Readout, alpha: Ragged) -> Outputs:
        calls = _calls(readout, alpha.lengths, outputs=1)
        if readout.by_head is None:
            own = np.concatenate([readout.take(rows)(alpha.take(rows)) for rows in calls])
        else:  # in the way in which all others are computed
            own = np.concatenate([_predicted(readout, rows, alpha.take(rows)) for rows in calls])
        return cls(readout, alpha, own, predicted_class(own))

    def take(self, rows: Int64[np.ndarray, " m"]) -> Outputs:
        """Those of the chosen rows."""
        return Outputs(
            self.readout.take(rows), self.alpha.take(rows), self.own[rows], self.decided[rows]
        )

    def under(
        self,
        rows: Int64[np.ndarray, " m"],
        attention: Callable[[Int64[np.ndarray, " b"]], Ragged],
        measure: Callable[[Float[np.ndarray, "b C"], Int64[np.ndarray, " b"]], np.ndarray],
    ) -> np.ndarray:
        """``measure(predictions, rows)`` under m alternatives, of the rows ``rows``, which may repeat.

        ``attention(chosen)`` makes the chosen of the m alternatives, and is asked for as many as memory allows, so that never all of them,
        nor all of their predictions, are held.
        """
        parts = [
            measure(_predicted(self.readout, rows[chosen], attention(chosen)), rows[chosen])
            for chosen in _calls(self.readout, self.alpha.lengths[rows], self.own.shape[1])
        ]
        return np.concatenate([measure(self.own[:0], rows[:0]), *parts])

    def under_few(
        self,
        rows: Int64[np.ndarray, " m"],
        tokens: Int64[np.ndarray, "m k"],
        weights: Float[np.ndarray, "m k"],
        measure: Callable[[Float[np.ndarray, "b C"], Int64[np.ndarray, " b"]], np.ndarray],
    ) -> np.ndarray:
        """`under` attention of which k tokens at most have any. A compiled tail takes what these contribute, and no other token is read."""
        if not has_compiled_tail(self.readout):
            lengths = self.alpha.lengths[rows]
            return self.under(
                rows,
                lambda chosen: few_tokens(lengths[chosen], tokens[chosen], weights[chosen]),
                measure,
            )
        readout, start = self.readout, self.alpha.offsets[rows]
        numbers = tokens.shape[1] * readout.offset.shape[1] + self.own.shape[1]
        pieces = Ragged.from_lengths(np.zeros(0), np.full(len(rows), numbers)).blocks(NUMBERS)
        parts = [measure(self.own[:0], rows[:0])]
        for one in pieces:
            contribution = readout.contribution.values[start[one, None] + tokens[one]]
            sums = (weights[one, :, None] * contribution).sum(axis=1)
            parts.append(measure(readout.of_sums(sums, rows[one]), rows[one]))
        return np.concatenate(parts)

    def distance(
        self, prediction: Float[np.ndarray, "b C"], rows: Int64[np.ndarray, " b"]
    ) -> Float[np.ndarray, " b"]:
        """TVD from the output under the model's own attention."""
        return tvd(prediction, self.own[rows])

    def lead(
        self, prediction: Float[np.ndarray, "b C"], rows: Int64[np.ndarray, " b"]
    ) -> Float[np.ndarray, " b"]:
        """Probability of the class decided for minus that of the likeliest other; another one is decided for where this is below 0."""
        both = two_classes(prediction)
        at = np.arange(len(rows)), self.decided[rows]
        rivals = both.copy()
        rivals[at] = -np.inf
        return both[at] - rivals.max(axis=1, initial=-1.0)

    def flips(
        self, prediction: Float[np.ndarray, "b C"], rows: Int64[np.ndarray, " b"]
    ) -> np.ndarray:
        """Whether another class is decided for."""
        return is_flip(self.lead(prediction, rows))

    def probability(
        self, prediction: Float[np.ndarray, "b C"], rows: Int64[np.ndarray, " b"]
    ) -> Float[np.ndarray, " b"]:
        """Probability of the class decided for."""
        return two_classes(prediction)[np.arange(len(rows)), self.decided[rows]]


def is_flip(lead: np.ndarray) -> np.ndarray:
    """Whether a lead of the class decided for is lost, by more than `NOISE` in both probabilities."""
    return lead < -2 * NOISE


def row_blocks(alpha: Ragged) -> Iterator[Int64[np.ndarray, " b"]]:
    """The rows in runs whose alternatives are considered together."""
    return alpha.blocks(BLOCK)


def two_classes(prediction: Float[np.ndarray, "b C"]) -> np.ndarray:
    """The prediction with a column for every class: one sigmoid output stands for two."""
    return np.hstack([1.0 - prediction, prediction]) if prediction.shape[1] == 1 else prediction


def few_tokens(
    lengths: Int64[np.ndarray, " m"],
    tokens: Int64[np.ndarray, "m k"],
    weights: Float[np.ndarray, "m k"],
) -> Ragged:
    """Attention of which k tokens at most have any; where a token is named twice it has both weights."""
    made = Ragged.from_lengths(np.zeros(lengths.sum()), lengths)
    np.add.at(made.values, made.offsets[:-1, None] + tokens, weights)
    return made


def _predicted(
    readout: Readout, rows: Int64[np.ndarray, " b"], attention: Ragged
) -> Float[np.ndarray, "b C"]:
    """What ``readout.take(rows)(attention)`` is, without a copy of what the positions contribute."""
    contribution = readout.contribution
    sums, places = np.empty((len(rows), contribution.values.shape[1])), contribution.offsets[rows]
    over_rows(
        _sum_rows,
        len(rows),
        attention.values,
        attention.offsets,
        for_kernel(contribution.values),
        places,
        sums,
    )
    return readout.of_sums(sums, rows)


def _calls(
    readout: Readout, lengths: Int64[np.ndarray, " m"], outputs: int
) -> list[Int64[np.ndarray, " b"]]:
    """The alternatives cut into calls of about `NUMBERS` numbers."""
    positions, width = int(lengths.sum()), readout.contribution.values.shape[1]
    total = (
        positions * width + len(lengths) * outputs
        if readout.by_head is None
        else positions + len(lengths) * (width + outputs)
    )
    per_call = max(NUMBERS * positions // max(total, 1), 1)
    return list(Ragged.from_lengths(np.zeros(0), lengths).blocks(per_call))


@kernel
def _sum_rows(first, last, weights, offsets, contribution, places, sums):
    """``Σ_t weights_t · contribution_t`` of every row; ``places`` are the rows' first positions."""
    for i in range(first, last):
        sums[i] = 0.0
        for t in range(offsets[i + 1] - offsets[i]):
            weight = weights[offsets[i] + t]
            if weight != 0.0:
                for k in range(sums.shape[1]):
                    sums[i, k] += weight * contribution[places[i] + t, k]

"""What the model predicts when the attention of several rows, all heads of a query, is replaced at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.stats.measures import activate
from attnaudit.trace.readout import LayersTail, Readout


@dataclass(frozen=True)
class JointReadout:
    """Groups of rows whose attention acts on one prediction; ``groups`` has the numbers of the rows of each.

    What a row contributes is its attended sum ``Σ_t alpha_t · contribution_t``. The prediction of a group follows from the offset of its
    first row, which holds what the model's own attention gives in the other rows, with the sums of all rows replaced.
    """

    readout: Readout
    alpha: Ragged
    groups: Ragged

    def sums(self, alpha: Ragged) -> Float[np.ndarray, "n P"]:
        """The attended sum of every row under ``alpha``."""
        return alpha.with_values(alpha.values[:, None] * self.readout.contribution.values).sum()

    @cached_property
    def own(self) -> Float[np.ndarray, "n P"]:
        """The sums under the model's own attention."""
        return self.sums(self.alpha)

    def predict(
        self, chosen: Int64[np.ndarray, " m"], sums: Float[np.ndarray, "M P"]
    ) -> Float[np.ndarray, "m C"]:
        """Predictions of the groups ``chosen``, which may repeat; ``sums`` are those of all their rows, one group after another."""
        readout, rows = self.readout, self.groups.take(chosen)
        if readout.rows is not None:
            logits = readout.tail.together(sums, rows.with_values(readout.rows[rows.values]))
        else:
            logits = readout.tail(self._pooled(rows.values[rows.offsets[:-1]], rows, sums))
        return self._activated(logits, rows)

    def predict_from_attention(
        self, chosen: Int64[np.ndarray, " m"], alpha: Ragged
    ) -> Float[np.ndarray, "m C"]:
        """Predictions of the groups ``chosen``, which may repeat; ``alpha`` are the weights of all their rows, one group after another.

        Values of upper layers are those that follow from it where a model is at hand, else those of the trace.
        """
        readout, rows = self.readout, self.groups.take(chosen)
        if readout.rows is None:
            contribution = readout.contribution.take(rows.values)
            return self.predict(
                chosen, alpha.with_values(alpha.values[:, None] * contribution.values).sum()
            )
        assert isinstance(readout.tail, LayersTail)  # a network of one layer has no rows of others
        return self._activated(
            readout.tail.logits_from_attention(alpha, rows.with_values(readout.rows[rows.values])),
            rows,
        )

    def _activated(
        self, logits: Float[np.ndarray, "m C"], rows: Ragged
    ) -> Float[np.ndarray, "m C"]:
        candidates = self.readout.candidates
        return activate(
            logits,
            self.readout.activation,
            None if candidates is None else candidates[rows.values[rows.offsets[:-1]]],
        )

    def _pooled(
        self, first: Int64[np.ndarray, " m"], rows: Ragged, sums: Float[np.ndarray, "M P"]
    ) -> Float[np.ndarray, "m Q"]:
        readout, columns, change = (
            self.readout,
            np.arange(sums.shape[1]),
            sums - self.own[rows.values],
        )
        pooled = readout.offset[first].copy()
        if readout.start is None:
            pooled += self.own[first] + rows.with_values(change).sum()
            return pooled
        pooled[np.arange(len(first))[:, None], readout.start[first][:, None] + columns] += self.own[
            first
        ]
        pooled[rows.row_of_value[:, None], readout.start[rows.values][:, None] + columns] += (
            change  # each head at a place of its own
        )
        return pooled

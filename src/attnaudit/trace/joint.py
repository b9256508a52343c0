"""The prediction when the attention of several rows, such as all heads, is replaced at once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from attnaudit.core.ragged import Ragged
from attnaudit.stats.measures import activate
from attnaudit.trace.readout import Readout
from attnaudit.trace.tails import JointTail, LayersTail, Outputs, Rows


@dataclass(frozen=True)
class JointReadout:
    """Groups of rows whose attention acts on one prediction.

    A row contributes its attended sum ``Σ_t alpha_t · contribution_t``. The offset of a group's
    first row includes the sums of the other rows under the model's own attention. Replacing the
    sums of all rows in that offset gives the joint prediction.

    Attributes:
        readout: Readout of all rows.
        alpha: The model's own attention.
        groups: Numbers of the rows in each group.
    """

    readout: Readout
    alpha: Ragged
    groups: Ragged

    @cached_property
    def own(self) -> Float[np.ndarray, "n P"]:
        """Attended sums under the model's own attention."""
        return self.readout.weighted_sums(self.alpha)

    def predict(self, chosen: Rows, sums: Float[np.ndarray, "M P"]) -> Outputs:
        """Return the predictions of groups with other attended sums.

        Args:
            chosen: Numbers of groups, which may repeat.
            sums: Sums of all rows of the chosen groups, one group after another.
        """
        readout, rows = self.readout, self.groups.take(chosen)
        # A model at hand replaces the sums within its layers; other tails take one pooled vector.
        if isinstance(readout.tail, JointTail):
            return self._activated(readout.tail.together(sums, self._in_trace(rows)), rows)
        first = rows.values[rows.offsets[:-1]]
        return self._activated(readout.tail(self._pooled(first, rows, sums), first), rows)

    def predict_from_attention(self, chosen: Rows, alpha: Ragged) -> Outputs:
        """Return the predictions of groups with other attention.

        With a model at hand, the values of upper layers are computed from the attention below.
        Otherwise they are the values of the trace.

        Args:
            chosen: Numbers of groups, which may repeat.
            alpha: Weights of all rows of the chosen groups, one group after another.
        """
        readout, rows = self.readout, self.groups.take(chosen)
        if isinstance(readout.tail, LayersTail):
            logits = readout.tail.logits_from_attention(alpha, self._in_trace(rows))
            return self._activated(logits, rows)
        return self.predict(chosen, readout.take(rows.values).weighted_sums(alpha))

    def _in_trace(self, rows: Ragged) -> Ragged:
        return rows.with_values(self.readout.in_trace(rows.values))

    def _activated(self, logits: Outputs, rows: Ragged) -> Outputs:
        candidates = self.readout.candidates
        if candidates is not None:
            candidates = candidates[rows.values[rows.offsets[:-1]]]
        return activate(logits, self.readout.activation, candidates)

    def _pooled(
        self, first: Rows, rows: Ragged, sums: Float[np.ndarray, "M P"]
    ) -> Float[np.ndarray, "m Q"]:
        change, start = sums - self.own[rows.values], self.readout.start
        pooled = self.readout.offset[first].copy()
        # The offset lacks the first row's own sum, and holds the own sums of all others. So the
        # first sum is added, and then the change of every sum.
        if start is None:
            pooled += self.own[first] + rows.with_values(change).sum()
            return pooled
        columns = np.arange(sums.shape[1])
        own_place = start[first][:, None] + columns
        pooled[np.arange(len(first))[:, None], own_place] += self.own[first]
        # `+=` with indices adds once per index; that is enough, as each head has its own columns.
        pooled[rows.row_of_value[:, None], start[rows.values][:, None] + columns] += change
        return pooled

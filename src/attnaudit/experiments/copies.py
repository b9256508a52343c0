"""Copies of texts in which some words are replaced, and the change of the output in each copy."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit

from attnaudit.core.ragged import Ragged
from attnaudit.core.shapes import Indices, PerClass, PerRow, RowInts, RowMask, Values
from attnaudit.experiments.confidence import CONFIDENCE
from attnaudit.trace import IdentityTail, LinearTail, Trace
from attnaudit.trace.schema import flat, lengths_of, ragged_column

LEAST = 1e-45  # smallest float32, in place of a probability of 0, which has no logarithm
CLOSE = 2.0**-53  # smallest distance of a single float64 output from 0 or 1, for the same reason
DIGITS = 5  # of changes; smaller differences are float32 noise

Lost = Bool[np.ndarray, "M T"]
PerCopy = Float[np.ndarray, " M"]


class Copied(NamedTuple):
    """Copies of one text.

    Attributes:
        lost: The positions whose words each copy has replaced.
        fall: Fall of the log-odds of the predicted class.
        change: Change of the output at matched confidence.
        runs: The outputs.
    """

    lost: Lost
    fall: PerCopy
    change: PerCopy
    runs: Float[np.ndarray, "M K"]


@dataclass(frozen=True)
class Copies:
    """The copies of some rows of a trace, row after row.

    Attributes:
        rows: Numbers of the rows.
        tokens: Number of positions of each of them.
        replaced: Positions whose words are replaced, a row for each copy.
        fall: Fall of the log-odds of the predicted class in each copy.
        change: Change of the output at matched confidence.
        runs: The outputs; of many, only that of the predicted class, the most probable other one
            and the rest.
    """

    rows: Indices
    tokens: Indices
    replaced: Ragged
    fall: Ragged
    change: Ragged
    runs: Ragged

    def __iter__(self) -> Iterator[tuple[int, Copied]]:
        """Yield the number of each row, and its copies."""
        ends = self.fall.offsets.tolist()
        for k, row in enumerate(self.rows.tolist()):
            replaced = self.replaced.take(np.arange(ends[k], ends[k + 1]))
            lost = np.zeros((len(replaced), self.tokens[k]), bool)
            lost[replaced.row_of_value, replaced.values] = True
            yield row, Copied(lost, self.fall[k], self.change[k], self.runs[k])

    def where(self, marked: Bool[np.ndarray, " M"]) -> "Copies":
        """Return the rows with only the marked copies."""
        parts = {name: getattr(self, name).where(marked) for name in ("fall", "change", "runs")}
        return replace(self, replaced=self.replaced.take(np.flatnonzero(marked)), **parts)

    def loss(self, score: Ragged) -> Ragged:
        """Return the sum of a score over the positions that each copy loses.

        Args:
            score: The score of every position of the trace.

        Returns:
            The sums, relative to the largest absolute score of the text: leave-one-out of a certain
            prediction may be 1e-15 at every word.
        """
        own = score.take(self.rows)
        relative = own.values / own.spread(_at_least(own.with_values(np.abs(own.values)).max()))
        places = self.replaced.values + self.replaced.spread(self.fall.spread(own.offsets[:-1]))
        return self.fall.with_values(self.replaced.with_values(relative[places]).sum())

    @cached_property
    def number(self) -> Ragged:
        """Ranks of the numbers of replaced words, less their mean."""
        return _centred(self.fall.with_values(self.replaced.lengths).ranks())

    @cached_property
    def changed(self) -> Ragged:
        """Ranks of the changes, less what the number of replaced words explains."""
        return self.given_number(self.change)

    def given_number(self, values: Ragged) -> Ragged:
        """Return ranks of values, less their linear fit to the ranks of the number of words."""
        # Sums of the same words in another order differ by rounding.
        own, line = _centred(values.with_values(np.round(values.values, 12)).ranks()), self.number
        slope = _products(own, line) / np.maximum(_products(line, line), 1.0)
        return own.with_values(own.values - line.values * own.spread(slope))


def copies_of(trace: Trace, rows: RowMask) -> Copies:
    """Return the copies of the marked rows of a trace, which must have some."""
    chosen = np.flatnonzero(rows)
    lists, outputs = (trace.table[name][chosen] for name in ("replaced", "replaced_prediction"))
    runs = Ragged.from_lengths(flat(outputs).to_numpy(), lengths_of(lists))
    own, predicted = trace.prediction, trace.predicted[chosen]
    # A column of float32 rounds a certain prediction to 1, which says nothing of its log-odds.
    if isinstance(trace.tail, IdentityTail | LinearTail) and trace.has("readout"):
        own = trace.readout(trace.alpha)
    lead = log_odds(own[chosen], predicted)
    if runs.values.shape[1] < own.shape[1]:
        leads = log_odds(runs.values[:, :2], np.zeros(len(runs.values), np.int64))
    else:
        leads = log_odds(runs.values, runs.spread(predicted))
    # On the decision boundary no scale gives the text this confidence, and nothing is known.
    to_confidence = np.log(CONFIDENCE / (1.0 - CONFIDENCE))
    scale = np.divide(to_confidence, lead, out=np.zeros_like(lead), where=lead > 0.0)
    change = np.abs(expit(leads * runs.spread(scale)) - CONFIDENCE)
    fall = runs.spread(lead) - leads
    return Copies(
        chosen,
        trace.lengths[chosen],
        ragged_column(flat(lists)),
        runs.with_values(np.round(fall, DIGITS)),
        runs.with_values(np.round(change, DIGITS)),
        runs,
    )


def log_odds(prediction: PerClass, predicted: RowInts) -> PerRow:
    """Return the log-odds of a class of each row against the most probable other class."""
    if prediction.shape[1] == 1:
        positive = np.clip(prediction[:, 0], CLOSE, 1.0 - CLOSE)
        pair = np.where(predicted, (positive, 1.0 - positive), (1.0 - positive, positive))
    else:
        own = np.arange(prediction.shape[1]) == predicted[:, None]
        pair = prediction[own], np.where(own, -np.inf, prediction).max(axis=1)
    ours, other = (np.log(_at_least(one)) for one in pair)
    return ours - other


def partial_spearman(copies: Copies, score: Ragged) -> PerRow:
    """Return the partial rank correlation of lost scores and changes, given the lost words.

    Args:
        copies: Copies of some rows of a trace.
        score: The score of every position of the trace.

    Returns:
        The correlation in each of these rows: NaN if the number of words explains all of the
        change, 0 if it explains all of the loss.
    """
    loss, changed = copies.given_number(copies.loss(score)), copies.changed
    own, other = _products(loss, loss), _products(changed, changed)
    # Sums of ranks are large, and their rounding error is far below 1.
    found = _products(loss, changed) / np.sqrt(
        np.where((own > 1e-3) & (other > 1e-3), own * other, np.inf)
    )
    return np.where(other > 1e-3, found, np.nan)


def _at_least(values: Values) -> Values:
    return np.maximum(values, LEAST)


def _centred(ranks: Ragged) -> Ragged:
    mean = ranks.sum() / np.maximum(ranks.lengths, 1)
    return ranks.with_values(ranks.values - ranks.spread(mean))


def _products(x: Ragged, y: Ragged) -> PerRow:
    return x.with_values(x.values * y.values).sum()

"""Output relevance: what each position says for the gold output, were all attention on it (Snell et al. 2020)."""

from __future__ import annotations

import numpy as np

from attnaudit.core.errors import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.trace import Trace
from attnaudit.trace.readout import IdentityTail

COLUMN = "importance_relevance"


def relevance(trace: Trace) -> Ragged:
    """The output relevance r of every position, float64, same rows as ``alpha``: the larger, the more it speaks for the gold output.

    A column ``importance_relevance`` is taken as it is: for translation, the log-probability of the gold token with all attention on that
    position. Else it is read off the readout W h_t of a linear head: of one sigmoid output times 2y − 1, so that it is for the gold class
    y; of a softmax the column of the gold class. The offset, the same for all positions, is omitted. Raises InputError where neither
    is there, or a row has no label.
    """
    if trace.has(COLUMN):
        column = trace.ragged(COLUMN)
        return column.with_values(column.values.astype(np.float64))
    if not isinstance(trace.tail, IdentityTail):
        raise InputError("relevance", "trace", "a tail between positions and output", f"a linear head, or a column {COLUMN}")
    label = _labels(trace)
    contribution = trace.readout.contribution
    gold = contribution.spread(label)
    if contribution.values.shape[1] == 1:
        return contribution.with_values(contribution.values[:, 0] * (2 * gold - 1))
    if trace.metadata["activation"] == "sigmoid":
        raise InputError("relevance", "trace", "several sigmoid outputs", "one sigmoid output, or a softmax")
    return contribution.with_values(contribution.values[np.arange(len(gold)), gold])


def _labels(trace: Trace) -> np.ndarray:
    if not trace.has("label"):
        raise InputError("relevance", "trace", "no column label", f"gold labels, or a column {COLUMN}")
    label = trace.array("label").astype(np.int64)
    if (label < 0).any():
        raise InputError("relevance", f"instance {trace.instance[int((label < 0).argmax())]}", "no label", "a gold label in every row")
    return label

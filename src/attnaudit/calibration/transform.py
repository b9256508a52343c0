"""Transformations of a trace that keep the model's function and change the shown attention."""

from __future__ import annotations

import numpy as np

from attnaudit.corpora.corpus import keyed
from attnaudit.trace import Trace
from attnaudit.trace.schema import list_column

LEAST = 1e-4  # smallest shown weight, since a readout is divided by it


def permuted(trace: Trace, share: float | None, seed: int) -> Trace:
    """Give rows the attention of other rows of the same length.

    Each readout is divided by the factor of its weight, so that a position contributes what it did:
    prediction and leave-one-out stay those of the same function of the text. It is also that of a
    model whose encoder multiplies state t by ``alpha_t / alpha'_t`` and which attends by
    ``alpha'``. ``gradient``, which holds attention fixed, stays: it is that of this model if the
    factor is taken as constant too. A gradient through the factor, with ``alpha'`` given, would be
    the full gradient of the original.

    Args:
        trace: The trace.
        share: Share of the rows that are changed, if another one has their length; None: all.
        seed: Rows are chosen and passed on by a key of it and their instance.

    Returns:
        The transformed trace, checked.
    """

    def draws(purpose: str, rows: np.ndarray) -> np.ndarray:
        instances = trace.instance[rows].tolist()
        return np.array([keyed(seed, purpose, str(instance)).random() for instance in instances])

    alpha, source = trace.alpha, np.arange(len(trace))
    chosen = np.ones(len(trace), bool) if share is None else draws("permuted", source) < share
    for length in np.unique(alpha.lengths[chosen]).tolist():
        rows = np.flatnonzero(chosen & (alpha.lengths == length))
        order = rows[np.argsort(draws("passed on", rows))]
        source[order] = np.roll(order, 1)
    shown = alpha.take(source)
    moved = shown.spread(source != np.arange(len(trace)))
    values = np.maximum(shown.values, np.where(moved, LEAST, 0.0))
    shown = shown.with_values(values / shown.spread(shown.with_values(values).sum()))
    factor = np.divide(alpha.values, shown.values, out=np.ones_like(values), where=moved)
    readout = trace.ragged("readout")
    columns = {
        # Rows that are not moved keep their bits.
        "alpha": shown.with_values(np.where(moved, shown.values, trace.ragged("alpha").values)),
        "readout": readout.with_values(readout.values * factor[:, None]),
    }
    table = trace.table.with_columns(
        list_column(name, rows.with_values(rows.values.astype(np.float32)))
        for name, rows in columns.items()
    )
    return Trace(table, trace.metadata, trace.tail).checked("transformed trace")

"""Transformations of a trace that change the attention shown and keep the model's function."""

from __future__ import annotations

import numpy as np

from attnaudit.corpora.corpus import keyed
from attnaudit.trace import Trace
from attnaudit.trace.schema import list_column

# Smallest weight shown. Readouts are divided by it, so it bounds their growth.
LEAST = 1e-4


def permuted(trace: Trace, share: float | None, seed: int) -> Trace:
    """Give rows the attention of other rows of the same length.

    Each readout is multiplied by ``alpha_t / alpha'_t``, where ``alpha'`` is the new attention, so
    each position contributes what it did before. Prediction and leave-one-out therefore stay
    valid. The result is the trace of a model whose encoder scales state t by this factor and which
    attends by ``alpha'``. ``gradient``, which holds attention fixed, belongs to this model if the
    factor is held fixed too. A gradient through the factor, with ``alpha'`` given, would be the
    full gradient of the original model.

    Args:
        trace: The trace.
        share: Share of the rows to change; None for all of them. A row whose length no other chosen
            row has keeps its attention.
        seed: Seed of the choice of rows and of their new attention.

    Returns:
        The transformed trace, checked.
    """

    # Draws are keyed by instance, so they do not depend on the other rows or on their order.
    def draws(purpose: str, rows: np.ndarray) -> np.ndarray:
        instances = trace.instance[rows].tolist()
        return np.array([keyed(seed, purpose, str(instance)).random() for instance in instances])

    alpha, source = trace.alpha, np.arange(len(trace))
    chosen = np.ones(len(trace), bool) if share is None else draws("permuted", source) < share
    for length in np.unique(alpha.lengths[chosen]).tolist():
        rows = np.flatnonzero(chosen & (alpha.lengths == length))
        order = rows[np.argsort(draws("passed on", rows))]
        # A shift along a random order gives every row another row's attention, unlike a shuffle,
        # which may leave some rows their own.
        source[order] = np.roll(order, 1)
    shown = alpha.take(source)
    moved = shown.spread(source != np.arange(len(trace)))
    values = np.maximum(shown.values, np.where(moved, LEAST, 0.0))
    shown = shown.with_values(values / shown.spread(shown.with_values(values).sum()))
    factor = np.divide(alpha.values, shown.values, out=np.ones_like(values), where=moved)
    readout = trace.ragged("readout")
    columns = {
        # Rows that keep their attention keep it to the bit.
        "alpha": shown.with_values(np.where(moved, shown.values, trace.ragged("alpha").values)),
        "readout": readout.with_values(readout.values * factor[:, None]),
    }
    table = trace.table.with_columns(
        list_column(name, rows.with_values(rows.values.astype(np.float32)))
        for name, rows in columns.items()
    )
    return Trace(table, trace.metadata, trace.tail).checked("transformed trace")

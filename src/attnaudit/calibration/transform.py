"""Pure transformations of a trace that keep the model's function and change the attention that is shown."""

from __future__ import annotations

import numpy as np

from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import keyed
from attnaudit.trace import Trace
from attnaudit.trace.schema import list_column

LEAST = 1e-4  # of a weight that is shown: a readout is divided by it


def permuted(trace: Trace, share: float | None, seed: int) -> Trace:
    """The trace with the attention of other rows of the same length, in a ``share`` of the rows that have such (None: all).

    Rows are chosen, and passed on, by a key of ``seed`` and their instance. Each readout is divided by what its weight is multiplied by, so
    that a position contributes what it did: prediction and leave-one-out stay those of the same function of the text, which is also that of
    a model whose encoder multiplies state t by ``alpha_t / alpha'_t`` and which attends by ``alpha'``. ``gradient``, which holds attention
    fixed, is left as it was: it is that of this model where the factor is taken as constant too. A gradient through the factor, with
    ``alpha'`` given, would be the full gradient of the original.
    """
    alpha, chosen = trace.alpha, _chosen(trace, 1.0 if share is None else share, seed)
    source = np.arange(len(trace))
    for length in np.unique(alpha.lengths[chosen]).tolist():
        rows = np.flatnonzero(chosen & (alpha.lengths == length))
        order = rows[
            np.argsort(
                [
                    keyed(seed, "passed on", str(one)).random()
                    for one in trace.instance[rows].tolist()
                ]
            )
        ]
        source[order] = np.roll(order, 1)
    shown = Ragged.from_rows([alpha[row] for row in source.tolist()], np.float64)
    moved = shown.spread(source != np.arange(len(trace)))
    values = np.maximum(shown.values, np.where(moved, LEAST, 0.0))
    shown = shown.with_values(values / shown.spread(shown.with_values(values).sum()))
    factor = np.divide(alpha.values, shown.values, out=np.ones_like(values), where=moved)
    readout = trace.ragged("readout")
    columns = {
        "alpha": shown.with_values(np.where(moved, shown.values, trace.ragged("alpha").values)),
        "readout": readout.with_values(readout.values * factor[:, None]),
    }
    return _replaced(trace, columns)


def _chosen(trace: Trace, share: float, seed: int) -> np.ndarray:
    return np.array(
        [keyed(seed, "permuted", str(one)).random() < share for one in trace.instance.tolist()],
        dtype=bool,
    )


def _replaced(trace: Trace, columns: dict[str, Ragged]) -> Trace:
    """The trace with columns in place of its own, checked."""
    new = [
        list_column(name, rows.with_values(rows.values.astype(np.float32)))
        for name, rows in columns.items()
    ]
    table = trace.table.with_columns(new)
    return Trace(table, trace.metadata, trace.tail).checked("transformed trace")

"""Transformations of a trace that change the attention shown and keep the model's function.

Each readout is multiplied by ``alpha_t / alpha'_t``, where ``alpha'`` is the new attention, so each
position contributes what it did before. Prediction and leave-one-out therefore stay valid. The
result is the trace of a model whose encoder scales state t by this factor and which attends by
``alpha'``. ``gradient``, which holds attention fixed, belongs to this model if the factor is held
fixed too. A gradient through the factor, with ``alpha'`` given, would be the full gradient of the
original model.
"""

import numpy as np

from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import keyed
from attnaudit.trace import Trace, list_column

# Smallest weight shown. Readouts are divided by it, so it bounds their growth.
LEAST = 1e-4
# At 0.1, one word of a text has about two thirds of the weight that is drawn.
CONCENTRATION = 0.1


def permuted(trace: Trace, seed: int) -> Trace:
    """Give each row the attention of another row of the same length, if there is one."""
    source = np.arange(len(trace))
    for length in np.unique(trace.alpha.lengths).tolist():
        rows = np.flatnonzero(trace.alpha.lengths == length)
        draws = [one.random() for one in _generators(trace, rows, seed, "passed on")]
        order = rows[np.argsort(draws)]
        # A shift along a random order gives every row another row's attention, unlike a shuffle,
        # which may leave some rows their own.
        source[order] = np.roll(order, 1)
    return reweighted(trace, trace.alpha.take(source), source != np.arange(len(trace)))


def shifted(trace: Trace, seed: int) -> Trace:
    """Give each position the attention of the position before it, the first that of the last."""
    return reweighted(trace, Ragged.from_rows([np.roll(row, 1) for row in trace.alpha], np.float64))


def drawn(trace: Trace, seed: int) -> Trace:
    """Draw attention from Dirichlet(`CONCENTRATION`), keyed by instance."""
    every = _generators(trace, np.arange(len(trace)), seed, "drawn")
    rows = [
        generator.dirichlet(np.full(length, CONCENTRATION))
        for generator, length in zip(every, trace.alpha.lengths.tolist(), strict=True)
    ]
    return reweighted(trace, Ragged.from_rows(rows, np.float64))


def sharpened(trace: Trace, seed: int) -> Trace:
    """Square the attention."""
    return reweighted(trace, trace.alpha.with_values(trace.alpha.values**2))


def contributed(trace: Trace, seed: int) -> Trace:
    """Make attention proportional to ``|alpha_t · (readout_t − c)|``.

    Here ``c`` is the median readout of the text, which words without information have. With
    several outputs, the absolute values are summed.
    """
    rows = [
        np.abs(alpha[:, None] * (readout - np.median(readout, axis=0))).sum(axis=1)
        for alpha, readout in zip(trace.alpha, trace.ragged("readout"), strict=True)
    ]
    return reweighted(trace, Ragged.from_rows(rows, np.float64))


def _generators(
    trace: Trace, rows: np.ndarray, seed: int, purpose: str
) -> list[np.random.Generator]:
    # Draws are keyed by instance, so they do not depend on the other rows or on their order.
    return [keyed(seed, purpose, str(instance)) for instance in trace.instance[rows].tolist()]


def reweighted(trace: Trace, shown: Ragged, changed: np.ndarray | None = None) -> Trace:
    """Show another attention, and rescale the readouts to match.

    Args:
        trace: The trace.
        shown: New weights of each row, at any scale. They are raised to `LEAST` of their sum.
        changed: Which rows to change; None for all of them.

    Returns:
        The transformed trace, checked.
    """
    alpha = trace.alpha
    moved = shown.spread(np.ones(len(trace), bool) if changed is None else changed)
    values = np.maximum(shown.values / shown.spread(shown.sum()), np.where(moved, LEAST, 0.0))
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

"""Compute all removals of the erasure experiment for some rows."""

import numpy as np
from jaxtyping import Float, Int64

from attnaudit.core.random import below
from attnaudit.core.shapes import PerPosition, Streams
from attnaudit.experiments.erasure.curves import BY_ORDER, MINIMUM, ORDERS
from attnaudit.experiments.erasure.removal import (
    RANKINGS,
    Results,
    Rows,
    Walks,
    in_chunks,
    without_each,
)
from attnaudit.experiments.erasure.smallest_set import NONE, SmallestSet
from attnaudit.stats.measures import jsd, two_classes

# Each divergence has a few roundings, so a smaller difference of two has no sign.
ROUNDING = 1e-15


def erase(
    rows: Rows,
    streams: Streams,
    slope: PerPosition | None,
    orders: int,
) -> Results:
    """Remove weights in all the ways of Serrano & Smith 2019, and find the smallest flipping sets.

    Args:
        rows: The rows.
        streams: Their random streams.
        slope: ``∂p_max/∂alpha``. Without it the two rankings that need it are unknown.
        orders: Number of random orders.

    Returns:
        The columns of the table, and ``minimum``, which marks the positions of the smallest set.
    """
    alpha, n = rows.alpha, len(rows.alpha)
    scores = [alpha.values] if slope is None else [alpha.values, slope, slope * alpha.values]
    ranked = np.stack([alpha.with_values(score).descending() for score in scores])
    smallest = SmallestSet(rows)
    # Random orders, then the other rankings, then the smallest set.
    removed, never, mass = np.full((3, orders + len(RANKINGS), n), np.nan)

    for chunk in [*in_chunks(orders), range(orders, orders + len(ranked))]:
        order = rows.random_orders(streams, chunk) if chunk.start < orders else ranked
        walk = Walks(rows, order, keep=False)
        size, shape = walk.first(rows.flips), (len(chunk), n)
        flips, gone = size > 0, walk.mass(0 * size) - walk.mass(size)
        removed[chunk] = np.where(flips, size, np.nan).reshape(shape)
        mass[chunk] = np.where(flips, gone, np.nan).reshape(shape)
        never[chunk] = ~flips.reshape(shape)
        smallest.offer(size.reshape(shape), order)
    proven, found = smallest.complete(), smallest.size < NONE
    weight = alpha.with_values(np.where(smallest.marked, alpha.values, 0.0)).sum()
    removed[-1], mass[-1] = np.where(found, [smallest.size, weight], np.nan)
    never[-1] = ~found
    means = (np.ma.masked_invalid(values[:orders]).mean(axis=0) for values in (removed, mass))
    sizes, weights = (
        np.vstack([mean.filled(np.nan), values[orders:]])
        for mean, values in zip(means, (removed, mass), strict=True)
    )
    families = (
        ("removed", ORDERS, sizes / alpha.lengths),
        ("never", ORDERS, np.vstack([never[:orders].mean(axis=0), never[orders:]])),
        ("mass", ORDERS, weights),
        ("times_minimum", RANKINGS, sizes[:-1] / sizes[-1]),
    )
    columns = _remove_one(rows, streams, ranked[0])
    for family, names, values in families:
        columns |= {f"{family}_{name}": one for name, one in zip(names, values, strict=True)}
    return columns | {
        "minimum_proven": proven.astype(np.float64),
        MINIMUM: smallest.marked,
        BY_ORDER: (removed[:orders] / alpha.lengths).T,
    }


def _remove_one(rows: Rows, streams: Streams, by_attention: Int64[np.ndarray, " N"]) -> Results:
    """Remove the largest weight, or another one; NaN if either removal leaves no weight."""
    alpha, every = rows.alpha, np.arange(len(rows.alpha))
    start = alpha.offsets[:-1]
    largest = by_attention[start]
    # No random order uses draw 0 of the stream, because the first position of a shuffle has nothing
    # to change places with.
    other = start + below(streams, 0, alpha.lengths - 1)
    other += other >= largest
    left = without_each(alpha, rows.terms)

    def effect(prediction: np.ndarray, row: np.ndarray) -> Float[np.ndarray, "m 2"]:
        divergence = jsd(two_classes(prediction), two_classes(rows.outputs.own[row]))
        return np.column_stack([divergence, rows.flips(prediction, row)])

    of_largest, of_other = (rows.measure(left[one], every, effect).T for one in (largest, other))
    delta_js = of_largest[0] - of_other[0]
    delta_js[np.abs(delta_js) < ROUNDING] = 0.0
    columns = {
        "delta_js": delta_js,
        "delta_alpha": alpha.values[largest] - alpha.values[other],
        "flip_max": of_largest[1],
        "flip_random": of_other[1],
    }
    known = ~np.isnan(delta_js)
    return {name: np.where(known, values, np.nan) for name, values in columns.items()}

"""The adversary beyond two classes: a feasible attention and a bound that no attention exceeds, drawn together by branch and bound.

The bound is that of `program` over a box of attentions and outputs; the box with the highest bound is cut in two, at the token
whose chord lies furthest above f, at a class of which the hull allows too much, or where a tail bends too much, until the bound meets what
was found, or after a number of boxes that keeps long rows affordable. Every box's attention is drawn onto the allowed set and tried.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt64

from attnaudit.core.arrays import (
    fill,
    largest_of,
    numbers_below,
    overwrite,
    where_highest,
    where_positive,
)
from attnaudit.core.kernels import kernel, over_rows, subroutine
from attnaudit.core.ragged import Ragged
from attnaudit.core.references import by_reference
from attnaudit.experiments.adversary.exact import gain
from attnaudit.experiments.adversary.moves import draw_in, exchange, rescale
from attnaudit.experiments.adversary.program import Box, bound_box, program, tightened
from attnaudit.experiments.adversary.relaxed import (
    Search,
    search_limits,
    search_row,
    starting_scores,
)
from attnaudit.experiments.adversary.row import as_row, attended_sum, merged, own_logits, worth
from attnaudit.experiments.adversary.search import climb, first_attention, take_better
from attnaudit.experiments.compiled_readout import (
    kernel_rows,
    pooled_prediction,
    row_parts,
    tvd_row,
)
from attnaudit.trace.readout import Readout

CLOSE_ENOUGH = 2e-4
MOST_BOXES = 200
MOST_BOXES_WITH_TAIL = 48
BENT = 0.05
HOPELESS = 3.0
LEAST = 1e-10


@by_reference
@dataclass(frozen=True)
class Boxes:
    """All boxes so far: their sides, their bounds (−1 once empty or settled), the programs' attentions and the errors of a bent tail."""

    low: np.ndarray
    high: np.ndarray
    low_p: np.ndarray
    high_p: np.ndarray
    bound: np.ndarray
    point: np.ndarray
    error: np.ndarray


def bounded_attention(
    readout: Readout,
    alpha: Ragged,
    epsilon: float,
    streams: UInt64[np.ndarray, " n"],
    search: Search,
) -> tuple[Ragged, Float[np.ndarray, " n"]]:
    """For every row an attention far from ``alpha`` whose output is within ``epsilon``, and a bound on the JSD of all such attentions.

    Where the two do not meet, the ends of ``search`` from ``streams`` are further starts.
    """
    furthest, upper = np.empty(len(alpha.values)), np.empty(len(alpha))
    epsilon, limits = max(float(epsilon), LEAST), search_limits(search)
    over_rows(
        bounded_rows,
        len(alpha),
        kernel_rows(readout, alpha),
        alpha.offsets,
        epsilon,
        streams,
        search.k,
        limits,
        furthest,
        upper,
    )
    return alpha.with_values(furthest), upper


@kernel
def bounded_rows(first, last, rows, offsets, epsilon, streams, k, limits, furthest, upper):
    for i in range(first, last):
        upper[i] = _bounded(
            row_parts(rows, i),
            epsilon,
            streams[i],
            k,
            limits,
            furthest[offsets[i] : offsets[i + 1]],
        )


@subroutine
def _bounded(parts, epsilon, stream, k, limits, furthest):
    """The bound of one row, its best attention written into ``furthest``."""
    row = as_row(parts, epsilon)
    best = np.empty(len(row.tokens))
    upper = bounded_row(row, best)
    if upper > worth(row, best) + CLOSE_ENOUGH:
        _search_again(
            row, search_row(starting_scores(stream, k, len(furthest)), parts, limits), best
        )
    fill(furthest, 0.0)
    for k in range(len(best)):
        furthest[row.tokens[k]] = best[k]
    return max(upper, worth(row, best))


@subroutine
def bounded_row(row, furthest):
    """Writes the best attention found into ``furthest``; the bound."""
    overwrite(furthest, row.own)
    if len(row.own) < 2:
        return worth(row, row.own)
    built, boxes, settled = program(row, own_logits(row)), _boxes(row), 0.0
    found = first_attention(row, own_logits(row), furthest)
    if row.head.tail:
        found = climb(row, built, row.own.copy(), found, furthest)
        found = climb(row, built, furthest.copy(), found, furthest)
    found = _visit(row, built, boxes, 0, found, furthest)
    for new in range(1, len(boxes.bound)):
        worst = where_highest(boxes.bound)
        if boxes.bound[worst] <= max(found, settled) + CLOSE_ENOUGH:
            break
        if _cut(row, boxes, worst, new):
            found = _visit(row, built, boxes, worst, found, furthest)
            found = _visit(row, built, boxes, new, found, furthest)
        else:
            settled, boxes.bound[worst] = max(settled, boxes.bound[worst]), -1.0
    weights = furthest.copy()
    exchange(row, weights, numbers_below(len(weights)))
    found = take_better(row, weights, found, furthest)
    return max(largest_of(boxes.bound), settled, found)


@subroutine
def _search_again(row, ends, furthest):
    """The best of ``furthest`` and of what the attentions ``ends`` lead to, into ``furthest``."""
    built, found = program(row, own_logits(row)), worth(row, furthest)
    for k in range(len(ends)):
        found = climb(row, built, merged(ends[k], row.stand_in, len(row.tokens)), found, furthest)


@subroutine
def _visit(row, built, boxes, k, found, furthest):
    """Bound box ``k``, whose bound so far is that of the box it was cut from, and try the attention that its program ends with."""
    box = _box(boxes, k)
    if not tightened(box.low, box.high):
        boxes.bound[k] = -1.0
        return found
    boxes.bound[k] = min(boxes.bound[k], bound_box(built, box, boxes.point[k]))
    boxes.error[k] = largest_of(built.error)
    if boxes.bound[k] <= found or boxes.error[k] > HOPELESS:
        return found
    return _improve(row, boxes.point[k], found, furthest)


@subroutine
def _boxes(row):
    """Memory for as many boxes as a row of this size may take; the first is the whole problem."""
    length, classes = len(row.alpha), len(row.kept)
    if row.head.tail:
        limit = min(
            MOST_BOXES_WITH_TAIL, max(16, 1000000 // (length * len(row.offset) * len(row.target)))
        )
    else:
        limit = min(MOST_BOXES, max(20, 60000 // length))
    low, high, low_p, high_p = (
        np.zeros((limit, length)),
        np.empty((limit, length)),
        np.zeros((limit, classes)),
        np.empty((limit, classes)),
    )
    bound = np.empty(limit)
    fill(bound, -1.0)
    fill(high[0], 1.0)
    fill(high_p[0], 1.0)
    bound[0] = np.inf
    return Boxes(low, high, low_p, high_p, bound, np.zeros((limit, length)), np.zeros(limit))


@subroutine
def _box(boxes, k):
    return Box(boxes.low[k], boxes.high[k], boxes.low_p[k], boxes.high_p[k])


@subroutine
def _cut(row, boxes, k, new):
    """Cut box ``k`` in two, the upper part becoming box ``new``; false where nothing is left to cut."""
    box = _box(boxes, k)
    token, at, gap = _widest_chord(row, box, boxes.point[k])
    kind, side, excess = _loosest_class(row, box, boxes.point[k])
    if kind >= 0 and boxes.error[k] > BENT:
        bent, middle = _heaviest(box, boxes.point[k])
        if bent >= 0:
            token, at, kind = bent, middle, -1
    if token < 0 and kind < 0:
        return False
    upper = _box(boxes, new)
    overwrite(upper.low, box.low)
    overwrite(upper.high, box.high)
    overwrite(upper.low_p, box.low_p)
    overwrite(upper.high_p, box.high_p)
    boxes.bound[new] = boxes.bound[k]
    if kind >= 0 and gap <= excess:
        box.high_p[kind] = upper.low_p[kind] = side
    else:
        box.high[token] = upper.low[token] = at
    return True


@subroutine
def _widest_chord(row, box, point):
    """The token whose chord is furthest above f at ``point``, where to cut it, and by how much; token −1 where all are tight."""
    best, token = 1e-6, -1
    for t in range(len(point)):
        width, old = box.high[t] - box.low[t], row.alpha[t]
        if width >= 1e-6:
            least = gain(box.low[t], old)
            chord = least + (gain(box.high[t], old) - least) * (point[t] - box.low[t]) / width
            if chord - gain(point[t], old) > best:
                best, token = chord - gain(point[t], old), t
    if token < 0:
        return -1, 0.0, 0.0
    margin = 0.1 * (box.high[token] - box.low[token])
    return token, min(max(point[token], box.low[token] + margin), box.high[token] - margin), best


@subroutine
def _loosest_class(row, box, point):
    """The class that loses most under ``point``, where to cut its probability, and how far the output is beyond ε; −1 within."""
    prediction = pooled_prediction(attended_sum(row, point), row.head)
    best, kind, side = 0.0, -1, 0.0
    for k in range(len(row.kept)):
        old, new = row.target[row.kept[k]], prediction[row.kept[k]]
        floor, ceiling = max(box.low_p[k], old - row.epsilon, 0.0), min(box.high_p[k], old)
        if old - max(new, floor) > best and ceiling - floor > 1e-3 * row.epsilon:
            best, kind, side = old - max(new, floor), k, 0.5 * (floor + ceiling)
    excess = tvd_row(prediction, row.target) - row.epsilon
    return (kind, side, excess) if excess > 1e-6 else (-1, 0.0, 0.0)


@subroutine
def _heaviest(box, point):
    """The token that has most beyond its least, and the middle of its side; −1 where none has much."""
    token, most = -1, 1e-3
    for t in range(len(point)):
        if box.high[t] - box.low[t] > 1e-3 and point[t] - box.low[t] > most:
            token, most = t, point[t] - box.low[t]
    if token < 0:
        return -1, 0.0
    return token, 0.5 * (box.low[token] + box.high[token])


@subroutine
def _improve(row, point, found, furthest):
    """The better of what was found and ``point`` drawn onto the allowed set; its value."""
    weights = point.copy()
    rescale(weights)
    if worth(row, weights) <= found or not draw_in(row, weights):
        return found
    if worth(row, weights) > found - 0.02:
        exchange(row, weights, where_positive(weights))
    return take_better(row, weights, found, furthest)

"""Remove attention weights, rescale the others to sum to 1, and read the output again.

After the removal of a set ``S`` the attended sum is ``Σ_{t∉S} alpha_t · contribution_t /
Σ_{t∉S} alpha_t``. No encoder runs again. Cumulative sums along an order give all its removals at
once; they add up the positions that are left, so nothing cancels. A removal that leaves no weight
leaves no attention, and does not count.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int64
from numba import njit

from attnaudit.core.ragged import Ragged, concatenate
from attnaudit.core.random import shuffled
from attnaudit.core.shapes import Indices, PerPosition, Streams, Values
from attnaudit.core.threads import LEAST, cores, on_threads
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.through_tail import Measure, Outputs, has_compiled_tail
from attnaudit.stats.measures import predicted_class
from attnaudit.trace import IdentityTail, LinearTail, Readout, TanhTail

PerWalk = Int64[np.ndarray, " walks"]

Orders = Int64[np.ndarray, "k N"]
Terms = Float[np.ndarray, "N D"]
RANKINGS = ("random", "attention", "gradient", "gradient_attention")
# Removals along an order that a network reads first. Then it reads those between two of them.
STEPS = 128
# Removals of an order that are read first; then twice as many, and so on.
CHUNK = 8
# Orders walked together: the default of five random ones and the three rankings.
ORDERS = 8
# Cumulative sums and outputs held at a time: 8 MiB.
NUMBERS = 1 << 20

# Numbers of each row, ``(n, ...)``, by name.
Results = dict[str, np.ndarray]


class Rows:
    """Rows of at least two positions, and their outputs without some of the positions.

    Attributes:
        readout: Readout of these rows.
        alpha: Their attention, T positions each, N in all.
        exact: Whether the tail is computed in float64, each row by itself.
        terms: ``alpha_t · contribution_t`` and ``alpha_t`` of each position, ``(N, P + 1)``.
        slack: Largest difference of two equal logits, or probabilities, due to rounding, ``(n,)``.
        own_sums: Attended sums under the model's own attention, ``(n, P)``.
        outputs: Outputs under the model's own attention.
    """

    def __init__(self, readout: Readout, alpha: Ragged) -> None:
        self.readout, self.alpha = readout, alpha
        self.exact = has_compiled_tail(readout)
        weight = alpha.values[:, None]
        self.terms = np.hstack([weight * readout.contribution.values, weight])
        contribution, every = readout.contribution, np.arange(len(alpha))
        size = contribution.with_values(np.abs(contribution.values).max(axis=1)).max()
        # Sums that cancel leave 1e-17 in place of 0. Without a slack such a tie would be decided
        # by rounding, and a constant output of one half would flip.
        self.slack = TOLERANCE.rounding * (size + np.abs(readout.offset).max(axis=1))
        self.own_sums = alpha.with_values(self.terms[:, :-1]).sum()
        own = readout.of_sums(self.own_sums, every)
        decided = self._decide(own, every) if self.exact else predicted_class(own)
        self.outputs = Outputs(readout, alpha, own, decided)

    def _decide(self, prediction: np.ndarray, rows: np.ndarray) -> Indices:
        """Predict the first of the likeliest classes, and class 1 if a sigmoid is at 0.5."""
        if self.readout.activation == "sigmoid":
            return (prediction[:, 0] >= 0.5 - self.slack[rows]).astype(np.int64)
        highest = prediction.max(axis=1) - self.slack[rows]
        return (prediction >= highest[:, None]).argmax(axis=1)

    def measure(
        self, left: Float[np.ndarray, "m P1"], rows: Indices, measure: Measure
    ) -> Float[np.ndarray, "m ..."]:
        """Measure the outputs of m removals.

        Args:
            left: For each removal, the sum of `terms` over the positions that are left.
            rows: Row of each removal.
            measure: Maps predictions ``(m, C)`` and their rows ``(m,)`` to numbers of each.

        Returns:
            The values; NaN if the positions that are left have no weight.
        """
        mass = left[:, -1:]
        sums = left[:, :-1] / np.where(mass > 0.0, mass, 1.0)
        found = self.outputs.under_sums(rows, sums.__getitem__, measure).astype(np.float64)
        found[mass[:, 0] <= 0.0] = np.nan
        return found

    def flips(self, prediction: np.ndarray, rows: np.ndarray) -> Bool[np.ndarray, " m"]:
        """Return whether another class is predicted."""
        # In float64 the slack recognises ties. The noise of a network is larger, so another class
        # needs a clear lead.
        if self.exact:
            return self._decide(prediction, rows) != self.outputs.decided[rows]
        return self.outputs.flips(prediction, rows)

    def random_orders(self, streams: Streams, numbers: range) -> Orders:
        """Draw orders of the positions of each row.

        Args:
            streams: Random stream of each row.
            numbers: Numbers of the orders in the stream, so that any part can be drawn by itself.

        Returns:
            Flat positions, ``(k, N)``.
        """
        start, times = self.alpha.spread(self.alpha.offsets[:-1]), len(numbers)
        rows = concatenate([self.alpha.with_values(self.alpha.places)] * times)
        order = shuffled(rows, np.tile(streams, times), np.repeat(numbers, len(self.alpha)))
        return order.values.reshape(times, -1) + start

    def gradient(self) -> PerPosition | None:
        """Compute ``∂ log-odds of the predicted class / ∂alpha_t``, with unconstrained weights.

        Behind a network it is unknown, None.
        """
        if not isinstance(self.readout.tail, IdentityTail | LinearTail):
            return None
        # It ranks positions as ``∂p_max/∂alpha_t`` does, also if that underflows: p(1 − p) is the
        # same factor for all positions of a row.
        slopes = self.slopes(self.own_sums, np.arange(len(self.alpha)), nearest=False)
        return (self.readout.contribution.values * self.alpha.spread(slopes)).sum(axis=1)

    def slopes(
        self, sums: Float[np.ndarray, "m P"], rows: Indices, nearest: bool
    ) -> Float[np.ndarray, "m P"]:
        """Differentiate the lead of the predicted class, in logits, by the attended sum.

        Args:
            sums: Attended sums at which to differentiate; the tail is no network.
            rows: Row of each sum.
            nearest: Whether the lead is over the likeliest rival; otherwise it is over all rivals
                together, the log-odds.

        Returns:
            Slopes, ``(m, P)``; 0 if there is no rival.
        """
        tail, pooled = self.readout.tail, self.readout.offset[rows] + sums
        if self.readout.activation == "sigmoid":
            slopes = np.where(self.outputs.decided[rows] == 1, 1.0, -1.0)[:, None]
        else:
            mine = np.arange(len(rows)), self.outputs.decided[rows]
            rivals = tail(pooled, self.readout.in_trace(rows)).copy()
            if self.readout.candidates is not None:
                rivals[~self.readout.candidates[rows]] = -np.inf
            rivals[mine] = -np.inf
            highest = rivals.max(axis=1, keepdims=True)
            share = np.exp(rivals - np.where(np.isfinite(highest), highest, 0.0))
            if nearest:
                share = np.eye(share.shape[1])[rivals.argmax(axis=1)]
            slopes = -share / np.where(share.any(axis=1), share.sum(axis=1), 1.0)[:, None]
            slopes[mine] = np.isfinite(highest[:, 0])
        if isinstance(tail, LinearTail):
            slopes = np.matmul(slopes[:, None], tail.weight)[:, 0]
        if isinstance(tail, TanhTail):
            slopes *= 1.0 - np.tanh(pooled) ** 2
        return slopes


class Walks:
    """Removals along several orders: walk ``k · n + i`` takes row ``i`` along order ``k``.

    Args:
        rows: The rows.
        orders: Flat positions of all rows, in the order of each walk.
        keep: Whether a walk keeps only the first positions of its order, or removes them.

    Attributes:
        row: Row of each walk, ``(k · n,)``.
        lengths: Number of positions of the row.
    """

    def __init__(self, rows: Rows, orders: Orders, keep: bool) -> None:
        self.rows, self.keep = rows, keep
        n, positions = len(rows.alpha), orders.shape[1]
        self.row, self.lengths = (
            np.tile(values, len(orders)) for values in (np.arange(n), rows.alpha.lengths)
        )
        self._start = np.repeat(np.arange(len(orders)) * positions, n)
        self._start += np.tile(rows.alpha.offsets[:-1], len(orders))
        # Sums over what is left: from the end of an order if its beginning is removed. A difference
        # from the whole sum would cancel.
        self._left = added_up(rows.alpha, rows.terms, orders, backwards=not keep)

    def measure(self, walk: Indices, count: Indices, measure: Measure) -> Values:
        """Measure outputs without the first ``count`` positions of walks, or with only them.

        Args:
            walk: Numbers of m walks, which may repeat.
            count: Number of positions for each.
            measure: Maps predictions ``(m, C)`` and their rows ``(m,)`` to a number each.
        """
        left = self._left.T.take(self._start[walk] + count - self.keep, axis=1)
        return self.rows.measure(left.T, self.row[walk], measure)

    def mass(self, count: PerWalk) -> Float[np.ndarray, " walks"]:
        """Return the weight that each walk has left after ``count`` positions."""
        return self._left[self._start + count, -1]

    def first(self, happens: Measure) -> PerWalk:
        """Count the positions of each walk at which ``happens`` is first true; 0 if it never is.

        Behind a network, longer rows are read at `STEPS` evenly spaced counts. Then the counts
        between the first at which it is true and the one before are read.
        """
        # Each count costs a pass through a network, so an earlier flip that lasts less than a step
        # is not looked for.
        steps = self.lengths - 1 if self.rows.exact else np.minimum(self.lengths - 1, STEPS)
        spacing = (self.lengths - 2) / np.maximum(steps - 1, 1)

        def count(walk, step):
            return 1 + np.round(step * spacing[walk]).astype(np.int64)

        step, every = self._search(happens, steps, count), np.arange(len(steps))
        high = np.where(step > 0, count(every, step - 1), 0)
        low = np.where(step > 1, count(every, step - 2), 0)
        between = self._search(happens, high - low - 1, lambda walk, step: low[walk] + 1 + step)
        return np.where(between > 0, low + between, high)

    def _search(self, happens: Measure, steps: PerWalk, count: Callable[..., Any]) -> PerWalk:
        """Find the first step at which ``happens`` is true; 0 for none."""
        # Few steps are read at first, because most walks that flip do so early.
        first = np.zeros(len(steps), np.int64)
        begin, size = 0, CHUNK
        while len(pending := np.flatnonzero((first == 0) & (steps > begin))):
            tried = np.arange(begin, begin + size) < steps[pending, None]
            which, step = np.nonzero(tried)
            walk = pending[which]
            tried[tried] = self.measure(walk, count(walk, begin + step), happens) == 1.0
            first[pending] = np.where(tried.any(axis=1), begin + tried.argmax(axis=1) + 1, 0)
            begin, size = begin + size, 2 * size
        return first


def added_up(
    rows: Ragged, terms: Terms, orders: Orders, backwards: bool
) -> Float[np.ndarray, "kN D"]:
    """Sum terms cumulatively along orders of each row, from their first or their last position.

    Args:
        rows: The rows, for their lengths.
        terms: Terms of all N positions.
        orders: Flat positions of all rows, in each order.
        backwards: Whether sums begin at the last position of a row.

    Returns:
        Sums up to and including each position, order after order.
    """
    # numpy is several times faster if the long axis is contiguous.
    sums = np.empty((terms.shape[1], *orders.shape))
    _add_up(rows.offsets, terms, orders, backwards, sums)
    return sums.reshape(len(sums), -1).T


@njit(cache=True, nogil=True)
def _add_up(offsets, terms, orders, backwards, sums):
    """Write the sums of `added_up`, ``(D, k, N)``."""
    for k in range(len(orders)):
        for row in range(len(offsets) - 1):
            start, stop = offsets[row], offsets[row + 1]
            for d in range(terms.shape[1]):
                total = 0.0
                for step in range(stop - start):
                    place = stop - 1 - step if backwards else start + step
                    total += terms[orders[k, place], d]
                    sums[d, k, place] = total


def without_each(rows: Ragged, terms: Terms) -> Terms:
    """Sum the terms of a row without each of its positions in turn."""
    # What comes before and behind a position is added: subtracting its term would cancel.
    every = np.arange(len(terms))[None]
    before, behind = (added_up(rows, terms, every, backwards) for backwards in (False, True))
    left, first = np.zeros_like(before), rows.offsets[:-1]
    left[1:] = before[:-1]
    left[first] = behind[first] = 0.0
    left[:-1] += behind[1:]
    return left


def in_blocks(
    compute: Callable[[Rows, Indices], Results], readout: Readout, alpha: Ragged
) -> Results:
    """Compute results for all rows of at least two positions, in blocks of bounded memory.

    Args:
        compute: Maps some rows and their numbers to results, on all threads if the tail is a
            formula.
        readout: Readout of all rows.
        alpha: Their attention.

    Returns:
        Results of all rows; those of one position have NaN, or False.
    """
    longer = np.flatnonzero(alpha.lengths > 1)
    # A network may be a live model, which several threads must not call at a time.
    threads, at_once = (cores(), on_threads) if has_compiled_tail(readout) else (1, map)
    # A block for each thread; a longest row more in each leaves none for another block.
    each = len(alpha.values) // threads + int(alpha.lengths.max(initial=0))
    held = NUMBERS // (ORDERS * (readout.contribution.values.shape[1] + 1))
    positions = max(min(held, max(each, LEAST)), 1)
    blocks = [longer[block] for block in alpha.take(longer).blocks(positions)] or [longer]

    def of_block(numbers):
        return compute(Rows(readout.take(numbers), alpha.take(numbers)), numbers)

    results: Results = {}
    for numbers, part in zip(blocks, at_once(of_block, blocks), strict=True):
        for name, values in part.items():
            if name not in results:
                unknown = np.nan if values.dtype == np.float64 else False
                results[name] = np.full((len(alpha), *values.shape[1:]), unknown, values.dtype)
            results[name][numbers] = values
    return results


def in_chunks(number: int) -> Iterator[range]:
    """Yield the numbers of the orders that are walked together."""
    for first in range(0, number, ORDERS):
        yield range(first, min(first + ORDERS, number))

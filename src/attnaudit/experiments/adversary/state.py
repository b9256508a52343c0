"""The best attention so far of some rows, and the segments that improve it.

JSD is convex along a segment, so that only the ends of its part within ε matter. The first point
within ε is found by regula falsi on outputs of the tail itself, and accepted if it is better.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.core.shapes import Indices, Values
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.adversary.exact import divergence, unconstrained_bound
from attnaudit.experiments.adversary.program import LEAST, Box, Task
from attnaudit.experiments.adversary.some_classes import representatives
from attnaudit.experiments.through_tail import (
    Outputs,
    attended_sums,
    has_compiled_tail,
    two_classes,
)

STEPS = 7  # outputs read to find the first point within ε
CLASSES, STAND_IN = 101, 60  # modelled one by one at most; of more so many, which stand for all
SUPPORT = 16  # tokens with weight in what a program proposes
GAP = 1e-3  # from the bound, within which an attention counts as proven the furthest


class Segments(NamedTuple):
    """Segments from ``start`` to ``end``, two attentions of the row of each."""

    rows: Indices
    start: Ragged
    end: Ragged

    def take(self, chosen: Int64[np.ndarray, " k"]) -> Segments:
        """Return the chosen segments."""
        return Segments(self.rows[chosen], self.start.take(chosen), self.end.take(chosen))

    def at(self, t: Values) -> Ragged:
        """Return the attention at a point of each segment."""
        spread = self.start.spread(t)
        return self.start.with_values((1.0 - spread) * self.start.values + spread * self.end.values)


class Proposal(NamedTuple):
    """Weights of some tokens of a row: the solution of a task's program in a box."""

    row: int
    tokens: Int64[np.ndarray, " k"]
    weights: Float[np.ndarray, " k"]
    task: Task
    box: Box


class State:
    """The best attention so far of some rows, its JSD, and the bound of each row."""

    def __init__(self, outputs: Outputs, epsilon: float) -> None:
        self.outputs, self.alpha, self.epsilon = outputs, outputs.alpha, epsilon
        # A network may give other last digits in the batch that is reported.
        noise = 0.0 if has_compiled_tail(outputs.readout) else TOLERANCE.network
        self.limit = max(epsilon - noise, 0.0)
        both = two_classes(outputs.own)
        self.classes = None if both.shape[1] <= CLASSES else representatives(both, STAND_IN)
        self.own = self.modelled(outputs.own, np.arange(len(self.alpha)))
        self.attention = self.alpha.with_values(self.alpha.values.astype(np.float64))
        self.value = np.zeros(len(self.alpha))
        self.upper = unconstrained_bound(self.alpha)

    def open_rows(self) -> Indices:
        """Return the rows whose best is not proven the furthest."""
        return np.flatnonzero(self.value < self.upper - GAP)

    def modelled(self, prediction: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return probabilities of the classes modelled, which stand for all others."""
        both = two_classes(prediction)
        if self.classes is None:
            return np.maximum(both, LEAST)
        classes, weight = self.classes
        some = np.take_along_axis(both, classes[rows], axis=1) * weight[rows]
        some = np.maximum(some, LEAST)
        return some / some.sum(axis=1, keepdims=True)

    def measure(self, prediction: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return TVDs beside the log-probabilities modelled, ``(b, 1 + classes)``."""
        distance = self.outputs.distance(prediction, rows)
        return np.column_stack([distance, np.log(self.modelled(prediction, rows))])

    def keep(self, rows: np.ndarray, attention: Ragged, value: np.ndarray) -> None:
        """Replace the best of rows by better ones; of several of one row the best counts."""
        order = np.lexsort((-value, rows))
        order = order[value[order] > self.value[rows[order]]]
        better, first = np.unique(rows[order], return_index=True)
        chosen = order[first]
        self.value[better] = value[chosen]
        self.attention.values[self.alpha.positions(better)] = attention.take(chosen).values

    def accept(self, segments: Segments) -> None:
        """Walk segments to their first point within ε, and keep what is better."""
        rows, readout = segments.rows, self.outputs.readout
        start = attended_sums(readout, rows, segments.start)
        way = attended_sums(readout, rows, segments.end) - start
        old = self.alpha.take(rows)

        def beyond(chosen, t):
            sums = lambda b: start[chosen[b]] + t[b, None] * way[chosen[b]]  # noqa: E731
            return self.outputs.under_sums(rows[chosen], sums, self.outputs.distance) - self.limit

        # Sums are linear along a segment, so that no attention is formed to read an output.
        everything = np.arange(len(rows))
        low, high = np.zeros(len(rows)), np.ones(len(rows))
        above, below = beyond(everything, low), beyond(everything, high)
        high[above <= 0.0] = 0.0
        known = (above <= 0.0) | (below <= 0.0)
        worth_high = divergence(segments.end, old)
        for _ in range(STEPS):
            promising = np.maximum(divergence(segments.at(low), old), worth_high) > self.value[rows]
            left = np.flatnonzero(known & promising & (high - low > TOLERANCE.solver))
            if not len(left):
                break
            width = high[left] - low[left]
            share = above[left] / np.maximum(above[left] - below[left], LEAST)
            # Regula falsi, off the ends, so that both of them move.
            t = low[left] + width * np.clip(share, 0.02, 0.98)
            now = beyond(left, t)
            within = now <= 0.0
            inside, outside = left[within], left[~within]
            high[inside], below[inside] = t[within], now[within]
            low[outside], above[outside] = t[~within], now[~within]
            above[inside] *= 0.5  # the Illinois way: an end that stays counts half
            below[outside] *= 0.5
        chosen = np.flatnonzero(known)
        attention = segments.take(chosen).at(high[chosen])
        # Near one end of a segment, only rounding is left of the other end.
        attention.values[attention.values < TOLERANCE.rounding] = 0.0
        self.keep(rows[chosen], attention, divergence(attention, old.take(chosen)))

    def propose(self, proposals: list[Proposal]) -> None:
        """Accept the solutions of programs, which may be a little beyond ε.

        They are walked to the best attention so far, and to weights of the same tokens with the
        logits of the model's own output, as far as there are any: vertices of what is allowed are
        on the way.
        """
        starts, ends = [], []
        for row, tokens, solution, task, _ in proposals:
            weights = solution.copy()
            weights[np.argsort(-weights, kind="stable")[SUPPORT:]] = 0.0
            weights[weights < TOLERANCE.solver] = 0.0
            weights /= weights.sum()
            used = np.flatnonzero(weights)
            moves = centred(task.scores[used], task.own)
            # A large weight keeps the sum at 1 in the least squares.
            equations = np.vstack([moves.T, np.full(len(used), 1e3)])
            target = -np.append((weights[used, None] * moves).sum(axis=0), 0.0)
            step = np.linalg.lstsq(equations, target, rcond=None)[0]
            step -= step.mean()
            falls = step < 0.0
            room = min(1.0, (weights[used][falls] / -step[falls]).min(initial=1.0))
            end = weights.copy()
            end[used] = np.maximum(end[used] + room * step, 0.0)
            start = np.zeros((2, len(self.alpha[row])))
            start[:, tokens] = weights, end / end.sum()
            starts.append(start[0])
            ends.append(start[1])
        if proposals:
            rows, start = np.array([one.row for one in proposals]), Ragged.from_rows(starts)
            self.accept(Segments(rows, start, Ragged.from_rows(ends)))
            self.accept(Segments(rows, start, self.attention.take(rows)))


def centred(scores: Float[np.ndarray, "k c"], own: Float[np.ndarray, "... c"]) -> np.ndarray:
    """Return log-odds with mean 0 under the probabilities, weighted by their roots."""
    mean = (scores * own).sum(axis=1, keepdims=True) / own.sum(axis=-1, keepdims=True)
    return np.sqrt(own) * (scores - mean)

"""The adversary through a tail that no kernel computes: attention found by calls of many rows at once.

JSD is convex along the segment between two attentions, so that of the part within ε only the ends matter. The best single token is the one
of least attention within ε. To exceed it an attention must lean on a token of less attention whose own output is not within ε. So the
search knows attention that is within ε, and walks to it from attention that is not, looking for the first point within ε:

1. what is within ε without a search: the model's own attention, the most different one with the same attended sum, and so with the same
   output (`identifiability`), and the best single token;
2. from single tokens to others, on a model of the log-probabilities that is linear between the two: the slab search of `exact`,
   approximately. Of the best of these pairs the middle is read out, and the model bent to agree with it; the most promising are then
   followed on the tail itself, by bracketing and regula falsi;
3. with more than two classes, linear programs on a model of single tokens;
4. from the tokens of least attention to the best attention so far, twice;
5. with more than two classes, a climb: programs on the slopes at the best attention so far, each in a box around it, which is halved where
   it gains nothing. Where all classes are modelled, the first climb starts before the single tokens count.

With more than `CLASSES` classes hardly any mixture of two tokens of a longer text is within ε: such a text has no steps 2 and 4.

Of a vocabulary the search reads classes that stand for all others (`some_classes`). What it finds is then read for all of them, and moved
towards the model's own attention where it is beyond ε.

What is returned has been read out and is within ε. It is what was found; nothing says that it is the maximum.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.experiments.adversary.crossing import LEAST, Crossing, crossing_of
from attnaudit.experiments.adversary.first_order import linear_attention
from attnaudit.experiments.adversary.segments import (
    TINY,
    Curves,
    Segments,
    Walk,
    chords,
    gains,
    pairs_of,
)
from attnaudit.experiments.adversary.some_classes import (
    MANY,
    blocks,
    of_some_classes,
    representatives,
)
from attnaudit.experiments.identifiability.null_space import RANGES, movements
from attnaudit.experiments.through_tail import NOISE, Outputs, few_tokens, row_blocks, two_classes
from attnaudit.stats.measures import LN2, jsd_terms
from attnaudit.trace.readout import Readout

TOKENS, SPREAD = (
    64,
    16,
)  # single tokens that are read out; of a longer row so many that are not of least attention
STARTS, PARTNERS, LEAST_ATTENDED = (
    16,
    24,
    8,
)  # tokens that a pair may start from, and end at; of least attention among them
PIECE = 2  # rows whose pairs are considered together
MIDDLES = 24  # pairs whose middle is read out
NEARER = 4  # outputs of all classes read to move what was found within ε
FOLLOWED = 6  # pairs that are followed on the tail itself
ROUNDS, MORE = 2, 3  # of one token more, and from how many tokens each
AIMS, STEPS = 3, 6  # outputs read to find a point within ε, and then to find the first
CLASSES, STAND_IN = (
    101,
    100,
)  # whose probability is modelled at most; of more so many, which stand for all
SHORT = 12  # tokens, up to which pairs are tried with more than CLASSES
PROGRAMS = 3  # linear programs of a row with more than two classes, on one model
SUPPORT = 16  # tokens with weight
GAP = 1e-3  # from the bound, within which an attention is as good as proven the furthest
EARLY, CLIMBS = 3, 6  # programs on slopes at the best so far: at first, and in the end
BOX, SMALLEST_BOX = (
    0.5,
    0.1,
)  # how far they move a weight, halved where that gains less than PROGRESS
PROGRESS = 1e-3
STEP = 0.02  # towards a token, by which slopes are measured


class Best(NamedTuple):
    """The best attention of every row so far, which is within ε: its JSD (n,), the attention, its log-probabilities (n, classes)."""

    value: Float[np.ndarray, " n"]
    attention: Ragged
    log_p: Float[np.ndarray, "n c"]


class Singles(NamedTuple):
    """The single tokens read out, by row and rank of attention, least first; ``count`` (n,) of them, and rank ``first`` is within ε."""

    tokens: Int64[np.ndarray, "n k"]
    distance: Float[np.ndarray, "n k"]
    log_p: Float[np.ndarray, "n k c"]
    count: Int64[np.ndarray, " n"]
    first: Int64[np.ndarray, " n"]


def attention_within(readout: Readout, alpha: Ragged, epsilon: float) -> Ragged:
    """For every row the furthest attention found whose output is within ``epsilon``; the model's own where nothing else is."""
    values = alpha.values.copy()
    for rows in row_blocks(alpha):
        outputs = Outputs.of(readout.take(rows), alpha.take(rows))
        within = _searched if outputs.own.shape[1] < MANY else _searched_by_some
        values[alpha.positions(rows)] = within(outputs, epsilon).values
    return alpha.with_values(values)


def _searched(outputs: Outputs, epsilon: float) -> Ragged:
    return _Search(outputs, epsilon).run()


def _searched_by_some(outputs: Outputs, epsilon: float) -> Ragged:
    """What the search finds by some classes that stand for all, then read in full; by all where the tail cannot be read for some."""
    values = outputs.alpha.values.copy()
    for rows in blocks(outputs):
        part = outputs.take(rows)
        some = of_some_classes(part)
        found = (
            _searched(part, epsilon)
            if some is None
            else _moved_within(part, _searched(some, epsilon), max(epsilon - NOISE, 0.0))
        )
        values[outputs.alpha.positions(rows)] = found.values
    return outputs.alpha.with_values(values)


class _Search:
    """Of some rows together: every step reads the outputs of all of them."""

    def __init__(self, outputs: Outputs, epsilon: float) -> None:
        self.outputs, self.readout, self.alpha = outputs, outputs.readout, outputs.alpha
        alpha = self.alpha
        self.limit = max(epsilon - NOISE, 0.0)
        self.classes = _modelled_classes(two_classes(self.outputs.own))
        self.own_p = self.modelled(self.outputs.own, np.arange(len(alpha)))
        self.best = Best(
            np.zeros(len(alpha)), alpha.with_values(alpha.values.copy()), np.log(self.own_p)
        )

    def run(self) -> Ragged:
        singles = self.single_tokens()
        rows = np.flatnonzero(
            singles.first > 0
        )  # where the token of least attention is within ε nothing is better
        self.same_sum(rows)
        several = self.own_p.shape[1] > 2
        if several and self.classes is None:  # of more classes every output costs much
            self.climb(singles, rows, EARLY)
        self.keep_single(singles)
        paired = rows if self.classes is None else rows[singles.count[rows] <= SHORT]
        self.follow(*self.pairs(singles, paired))
        if several:
            self.by_programs(singles, self.below_bound(singles, rows))
        for _ in range(ROUNDS):
            self.follow(*self.one_more(singles, paired))
        if several:
            self.climb(singles, rows, CLIMBS)
        return self.best.attention

    def keep_single(self, singles: Singles) -> None:
        """Of the single tokens the best."""
        row = np.flatnonzero(singles.first < singles.count)
        token = singles.tokens[row, singles.first[row]]
        segments, start = pairs_of(row, token, token), np.zeros(len(row))
        self.keep(
            segments, start, self.worth(segments, start), singles.log_p[row, singles.first[row]]
        )

    def same_sum(self, rows: np.ndarray) -> None:
        """The attention most different from the model's own of those with the same attended sum, where there are any."""
        furthest = _furthest_of_same_sum(self.readout.contribution, self.alpha, rows)
        other = np.flatnonzero(
            self.alpha.with_values(furthest.values != self.alpha.values).reduce(np.logical_or)
        )
        value = self.alpha.with_values(jsd_terms(furthest.values, self.alpha.values)).sum()[other]
        found = self.outputs.under(
            other, lambda chosen: furthest.take(other[chosen]), self._measure
        )
        better = (found[:, 0] <= self.limit) & (value > self.best.value[other])
        self.take(other[better], furthest.take(other[better]), value[better], found[better, 1:])

    def single_tokens(self) -> Singles:
        """The token of least attention first: where it is within ε, no other is read out."""
        tokens, count = _by_attention(self.alpha)
        n, most = tokens.shape
        distance, log_p = (
            np.full((n, most), np.inf),
            np.zeros((n, most, self.own_p.shape[1]), self.own_p.dtype),
        )
        for ranks in (np.arange(most) == 0, np.arange(most) > 0):
            row, rank = np.nonzero(
                ranks & (np.arange(most) < count[:, None]) & ~(distance[:, :1] <= self.limit)
            )
            segments = pairs_of(row, tokens[row, rank], tokens[row, rank])
            distance[row, rank], log_p[row, rank] = self.read(segments, np.zeros(len(row)))
        within = distance <= self.limit
        first = np.where(within.any(axis=1), within.argmax(axis=1), count)
        return Singles(tokens, distance, log_p, count, first)

    def pairs(
        self, singles: Singles, rows: np.ndarray
    ) -> tuple[Segments, Curves, np.ndarray, np.ndarray]:
        """The pairs worth following, by the model that agrees with the output at both tokens and in the middle."""
        row, start, end = self._candidates(singles, rows)
        segments = pairs_of(row, singles.tokens[row, start], singles.tokens[row, end])
        chosen = np.concatenate(
            [np.zeros(0, np.int64), *self._promising(singles, row, start, end, segments)]
        )
        segments, row, start, end = segments.take(chosen), row[chosen], start[chosen], end[chosen]
        curves = Curves.between(singles.log_p[row, start], singles.log_p[row, end])
        segments, curves = self._bent(segments, curves)
        chosen = self.most_promising(
            segments, crossing_of(*curves, self.own_p[row], self.limit), FOLLOWED
        )
        distance = singles.distance[row[chosen, None], np.column_stack([start, end])[chosen]]
        return (
            segments.take(chosen),
            curves.take(chosen),
            distance[:, 0],
            distance[:, 1] <= self.limit,
        )

    def _candidates(
        self, singles: Singles, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row, rank where it starts and rank where it ends of every pair considered.

        Both are the tokens of least attention, and those whose own output is nearest to the model's.
        """
        ranks = np.arange(singles.tokens.shape[1])
        near = np.where(ranks < LEAST_ATTENDED, -1.0, singles.distance[rows])
        ends = np.argsort(near, axis=1, kind="stable")[:, :PARTNERS]
        starts = np.argsort(
            np.where(ranks < singles.first[rows, None], near, np.inf), axis=1, kind="stable"
        )[:, :STARTS]
        fits = (starts < singles.first[rows, None])[:, :, None] & (
            ends < singles.count[rows, None]
        )[:, None, :]
        row, start, end = np.nonzero(fits & (starts[:, :, None] != ends[:, None, :]))
        return rows[row], starts[row, start], ends[row, end]

    def _promising(
        self,
        singles: Singles,
        row: np.ndarray,
        start: np.ndarray,
        end: np.ndarray,
        segments: Segments,
    ) -> list[np.ndarray]:
        """The pairs whose middle is to be read out, by the linear model; rows in pieces, since each pair holds its curves."""
        found = []
        for low, high in pairwise(
            np.searchsorted(row, np.arange(0, len(self.alpha) + PIECE, PIECE))
        ):
            piece = np.arange(low, high)
            curves = Curves.between(
                singles.log_p[row[piece], start[piece]], singles.log_p[row[piece], end[piece]]
            )
            crossing = crossing_of(*curves, self.own_p[row[piece]], self.limit)
            found.append(low + self.most_promising(segments.take(piece), crossing, MIDDLES))
        return found

    def by_programs(self, singles: Singles, rows: np.ndarray) -> None:
        """Attention of several tokens: linear programs on a model that is shifted to agree with each output read out.

        Between more than two classes a segment of two tokens may pass the outputs within ε by; several tokens together need not.
        """
        shift, margin, least = (
            np.zeros((len(rows), self.own_p.shape[1])),
            np.full(len(rows), self.limit),
            self._least(singles, rows),
        )
        slopes = gains(np.ones(least.shape), least)
        for number in range(PROGRAMS):
            weights = self._program(
                singles, rows, singles.log_p[rows] + shift[:, None], slopes, margin, (0.0, 1.0)
            )
            solved = ~np.isnan(weights[:, 0])
            rows, margin, least, weights = (
                rows[solved],
                margin[solved],
                least[solved],
                weights[solved],
            )
            segments, start = _of_largest(rows, singles, weights), np.zeros(len(rows))
            distance, log_p = self.read(segments, start)
            value, within = self.worth(segments, start), distance <= self.limit
            self.keep(segments.take(within), start[within], value[within], log_p[within])
            if number == PROGRAMS - 1:
                self._to_best(segments, distance, log_p, ~within & (value > self.best.value[rows]))
            shift = log_p - (weights[:, :, None] * singles.log_p[rows]).sum(axis=1)
            margin = np.where(within, margin, 0.9 * margin)
            slopes = chords(weights, least)

    def _to_best(
        self, segments: Segments, distance: np.ndarray, log_p: np.ndarray, chosen: np.ndarray
    ) -> None:
        """Follow segments from attentions that are not within ε to the best so far."""
        segments, chosen = segments.take(chosen), np.flatnonzero(chosen)
        curves = Curves.between(log_p[chosen], self.best.log_p[segments.rows])
        self.follow(*self._bent(segments, curves), distance[chosen], np.ones(len(chosen), bool))

    def climb(self, singles: Singles, rows: np.ndarray, times: int) -> None:
        """From the best so far: a program on the slopes there, in a box around it, and the way from what it gives to the best."""
        box, moved, log_p = (
            np.full(len(self.alpha), BOX),
            np.ones(len(self.alpha), bool),
            singles.log_p.copy(),
        )
        for _ in range(times):
            rows = self.below_bound(singles, rows[box[rows] >= SMALLEST_BOX])
            before = self.best.value[rows].copy()
            self.tangents(singles, rows[moved[rows]], log_p)
            weights = self._step_up(singles, rows, log_p[rows], box[rows, None])
            solved = ~np.isnan(weights[:, 0])
            tried = rows[solved]
            segments, start = _of_largest(tried, singles, weights[solved]), np.zeros(len(tried))
            distance, found = self.read(segments, start)
            value, within = self.worth(segments, start), distance <= self.limit
            self.keep(segments.take(within), start[within], value[within], found[within])
            self._to_best(segments, distance, found, ~within & (value > before[solved]))
            moved[rows] = self.best.value[rows] > before
            box[rows[self.best.value[rows] <= before + PROGRESS]] *= 0.5

    def _step_up(
        self, singles: Singles, rows: np.ndarray, log_p: np.ndarray, box: Float[np.ndarray, "m 1"]
    ) -> Float[np.ndarray, "m k"]:
        least, best = self._least(singles, rows), self.best.attention
        held = best.values[best.offsets[rows, None] + singles.tokens[rows]]
        low, high = np.maximum(held - box, 0.0), np.minimum(held + box, 1.0)
        slopes = (gains(high, least) - gains(low, least)) / (high - low)
        return self._program(
            singles, rows, log_p, slopes, np.full(len(rows), self.limit), (low, high)
        )

    def _bent(self, segments: Segments, curves: Curves) -> tuple[Segments, Curves]:
        """The segments, and their curves through the outputs in the middle."""
        half = np.full(len(segments.rows), 0.5)
        return segments, curves.bent(half, self.read(segments, half)[1])

    def _least(self, singles: Singles, rows: np.ndarray) -> Float[np.ndarray, "m k"]:
        """The model's own attention to the tokens of the ``rows`` that were read out; further places repeat the first position's."""
        return self.alpha.values[self.alpha.offsets[rows, None] + singles.tokens[rows]]

    def _program(
        self,
        singles: Singles,
        rows: np.ndarray,
        log_p: np.ndarray,
        slopes: np.ndarray,
        margin: np.ndarray,
        box: tuple[Any, Any],
    ) -> Float[np.ndarray, "m k"]:
        own = self.own_p[rows]
        low, high = (np.broadcast_to(end, slopes.shape) for end in box)
        return linear_attention(
            log_p - np.log(own)[:, None], singles.count[rows], own, slopes, margin, (low, high)
        )

    def below_bound(self, singles: Singles, rows: np.ndarray) -> np.ndarray:
        """The rows whose best is more than `GAP` below all attention on the token of least attention, which no attention exceeds."""
        least = self.alpha.values[self.alpha.offsets[rows] + singles.tokens[rows, 0]]
        return rows[self.best.value[rows] < 0.5 * LN2 + gains(np.ones(len(rows)), least) - GAP]

    def tangents(
        self, singles: Singles, rows: np.ndarray, log_p: Float[np.ndarray, "n k c"]
    ) -> None:
        """Sets in ``log_p`` those of each single token by the slopes at the best attention so far of the ``rows``."""
        best = self.best
        row, rank = np.nonzero(np.arange(log_p.shape[1]) < singles.count[rows, None])
        row = rows[row]
        found = self.read(
            _to_the_best(row, singles.tokens[row, rank]), np.full(len(row), 1.0 - STEP)
        )[1]
        log_p[row, rank] = best.log_p[row] + (found - best.log_p[row]) / STEP

    def one_more(
        self, singles: Singles, rows: np.ndarray
    ) -> tuple[Segments, Curves, np.ndarray, np.ndarray]:
        """From the tokens of least attention to the best so far."""
        ranks = np.arange(min(MORE, singles.tokens.shape[1]))
        row, rank = np.nonzero(ranks < np.minimum(singles.first, singles.count)[rows, None])
        row = rows[row]
        curves = Curves.between(singles.log_p[row, rank], self.best.log_p[row])
        bent = self._bent(_to_the_best(row, singles.tokens[row, rank]), curves)
        return *bent, singles.distance[row, rank], np.ones(len(row), bool)

    def follow(
        self,
        segments: Segments,
        curves: Curves,
        distance: Float[np.ndarray, " m"],
        ends: Bool[np.ndarray, " m"],
    ) -> None:
        """Read the outputs along segments, whose start is ``distance`` away, to the first point within ε, and keep what is best.

        ``ends`` are those whose end is known to be within ε.
        """
        walk = Walk.of(distance - self.limit, curves.a)
        for number in range(AIMS):
            left = np.flatnonzero(np.isnan(walk.high) & ~(ends & (number > 0)))
            t = crossing_of(*curves.take(left), self.own_p[segments.rows[left]], self.limit).inside
            curves = curves.with_rows(
                left, curves.take(left).bent(t, self._step(walk, segments, left, t))
            )
        walk.end_at(ends)
        walk.start_before_high()
        first = crossing_of(*curves, self.own_p[segments.rows], self.limit).first
        for number in range(STEPS):
            reachable = np.maximum(
                self.worth(segments, walk.low), self.worth(segments, np.nan_to_num(walk.high))
            )
            left = np.flatnonzero(
                (reachable > self.best.value[segments.rows]) & (walk.high - walk.low > 1e-7)
            )
            self._step(walk, segments, left, walk.aim(left, first if number == 0 else None))
        known = np.flatnonzero(~np.isnan(walk.high))
        segments, t = segments.take(known), walk.high[known]
        self.keep(segments, t, self.worth(segments, t), walk.log_p[known])

    def _step(self, walk: Walk, segments: Segments, left: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Read out a point of each of the segments ``left``; returns the log-probabilities there."""
        distance, log_p = self.read(segments.take(left), t)
        walk.note(left, t, distance - self.limit, log_p)
        return log_p

    def most_promising(
        self, segments: Segments, crossing: Crossing, most: int
    ) -> Int64[np.ndarray, " k"]:
        """Of every row the ``most`` segments of largest JSD where they come within ε, those that miss it after all others."""
        score = np.where(crossing.miss > 0.0, -crossing.miss, self.worth(segments, crossing.first))
        useful = (score <= 0.0) | (score > self.best.value[segments.rows])
        order = np.lexsort((-score, segments.rows))
        order = order[useful[order]]
        rows = segments.rows[order]
        place = np.arange(len(order)) - np.searchsorted(rows, rows)
        return np.sort(order[place < most])

    def modelled(self, prediction: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Probabilities of the classes modelled, which stand for all others where there are any."""
        both = two_classes(prediction)
        if self.classes is None:
            return np.maximum(both, LEAST)
        classes, weight = self.classes
        kept = np.maximum(np.take_along_axis(both, classes[rows], axis=1) * weight[rows], LEAST)
        return (kept / kept.sum(axis=1, keepdims=True)).astype(
            np.float32
        )  # what an estimate is good for

    def read(self, segments: Segments, t: Float[np.ndarray, " m"]) -> tuple[np.ndarray, np.ndarray]:
        """TVD from the model's output (m,) and modelled log-probabilities (m, classes) at a point of every segment."""
        found = self.outputs.under(
            segments.rows,
            lambda chosen: self.attention(segments.take(chosen), t[chosen]),
            self._measure,
        )
        return found[:, 0], found[:, 1:].astype(self.own_p.dtype)

    def _measure(self, prediction: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.hstack(
            [
                self.outputs.distance(prediction, rows)[:, None],
                np.log(self.modelled(prediction, rows)),
            ]
        )

    def attention(self, segments: Segments, t: Float[np.ndarray, " m"]) -> Ragged:
        """The attention at a point of every segment."""
        made = few_tokens(self.alpha.lengths[segments.rows], segments.tokens, segments.weights(t))
        if not segments.best.any():
            return made
        return made.with_values(
            made.values
            + made.spread(t * segments.best) * self.best.attention.take(segments.rows).values
        )

    def worth(self, segments: Segments, t: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """JSD to the model's own attention at a point of every segment."""
        old = self.alpha.values[self.alpha.offsets[segments.rows][:, None] + segments.tokens]
        value = 0.5 * LN2 + gains(segments.weights(t), old).sum(axis=1)
        mixed = np.flatnonzero(segments.best)
        made = self.attention(segments.take(mixed), t[mixed])
        value[mixed] = made.with_values(
            jsd_terms(made.values, self.alpha.take(segments.rows[mixed]).values)
        ).sum()
        return value

    def keep(self, segments: Segments, t: np.ndarray, value: np.ndarray, log_p: np.ndarray) -> None:
        """Take what is better than the best so far, of several segments of a row the best."""
        order = np.lexsort((-value, segments.rows))
        order = order[value[order] > self.best.value[segments.rows[order]]]
        rows, first = np.unique(segments.rows[order], return_index=True)
        chosen = order[first]
        self.take(
            rows, self.attention(segments.take(chosen), t[chosen]), value[chosen], log_p[chosen]
        )

    def take(
        self, rows: np.ndarray, attention: Ragged, value: np.ndarray, log_p: np.ndarray
    ) -> None:
        """Make ``attention`` the best so far of the ``rows``."""
        self.best.value[rows], self.best.log_p[rows] = value, log_p
        self.best.attention.values[self.alpha.positions(rows)] = attention.values


def _moved_within(outputs: Outputs, found: Ragged, limit: float) -> Ragged:
    """What was found, of all classes within ``limit``: where it is not, moved towards the model's own attention, along which TVD falls."""
    alpha, share = outputs.alpha, np.ones(len(found))

    def moved(rows: np.ndarray) -> Ragged:
        own, other = alpha.take(rows), found.take(rows)
        return own.with_values(own.values + own.spread(share[rows]) * (other.values - own.values))

    outside = np.arange(len(found))
    for _ in range(NEARER):
        rows = outside
        distance = outputs.under(
            rows, lambda chosen, rows=rows: moved(rows[chosen]), outputs.distance
        )
        beyond = ~(distance <= limit)  # NaN too
        outside = rows[beyond]
        share[outside] *= 0.999 * limit / distance[beyond]
    share[outside] = 0.0
    return moved(np.arange(len(found)))


def _furthest_of_same_sum(contribution: Ragged, alpha: Ragged, rows: np.ndarray) -> Ragged:
    """Of each of the ``rows`` the attention found with the same attended sum that differs most; of the others their own."""
    values = alpha.values.copy()
    moved = movements(contribution.take(rows), alpha.take(rows), RANGES)
    for row, ends in zip(rows.tolist(), moved.ends, strict=True):
        furthest = jsd_terms(ends, np.broadcast_to(alpha[row], ends.shape)).sum(axis=1).argmax()
        values[alpha.offsets[row] : alpha.offsets[row + 1]] = ends[furthest]
    return alpha.with_values(values)


def _to_the_best(rows: np.ndarray, tokens: np.ndarray) -> Segments:
    """From all attention on a token to the best attention so far."""
    return Segments(
        rows, tokens[:, None], np.ones((len(rows), 1)), np.zeros((len(rows), 1)), np.ones(len(rows))
    )


def _of_largest(rows: np.ndarray, singles: Singles, weights: Float[np.ndarray, "m k"]) -> Segments:
    """From the `SUPPORT` largest weights of every row, scaled to sum to 1, to the best attention so far."""
    largest = np.argsort(-weights, axis=1, kind="stable")[:, :SUPPORT]
    kept = np.take_along_axis(weights, largest, axis=1)
    kept = np.where(kept > TINY, kept, 0.0)
    start = kept / kept.sum(axis=1, keepdims=True)
    return Segments(
        rows,
        np.take_along_axis(singles.tokens[rows], largest, axis=1),
        start,
        np.zeros_like(start),
        np.ones(len(rows)),
    )


def _modelled_classes(
    prediction: Float[np.ndarray, "n C"],
) -> tuple[Int64[np.ndarray, "n k"], Float[np.ndarray, "n k"]] | None:
    """The classes modelled one by one, and for how many each stands; None for all."""
    return None if prediction.shape[1] <= CLASSES else representatives(prediction, STAND_IN)


def _by_attention(alpha: Ragged) -> tuple[Int64[np.ndarray, "n k"], Int64[np.ndarray, " n"]]:
    """The positions of every row by attention, least first, `TOKENS` of them at most, and how many there are.

    Of a longer row they are those of least attention, and `SPREAD` evenly spaced among the others, the one of most attention included.
    """
    count = np.minimum(alpha.lengths, TOKENS)
    tokens = np.zeros((len(alpha), int(count.max(initial=0))), np.int64)
    for row, weights in enumerate(alpha):
        order, least = np.argsort(weights, kind="stable"), TOKENS - SPREAD
        if len(order) > TOKENS:
            order = np.concatenate(
                [order[:least], order[np.linspace(least, len(order) - 1, SPREAD).astype(np.int64)]]
            )
        tokens[row, : count[row]] = order
    return tokens, count

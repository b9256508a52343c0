"""One row of a trace as the compiled adversary sees it: what is allowed, and how far an attention is from the model's own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnaudit.core.arrays import numbers_below, part_of, plus, taken, where_positive
from attnaudit.core.kernels import subroutine
from attnaudit.core.references import by_reference
from attnaudit.experiments.adversary.exact import gain
from attnaudit.experiments.compiled_readout import (
    Head,
    pool,
    pooled_logits,
    pooled_prediction,
    tvd_row,
)
from attnaudit.stats.measures import LN2
from attnaudit.stats.ordering import ascending, descending

CLASSES = 24
CLASSES_WITH_TAIL = 8


@by_reference
@dataclass(frozen=True)
class Row:
    """One row of a trace: its attention, what each token contributes, the head, the output that must not move beyond ``epsilon``.

    Of tokens with one and the same readout only that of least attention is considered: how weight is shared among them does not change the
    output, and JSD is convex. ``tokens`` are the positions of those left, ``stand_in`` says for every position which of them represents
    it, ``alpha`` is what the model gives to each, ``own`` what it gives to all that each represents. ``kept`` are the classes that are
    considered one by one; the others count in what is allowed alone.
    """

    tokens: np.ndarray
    stand_in: np.ndarray
    alpha: np.ndarray
    own: np.ndarray
    contribution: np.ndarray
    offset: np.ndarray
    head: Head
    target: np.ndarray
    kept: np.ndarray
    epsilon: float


@subroutine
def as_row(parts, epsilon):
    """A row from its `row_parts`, with its allowed answers alone."""
    alpha, contribution, offset, head = parts
    answers, every = where_positive(head.allowed), numbers_below(len(alpha))
    weight, allowed = (
        part_of(head.weight, numbers_below(len(head.weight)), answers),
        taken(head.allowed, answers),
    )
    head = Head(weight, taken(head.bias, answers), head.tail, allowed, False)
    if not head.tail:
        contribution, offset = part_of(contribution, every, answers), taken(offset, answers)
    tokens, stand_in = _least_of_equals(alpha, contribution)
    own, contribution = (
        merged(alpha, stand_in, len(tokens)),
        part_of(contribution, tokens, numbers_below(len(offset))),
    )
    target = pooled_prediction(pool(own, contribution, offset), head)
    kept = _classes_kept(contribution, offset, head, target)
    return Row(
        tokens,
        stand_in,
        taken(alpha, tokens),
        own,
        contribution,
        offset,
        head,
        target,
        kept,
        epsilon,
    )


@subroutine
def _least_of_equals(alpha, contribution):
    """Of every set of tokens with the same readout the one of least attention; and which of these represents each token."""
    size = len(alpha)
    first, least, start = np.empty(size), np.empty(size, np.int64), 0
    for t in range(size):
        first[t] = contribution[t, 0]
    order = ascending(first)
    for k in range(1, size + 1):
        if k == size or _differ(contribution[order[k]], contribution[order[start]]):
            of_least = order[start]
            for j in range(start, k):
                if alpha[order[j]] < alpha[of_least]:
                    of_least = order[j]
            for j in range(start, k):
                least[order[j]] = of_least
            start = k
    tokens, rank, count = np.empty(size, np.int64), np.empty(size, np.int64), 0
    for t in range(size):
        if least[t] == t:
            tokens[count], rank[t] = t, count
            count += 1
    for t in range(size):
        least[t] = rank[least[t]]
    return tokens[:count], least


@subroutine
def _differ(one, other):
    unequal = 0
    for p in range(len(one)):
        unequal += one[p] != other[p]
    return unequal > 0


@subroutine
def merged(weights, stand_in, count):
    """Every token's weight given to the one of ``count`` that represents it."""
    total = np.zeros(count)
    for t in range(len(weights)):
        total[stand_in[t]] += weights[t]
    return total


@subroutine
def _classes_kept(contribution, offset, head, target):
    """The classes likely under the model's attention or under single tokens, as many as can be afforded, in the order they have."""
    likely = target.copy()
    if len(target) > CLASSES_WITH_TAIL:
        for t in range(len(contribution)):
            likely = plus(
                likely,
                1.0 / len(contribution),
                pooled_prediction(plus(offset, 1.0, contribution[t]), head),
            )
    chosen = np.zeros(len(target), np.bool_)
    order = descending(likely)
    for k in range(min(CLASSES_WITH_TAIL if head.tail else CLASSES, len(order))):
        chosen[order[k]] = True
    return where_positive(chosen)


@subroutine
def attended_sum(row, weights):
    return pool(weights, row.contribution, row.offset)


@subroutine
def own_logits(row):
    """The logits under the model's own attention."""
    return pooled_logits(attended_sum(row, row.own), row.head)


@subroutine
def worth(row, weights):
    """JSD of ``weights`` to the row's attention."""
    value = 0.5 * LN2
    for t in range(len(weights)):
        value += gain(weights[t], row.alpha[t])
    return value


@subroutine
def affordable(row, additions):
    """How many outputs may be computed with so many additions, 16 at least."""
    return max(16, additions // (len(row.offset) * (1 + len(row.target))))


@subroutine
def beyond(row, pooled):
    """How far the output under an attended sum is beyond ε; allowed where this is not above 0."""
    return tvd_row(pooled_prediction(pooled, row.head), row.target) - row.epsilon


@subroutine
def is_allowed(row, weights):
    return beyond(row, attended_sum(row, weights)) <= 0.0

"""The attention that changes the output most, as far as it is found: all attention on one token, and mixtures of the best few.

With one sigmoid output, or a softmax over two classes, and an identity tail the probability is monotone in one logit, which is linear in
the attention: its extremes are single tokens, and what is found is the maximum. In general it is not. With logits (2, 5, −5) and (2, −5, 5)
of two tokens the first class has probability 0.05 under either and 0.79 under half of each, so that mixtures are tried too.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.experiments.adversary.exact import one_logit_decides
from attnaudit.experiments.through_tail import NOISE, Outputs, has_compiled_tail
from attnaudit.trace import Trace

MIXED, ROUNDS = (
    4,
    3,
)  # the tokens of largest change that are mixed, and how often a mixture is improved
MIXED_COMPILED, ROUNDS_COMPILED = 6, 8  # the same where an output costs little
ROUNDING = 1e-12


class Alone(NamedTuple):
    """Of every position the change of the output (TVD) with all attention on it, and whether that flips the decision, both flat (N,)."""

    change: Float[np.ndarray, " N"]
    flips: Bool[np.ndarray, " N"]


class Change(NamedTuple):
    """Of every row the largest change found, the single token of largest change, and whether any attention found flips the decision."""

    largest: Float[np.ndarray, " n"]
    position: Int64[np.ndarray, " n"]
    flips: Bool[np.ndarray, " n"]


class OneHead(NamedTuple):
    """What is found for every row of a trace, with all positions allowed."""

    outputs: Outputs
    alone: Alone
    change: Change


def one_head(trace: Trace) -> OneHead:
    """The largest change of each row; kept with the trace, since more than one experiment asks for it."""
    if not isinstance(found := trace.kept.get(one_head.__name__), OneHead):
        outputs = Outputs.of(trace.readout, trace.alpha)
        alone = each_alone(outputs)
        found = OneHead(
            outputs, alone, largest_change(outputs, alone, np.ones(len(trace.alpha.values), bool))
        )
        trace.kept[one_head.__name__] = found
    return found


def each_alone(outputs: Outputs) -> Alone:
    """All attention on each position in turn."""
    alpha = outputs.alpha
    position = np.arange(len(alpha.values)) - alpha.spread(alpha.offsets[:-1])
    found = outputs.under_few(
        alpha.row_of_value,
        position[:, None],
        np.ones((len(position), 1)),
        _change_and_lead(outputs),
    )
    return Alone(found[:, 0], _is_flip(outputs, found[:, 1]))


def largest_change(outputs: Outputs, alone: Alone, allowed: Bool[np.ndarray, " N"]) -> Change:
    """The largest change by attention on the ``allowed`` positions alone, of which every row has one."""
    alpha = outputs.alpha
    change = alpha.with_values(np.where(allowed, alone.change, -1.0))
    flips = alpha.with_values(alone.flips & allowed).reduce(np.logical_or)
    best = change.max()
    large = np.flatnonzero(change.values >= change.spread(best - NOISE))
    position = large[np.searchsorted(large, alpha.offsets[:-1])] - alpha.offsets[:-1]
    if one_logit_decides(outputs.readout):
        return Change(best, position, flips)
    mixed, by_mixture = _mixtures(outputs, change, best)
    return Change(mixed, position, flips | by_mixture)


def is_mixed(outputs: Outputs, alone: Alone) -> Bool[np.ndarray, " N"]:
    """The positions that mixtures are made of where all are allowed: without the others `largest_change` finds the same."""
    alpha = outputs.alpha
    tokens, _ = _largest(alpha.with_values(alone.change), _size(outputs)[0])
    mixed = np.zeros(len(alpha.values), bool)
    mixed[(alpha.offsets[:-1, None] + tokens).ravel()] = True
    return mixed


def _size(outputs: Outputs) -> tuple[int, int]:
    """How many tokens are mixed, and how often a mixture is improved."""
    return (
        (MIXED_COMPILED, ROUNDS_COMPILED) if has_compiled_tail(outputs.readout) else (MIXED, ROUNDS)
    )


def _change_and_lead(outputs: Outputs):
    return lambda prediction, rows: np.column_stack(
        [outputs.distance(prediction, rows), outputs.lead(prediction, rows)]
    )


def _is_flip(outputs: Outputs, lead: np.ndarray) -> np.ndarray:
    return lead < -(ROUNDING if has_compiled_tail(outputs.readout) else 2 * NOISE)


def _mixtures(
    outputs: Outputs, change: Ragged, best: Float[np.ndarray, " n"]
) -> tuple[np.ndarray, np.ndarray]:
    """The largest change by mixtures of the tokens of largest change, at least ``best``, and whether a mixture flips the decision.

    The middles of all pairs, then steps from the best mixture towards each of the tokens.
    """
    size, rounds = _size(outputs)
    tokens, usable = _largest(change, size)
    rows, best = np.flatnonzero(usable.sum(axis=1) > 1), best.copy()
    weights, flips = np.zeros((len(change), size)), np.zeros(len(change), bool)
    weights[:, 0] = 1.0

    def take(made: Float[np.ndarray, "r a k"]) -> None:
        """Read out a alternatives of each of the rows, and keep the best."""
        of, which = np.nonzero(~(made * ~usable[rows, None]).any(axis=2))
        found = outputs.under_few(
            rows[of], tokens[rows[of]], made[of, which], _change_and_lead(outputs)
        )
        flips[rows[of[_is_flip(outputs, found[:, 1])]]] = True
        order = np.lexsort((-found[:, 0], of))
        first = order[np.unique(of[order], return_index=True)[1]]
        better = first[found[first, 0] > best[rows[of[first]]]]
        best[rows[of[better]]], weights[rows[of[better]]] = (
            found[better, 0],
            made[of[better], which[better]],
        )

    corners = np.eye(size)
    take(
        np.tile(
            [0.5 * (corners[i] + corners[j]) for i, j in combinations(range(size), 2)],
            (len(rows), 1, 1),
        )
    )
    for number in range(rounds):
        step = 0.4 * 0.6**number
        take((1.0 - step) * weights[rows, None] + step * corners)
    return best, flips


def _largest(change: Ragged, size: int) -> tuple[Int64[np.ndarray, "n k"], Bool[np.ndarray, "n k"]]:
    """The positions of the largest changes of every row, and which of the entries are positions that may be used."""
    order = np.lexsort((-change.values, change.row_of_value))
    place = change.offsets[:-1, None] + np.arange(size)
    usable = np.arange(size) < change.lengths[:, None]
    flat = order[np.where(usable, place, 0)]
    return np.where(usable, flat - change.offsets[:-1, None], 0), usable & (
        change.values[flat] >= 0.0
    )

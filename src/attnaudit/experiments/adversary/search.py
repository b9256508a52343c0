"""The search for the furthest attention: attentions with few non-zero weights that keep the output, where it starts, and the climb.

The climb goes from one attention to a better one near it by the program of a small box around it, solved again and again. In a small box
the chords are nearly the slopes of f and the logits behind a tail nearly linear, so that the bound's program becomes a step of sequential
linear programming. What it ends with is drawn onto the allowed set; the box shrinks where nothing was gained.
"""

from __future__ import annotations

import numpy as np

from attnaudit.core.arrays import divide, fill, overwrite, plus, sum_of, taken, where_positive
from attnaudit.core.kernels import subroutine
from attnaudit.experiments.adversary.exact import gain
from attnaudit.experiments.adversary.moves import draw_in, exchange, reach, rescale, settle
from attnaudit.experiments.adversary.program import Box, bound_box, tightened
from attnaudit.experiments.adversary.row import affordable, beyond, is_allowed, worth
from attnaudit.stats.measures import LN2
from attnaudit.stats.ordering import ascending, descending

PAIRED = 15
PAIR_STEPS = 8
NEWCOMERS = 16
SWEEPS = 3
MEMBERS = 12
REPLACEMENTS = 200000
CLIMBS = 40
FIRST, SHRINK, SMALLEST = 0.1, 0.4, 1e-3  # sides of the boxes around an attention
GAIN = 1e-6


@subroutine
def first_attention(row, logits, furthest):
    """The best of the attentions to start from, into ``furthest``; its value. Without a tail single tokens do."""
    value = try_single_tokens(row, 0.0, furthest)
    if row.head.tail:
        value = try_pairs(row, ascending(row.alpha)[:PAIRED], value, furthest)
        value = try_thinning(row, logits, value, furthest)
        value = try_swaps(row, logits, value, furthest)
    return value


@subroutine
def take_better(row, weights, value, furthest):
    """``weights`` into ``furthest`` where they are further than ``value``; the larger of both values."""
    reached = worth(row, weights)
    if reached > value:
        overwrite(furthest, weights)
        return reached
    return value


@subroutine
def try_single_tokens(row, value, furthest):
    """The best token that alone keeps the output."""
    token = -1
    for t in range(len(row.alpha)):
        candidate = 0.5 * LN2 + gain(1.0, row.alpha[t])
        if candidate > value and beyond(row, plus(row.offset, 1.0, row.contribution[t])) <= 0.0:
            value, token = candidate, t
    if token >= 0:
        fill(furthest, 0.0)
        furthest[token] = 1.0
    return value


@subroutine
def try_thinning(row, logits, value, furthest):
    """The model's attention with its largest weights removed, half of what is left while the rest can make up for it, then fewer."""
    weights, aim, trial = row.own.copy(), taken(logits, row.kept), np.empty(len(row.own))
    order, first, share = descending(row.own), 0, 0.5
    while first < len(order) and len(where_positive(weights)) > 1:
        removed = max(int(share * len(where_positive(taken(weights, order[first:])))), 1)
        overwrite(trial, weights)
        for k in range(first, min(first + removed, len(order))):
            trial[order[k]] = 0.0
        left = sum_of(trial)
        if left > 0.0:
            divide(trial, left)
        if left > 0.0 and (is_allowed(row, trial) or settle(row, trial, aim)):
            overwrite(weights, trial)
            first += removed
        elif removed > 1:
            share *= 0.5
        else:
            first += 1
    members = where_positive(weights)
    if len(members) <= MEMBERS:
        exchange(row, weights, members)
    return take_better(row, weights, value, furthest)


@subroutine
def try_pairs(row, tokens, value, furthest):
    """The ends of what is allowed between two of ``tokens``."""
    for second in range(1, len(tokens)):
        for first in range(second):
            value = _try_pair(row, tokens[first], tokens[second], value, furthest)
    return value


@subroutine
def _try_pair(row, i, j, value, furthest):
    """Move from token j to token i in ``PAIR_STEPS`` steps; where the output comes within ε, or leaves it, find that point."""
    along, start = (
        plus(row.contribution[i], -1.0, row.contribution[j]),
        plus(row.offset, 1.0, row.contribution[j]),
    )
    backwards = plus(row.contribution[j], -1.0, row.contribution[i])
    before = beyond(row, start)
    for step in range(PAIR_STEPS):
        left, right = step / PAIR_STEPS, (step + 1.0) / PAIR_STEPS
        after = beyond(row, plus(start, right, along))
        share = -1.0
        if before <= 0.0 < after:
            share = left + reach(row, plus(start, left, along), along, right - left)
        elif after <= 0.0 < before:
            share = right - reach(row, plus(start, right, along), backwards, right - left)
        before = after
        candidate = 0.5 * LN2 + gain(share, row.alpha[i]) + gain(1.0 - share, row.alpha[j])
        if share > 0.0 and candidate > value:
            value = candidate
            fill(furthest, 0.0)
            furthest[i], furthest[j] = share, 1.0 - share
    return value


@subroutine
def try_swaps(row, logits, value, furthest):
    """Other tokens, of little attention, in the position of one of the few or next to them, the weights settled again; repeatedly."""
    aim, trial = taken(logits, row.kept), np.empty(len(furthest))
    newcomers = ascending(row.alpha)[: min(NEWCOMERS, affordable(row, REPLACEMENTS) // 8)]
    if len(where_positive(furthest)) > MEMBERS:
        return value
    for _ in range(SWEEPS):
        before, start = value, furthest.copy()
        members = where_positive(start)
        for i in newcomers:
            if start[i] > 0.0:
                continue
            for j in members:
                overwrite(trial, start)
                trial[i], trial[j] = start[j], 0.0
                value = _try_settled(row, trial, aim, value, furthest)
            if len(members) < len(row.kept):
                for t in range(len(trial)):
                    trial[t] = 0.75 * start[t]
                trial[i] = 0.25
                value = _try_settled(row, trial, aim, value, furthest)
        if value <= before + 1e-6:
            break
    return value


@subroutine
def _try_settled(row, trial, aim, value, furthest):
    if not (is_allowed(row, trial) or settle(row, trial, aim)) or worth(row, trial) < value - 0.03:
        return value
    exchange(row, trial, where_positive(trial))
    return take_better(row, trial, value, furthest)


@subroutine
def climb(row, built, weights, found, furthest):
    """The best attention reached from ``weights`` (changed in place), where it is further than ``found``, into ``furthest``."""
    if not draw_in(row, weights):
        return found
    trial, value, side = np.empty(len(weights)), worth(row, weights), FIRST
    for _ in range(CLIMBS):
        if side < SMALLEST:
            break
        if _best_near(row, built, weights, side, trial) and worth(row, trial) > value + GAIN:
            overwrite(weights, trial)
            value = worth(row, weights)
        else:
            side *= SHRINK
    exchange(row, weights, where_positive(weights))
    return take_better(row, weights, found, furthest)


@subroutine
def _best_near(row, built, weights, side, trial):
    """Into ``trial`` the end of the program of the box around ``weights``, drawn onto the allowed set; false where that fails."""
    low, high, low_p, high_p = (
        np.empty(len(weights)),
        np.empty(len(weights)),
        np.zeros(len(row.kept)),
        np.empty(len(row.kept)),
    )
    for t in range(len(weights)):
        low[t], high[t] = max(weights[t] - side, 0.0), min(weights[t] + side, 1.0)
    fill(high_p, 1.0)
    if not tightened(low, high) or bound_box(built, Box(low, high, low_p, high_p), trial) < 0.0:
        return False
    rescale(trial)
    return draw_in(row, trial)

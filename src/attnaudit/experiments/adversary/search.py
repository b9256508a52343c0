"""The search for the furthest attention within ε, through any tail, for many rows at once.

A strategy proposes attentions, or segments from one that is further away to one within ε. `State`
walks them and accepts what is better. The strategies, in this order:

- single tokens: all attention on one;
- the same attended sum, and so the same output, behind a network;
- pairs: mixtures of two tokens;
- climbs: mixtures of several tokens, which solve programs on the slopes at the best attention so
  far, in a box that shrinks. Identity tails need none;
- bounds: what solves the programs of `bounds`, behind all tails but networks.

Of a vocabulary the search reads classes that stand for all others (`some_classes`). What it finds
is then read for all of them, and moved towards the model's own attention where it is beyond ε.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from attnaudit.core.ragged import Ragged
from attnaudit.core.shapes import Indices, PerRow
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.adversary.bounds import bound_by_programs
from attnaudit.experiments.adversary.exact import divergence, gains, unconstrained_bound
from attnaudit.experiments.adversary.program import LEAST, Task, best_weights
from attnaudit.experiments.adversary.some_classes import (
    MANY,
    blocks,
    of_some_classes,
)
from attnaudit.experiments.adversary.state import GAP, Proposal, Segments, State, centred
from attnaudit.experiments.identifiability.null_space import movements
from attnaudit.experiments.through_tail import (
    Outputs,
    attended_sums,
    few_tokens,
    has_compiled_tail,
)
from attnaudit.stats.measures import jsd_terms
from attnaudit.trace import IdentityTail, LinearTail, Readout

BLOCK = 1 << 14  # positions of the rows that are searched together
TOKENS, SPREAD = 64, 16  # tokens read alone; of a longer row so many are not of least attention
STARTS, FOLLOWED = 16, 12  # tokens of least attention that pairs begin with, and pairs read out
AIMS = 2  # outputs read to find a point of a pair within ε
INNER = (1e-3, 1.0 - 1e-3)  # of a pair: at its ends no parabola goes through what is read
CLIMBS = 10  # programs of a row, behind another tail each with the slopes at the best so far
SECOND_BOX = 0.12  # the first of the second climb, which starts at the model's own attention
SMALLEST_BOX = 0.03  # how far they move a weight at least
PROGRESS = 2e-3  # JSD; a box that gains less is halved
STEP = 0.02  # towards a token, by which slopes are measured
CLOSER = 4  # outputs of all classes read to move what was found by some of them within ε


class Bounded(NamedTuple):
    """The furthest attention found in each of n rows, and the JSD that none exceeds, ``(n,)``."""

    attention: Ragged
    upper: PerRow


def bounded_attention(readout: Readout, alpha: Ragged, epsilon: float) -> Bounded:
    """Find for every row an attention far from ``alpha`` whose output is within ``epsilon``."""
    values, upper = alpha.values.astype(np.float64), np.empty(len(alpha))
    for rows in alpha.blocks(BLOCK):
        outputs = Outputs.of(readout.take(rows), alpha.take(rows))
        by_some = outputs.own.shape[1] >= MANY
        found = (_search_some if by_some else search)(outputs, epsilon)
        values[alpha.positions(rows)], upper[rows] = found.attention.values, found.upper
    return Bounded(alpha.with_values(values), upper)


def search(outputs: Outputs, epsilon: float) -> Bounded:
    """Run all strategies on some rows."""
    state, tokens = State(outputs, epsilon), _by_attention(outputs.alpha)
    # Where the token of least attention is within ε nothing is better.
    least = Ragged.from_lengths(tokens.values[tokens.offsets[:-1]], np.ones(len(tokens), np.int64))
    _read_singles(state, np.arange(len(tokens)), least)
    rows = state.open_rows()
    if len(rows):
        tokens = tokens.take(rows)
        log_p = tokens.with_values(_read_singles(state, rows, tokens))
        if not has_compiled_tail(outputs.readout):
            state.accept(_same_sum(state, rows))
        state.accept(_pairs(state, rows, tokens, log_p))
        if not isinstance(outputs.readout.tail, IdentityTail):
            _climb(state, rows, tokens, log_p, 1.0)
            # Another climb ends at another local maximum, as it starts elsewhere.
            again = State(outputs, epsilon)
            again.upper = np.where(state.value < state.upper - GAP, again.upper, 0.0)
            _climb(again, rows, tokens, log_p, SECOND_BOX)
            state.keep(np.arange(len(state.value)), again.attention, again.value)
    # Bounds come after climbs: their targets are just above the best attention so far.
    if isinstance(outputs.readout.tail, IdentityTail | LinearTail):
        bound_by_programs(state)
    return Bounded(state.attention, np.maximum(state.upper, state.value))


def _same_sum(state: State, rows: Indices) -> Segments:
    """Propose the furthest attention with the model's own attended sum, and so its output."""
    alpha, ends = state.alpha.take(rows), []
    found = movements(state.outputs.readout.contribution.take(rows), alpha)
    for own, others in zip(alpha, found.ends, strict=True):
        value = jsd_terms(others, np.broadcast_to(own, others.shape)).sum(axis=1)
        ends.append(others[value.argmax()])
    return Segments(rows, Ragged.from_rows(ends, np.float64), state.attention.take(rows))


def _by_attention(alpha: Ragged) -> Ragged:
    """Return at most `TOKENS` positions of every row, least attention first.

    Of a longer row they are those of least attention and `SPREAD` evenly spaced among the others,
    the one of most attention included.
    """
    orders, least = [], TOKENS - SPREAD
    for weights in alpha:
        order = np.argsort(weights, kind="stable")
        if len(order) > TOKENS:
            rest = np.linspace(least, len(order) - 1, SPREAD).astype(np.int64)
            order = order[np.append(np.arange(least), rest)]
        orders.append(order)
    return Ragged.from_rows(orders, np.int64)


def _read_singles(state: State, rows: Indices, tokens: Ragged) -> Float[np.ndarray, "M classes"]:
    """Read single tokens of rows, keep the best, and return the log-probabilities modelled."""
    row, alone = rows[tokens.row_of_value], tokens.values[:, None]
    read = state.outputs.under_few(row, alone, np.ones(alone.shape), state.measure)
    within = np.flatnonzero(read[:, 0] <= state.limit)
    chosen, lengths = row[within], state.alpha.lengths[row[within]]
    attention = few_tokens(lengths, alone[within], np.ones((len(within), 1)))
    state.keep(chosen, attention, divergence(attention, state.alpha.take(chosen)))
    return read[:, 1:]


def _pairs(state: State, rows: Indices, tokens: Ragged, log_p: Ragged) -> Segments:
    """Propose segments from single tokens to the mixtures with another token nearest to the output.

    Log-odds against the model's own output are taken to mix like the weights, and each probability
    to change by its log-odds.
    """

    def changes(log_p, own):
        return np.sqrt(own) * centred(log_p - np.log(own), own)

    found = [np.zeros((3, 0))]
    for place, row in enumerate(rows.tolist()):
        alpha, moves = state.alpha[row][tokens[place]], changes(log_p[place], state.own[row])
        one, way = moves[:STARTS, None], moves - moves[:STARTS, None]
        share = np.clip(_nearest(one, way), 0.0, 1.0)
        distance = 0.5 * np.abs(one + share[:, :, None] * way).sum(axis=2)
        value = gains(1.0 - share, alpha[:STARTS, None]) + gains(share, alpha)
        score = np.where(distance <= state.limit, value, -1.0 - distance)
        score[share == 0.0] = -np.inf  # a token and itself, too
        best = np.argsort(-score, axis=None)[:FOLLOWED]
        found.append(np.stack([np.full(len(best), place), *np.divmod(best, len(alpha))]))
    place, i, j = np.concatenate(found, axis=1).astype(np.int64)
    row, first = rows[place], tokens.offsets[place]
    pair, own = tokens.values[first[:, None] + np.stack([i, j], axis=1)], state.own[row]
    start, end = (changes(log_p.values[first + k], own) for k in (i, j))
    share = np.clip(_nearest(start, end - start), *INNER)
    for _ in range(AIMS):
        weights = np.stack([1.0 - share, share], axis=1)
        read = state.outputs.under_few(row, pair, weights, state.measure)
        here, t = changes(read[:, 1:], own), share[:, None]
        # The slope of the parabola through both tokens and what was read.
        slope = here * (1.0 / t - 1.0 / (1.0 - t)) - start * (1.0 - t) / t + end * t / (1.0 - t)
        aimed = np.clip(share + _nearest(here, slope), *INNER)
        share = np.where(read[:, 0] <= state.limit, share, aimed)
    lengths, weights = state.alpha.lengths[row], np.stack([1.0 - share, share], axis=1)
    alone = few_tokens(lengths, pair[:, :1], np.ones((len(row), 1)))
    return Segments(row, alone, few_tokens(lengths, pair, weights))


def _nearest(start: np.ndarray, way: np.ndarray) -> np.ndarray:
    """Return the t of the least ``Σ |start + t · way|`` over the last axis: a weighted median."""
    size = np.maximum(np.abs(way), LEAST)
    zeros = -start / np.copysign(size, way)
    order = np.argsort(zeros, axis=-1)
    weight = np.cumsum(np.take_along_axis(size, order, axis=-1), axis=-1)
    middle = (weight >= 0.5 * weight[..., -1:]).argmax(axis=-1)[..., None]
    return np.take_along_axis(np.take_along_axis(zeros, order, axis=-1), middle, axis=-1)[..., 0]


def _climb(state: State, rows: Indices, tokens: Ragged, log_p: Ragged, first: float) -> None:
    """Propose what solves programs on the slopes at the best attention, in boxes around it.

    A box is halved where it gains little. In the whole simplex, a box of size 1, the outputs of
    single tokens take the place of slopes.

    Args:
        state: The best attention so far.
        rows: Rows to climb in.
        tokens: Positions that may have weight.
        log_p: Log-probabilities of the classes modelled, by single tokens, ``(k, classes)`` a row.
        first: Size of the first box.
    """
    log_p = tokens.with_values(log_p.values.copy())
    size, moved = np.full(len(rows), first), np.full(len(rows), first < 1.0)
    readout = state.outputs.readout
    for _ in range(CLIMBS):
        left = np.flatnonzero((size >= SMALLEST_BOX) & np.isin(rows, state.open_rows()))
        if not len(left):
            break
        before, proposals = state.value[rows[left]], list[Proposal]()
        places = left[moved[left]]
        row, part = rows[places], tokens.take(places)
        of, sums = part.row_of_value, attended_sums(readout, row, state.attention.take(row))
        best = state.outputs.under_sums(row, sums.__getitem__, state.measure)[:, 1:]
        some = readout.contribution.values[state.alpha.offsets[row][of] + part.values]
        some = (1.0 - STEP) * sums[of] + STEP * some
        read = state.outputs.under_sums(row[of], some.__getitem__, state.measure)[:, 1:]
        log_p.values[tokens.positions(places)] = best[of] + (read - best[of]) / STEP
        for place, row in zip(left.tolist(), rows[left].tolist(), strict=True):
            held, own = state.attention[row][tokens[place]], state.own[row]
            scores, alpha = log_p[place] - np.log(own), state.alpha[row][tokens[place]]
            task = Task.from_scores(alpha, own, scores, state.limit)
            box = task.box(np.maximum(held - size[place], 0.0), np.minimum(held + size[place], 1.0))
            weights = best_weights(task, box)
            if weights is not None:
                proposals.append(Proposal(row, tokens[place], weights, task, box))
        state.propose(proposals)
        gained = state.value[rows[left]] - before
        # From the whole simplex on to slopes, whatever it gained.
        whole = size[left] == 1.0
        size[left] = np.where((gained < PROGRESS) | whole, 0.5 * size[left], size[left])
        moved[left] = (gained > 0.0) | whole


def _search_some(outputs: Outputs, epsilon: float) -> Bounded:
    """Search by some classes that stand for all; by all if the tail cannot be read for some."""
    values = outputs.alpha.values.astype(np.float64)
    for rows in blocks(outputs):
        part = outputs.take(rows)
        some = of_some_classes(part)
        found = search(part if some is None else some, epsilon).attention
        if some is not None:
            found = _moved_within(part, found, max(epsilon - TOLERANCE.network, 0.0))
        values[outputs.alpha.positions(rows)] = found.values
    return Bounded(outputs.alpha.with_values(values), unconstrained_bound(outputs.alpha))


def _moved_within(outputs: Outputs, found: Ragged, limit: float) -> Ragged:
    """Move attention that is beyond the limit towards the model's own, along which TVD falls."""
    alpha, share, outside = outputs.alpha, np.ones(len(found)), np.arange(len(found))
    own, other = (attended_sums(outputs.readout, outside, one) for one in (alpha, found))
    for _ in range(CLOSER):
        sums = own[outside] + share[outside, None] * (other - own)[outside]
        distance = outputs.under_sums(outside, sums.__getitem__, outputs.distance)
        beyond: Bool[np.ndarray, " m"] = ~(distance <= limit)  # NaN too
        outside = outside[beyond]
        share[outside] *= 0.999 * limit / distance[beyond]
    share[outside] = 0.0
    return alpha.with_values(alpha.values + alpha.spread(share) * (found.values - alpha.values))

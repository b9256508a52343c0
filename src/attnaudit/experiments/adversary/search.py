"""The search for the furthest attention within ε, through any tail, for many rows at once.

A strategy proposes segments, from an attention that is further away to one within ε. `State` walks
them and accepts what is better. The strategies, in this order:

- single tokens: all attention on one;
- pairs: mixtures of two tokens, ranked by `curves` between the outputs of single tokens;
- climbs: mixtures of several tokens, needed for more than two classes, which solve programs on the
  slopes at the best attention so far, in a box that shrinks. Identity tails need none;
- bounds: what solves the programs of `bounds`, behind identity and tanh tails;
- one more token: from the tokens of least attention to the best attention so far.

Of a vocabulary the search reads classes that stand for all others (`some_classes`). What it finds
is then read for all of them, and moved towards the model's own attention where it is beyond ε.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.adversary.bounds import COARSE, bound_by_programs
from attnaudit.experiments.adversary.curves import Curves, crossing_of
from attnaudit.experiments.adversary.exact import (
    divergence,
    gains,
    unconstrained_bound,
)
from attnaudit.experiments.adversary.program import Task, solve
from attnaudit.experiments.adversary.some_classes import (
    MANY,
    blocks,
    of_some_classes,
)
from attnaudit.experiments.adversary.state import GAP, Segments, State
from attnaudit.experiments.identifiability.null_space import RANGES, movements
from attnaudit.experiments.through_tail import (
    Outputs,
    attended_sums,
    few_tokens,
    has_compiled_tail,
    row_blocks,
)
from attnaudit.stats.measures import LN2, jsd_terms
from attnaudit.trace.readout import Readout
from attnaudit.trace.tails import IdentityTail

TOKENS, SPREAD = 64, 16  # tokens read alone; of a longer row so many are not of least attention
STARTS, PARTNERS, LEAST_ATTENDED = 16, 24, 8  # tokens of pairs; of these so many of least attention
FOLLOWED = 8  # pairs of a row that are read out
AIMS = 2  # outputs read to find a point of a pair within ε
SHORT = 24  # tokens, up to which pairs are tried with more than CLASSES
MORE, ROUNDS = 3, 2  # tokens that are added to the best attention, and how often
CLIMBS = 10  # programs of a row behind another tail, each with the slopes at the best so far
SECOND_BOX = 0.12  # the first of the second climb, which starts at the model's own attention
SMALLEST_BOX = 0.03  # how far they move a weight at least
PROGRESS = 2e-3  # JSD; a box that gains less is halved
STEP = 0.02  # towards a token, by which slopes are measured
CLOSER = 4  # outputs of all classes read to move what was found by some of them within ε


class Bounded(NamedTuple):
    """The furthest attention found in each of n rows, and the JSD that none exceeds, ``(n,)``."""

    attention: Ragged
    upper: Float[np.ndarray, " n"]


class Singles(NamedTuple):
    """Single tokens that were read out, least attention first.

    Attributes:
        tokens: Positions, ``(n, k)``; further places repeat position 0.
        count: Number of tokens of each row, ``(n,)``.
        distance: TVD of their outputs, ``(n, k)``.
        log_p: Log-probabilities of the classes modelled, ``(n, k, classes)``.
        first: Rank of the first one within ε, ``count`` if there is none, ``(n,)``.
    """

    tokens: Int64[np.ndarray, "n k"]
    count: Int64[np.ndarray, " n"]
    distance: Float[np.ndarray, "n k"]
    log_p: Float[np.ndarray, "n k classes"]
    first: Int64[np.ndarray, " n"]


def bounded_attention(readout: Readout, alpha: Ragged, epsilon: float) -> Bounded:
    """Find for every row an attention far from ``alpha`` whose output is within ``epsilon``."""
    values, upper = alpha.values.astype(np.float64), np.empty(len(alpha))
    for rows in row_blocks(alpha):
        outputs = Outputs.of(readout.take(rows), alpha.take(rows))
        by_some = outputs.own.shape[1] >= MANY
        found = (_search_some if by_some else search)(outputs, epsilon)
        values[alpha.positions(rows)], upper[rows] = found.attention.values, found.upper
    return Bounded(alpha.with_values(values), upper)


def search(outputs: Outputs, epsilon: float) -> Bounded:
    """Run all strategies on some rows."""
    state = State(outputs, epsilon)
    rows = state.open_rows()
    if not has_compiled_tail(outputs.readout):
        state.accept(_same_sum(state, rows))
    singles = _read_singles(state)
    # Where the token of least attention is within ε nothing is better.
    rows = state.open_rows()
    paired = rows if state.classes is None else rows[singles.count[rows] <= SHORT]
    state.accept(_pairs(state, singles, paired))
    if not isinstance(outputs.readout.tail, IdentityTail) and state.own.shape[1] > 2:
        _climb(state, singles, 1.0)
        # The second climb ends at another local maximum, as it starts elsewhere.
        again = State(outputs, epsilon)
        again.upper = np.where(state.value < state.upper - GAP, again.upper, 0.0)
        _climb(again, singles, SECOND_BOX)
        state.keep(np.arange(len(state.value)), again.attention, again.value)
    # Bounds come after climbs: their targets are just above the best attention so far.
    if has_compiled_tail(outputs.readout):
        bound_by_programs(state)
    for _ in range(ROUNDS):
        state.accept(_one_more(state, singles, state.open_rows()))
    return Bounded(state.attention, np.maximum(state.upper, state.value))


def _same_sum(state: State, rows: np.ndarray) -> Segments:
    """Propose the furthest attention with the model's own attended sum, and so its output."""
    alpha, ends = state.alpha.take(rows), []
    found = movements(state.outputs.readout.contribution.take(rows), alpha, RANGES)
    for own, others in zip(alpha, found.ends, strict=True):
        value = jsd_terms(others, np.broadcast_to(own, others.shape)).sum(axis=1)
        ends.append(others[value.argmax()])
    return state.to_best(rows, Ragged.from_rows(ends, np.float64))


def _read_singles(state: State) -> Singles:
    """Read single tokens and keep the best; where that of least attention is within ε, only it."""
    tokens, count = _by_attention(state)
    n, most = tokens.shape
    distance, ranks = np.full((n, most), np.inf), np.arange(most)
    log_p = np.zeros((n, most, state.own.shape[1]))
    for part in (ranks == 0, ranks > 0):
        unread = part & (ranks < count[:, None]) & ~(distance[:, :1] <= state.limit)
        row, rank = np.nonzero(unread)
        chosen = tokens[row, rank][:, None]
        read = state.outputs.under_few(row, chosen, np.ones((len(row), 1)), state.measure)
        distance[row, rank], log_p[row, rank] = read[:, 0], read[:, 1:]
    within = distance <= state.limit
    first = np.where(within.any(axis=1), within.argmax(axis=1), count)
    rows = np.flatnonzero(first < count)
    attention = _alone(state, rows, tokens[rows, first[rows]])
    state.keep(rows, attention, divergence(attention, state.alpha.take(rows)))
    return Singles(tokens, count, distance, log_p, first)


def _pairs(state: State, singles: Singles, rows: np.ndarray) -> Segments:
    """Propose segments from tokens that are beyond ε alone to a mixture with another token.

    Tokens are those of least attention, and those whose own output is nearest to the model's.
    """
    ranks = np.arange(singles.tokens.shape[1])
    near = np.where(ranks < LEAST_ATTENDED, -1.0, singles.distance[rows])
    ends = np.argsort(near, axis=1, kind="stable")[:, :PARTNERS]
    beyond = np.where(ranks < singles.first[rows, None], near, np.inf)
    starts = np.argsort(beyond, axis=1, kind="stable")[:, :STARTS]
    fits = (starts < singles.first[rows, None])[:, :, None]
    fits = fits & (ends < singles.count[rows, None])[:, None, :]
    row, start, end = np.nonzero(fits & (starts[:, :, None] != ends[:, None, :]))
    row, start, end = rows[row], starts[row, start], ends[row, end]
    tokens = np.column_stack([singles.tokens[row, start], singles.tokens[row, end]])

    def weights(t: np.ndarray) -> np.ndarray:
        return np.column_stack([1.0 - t, t])

    curves = Curves.between(singles.log_p[row, start], singles.log_p[row, end])
    crossing = crossing_of(curves, state.own[row], state.limit)
    old = state.alpha.values[state.alpha.offsets[row, None] + tokens]
    value = 0.5 * LN2 + gains(weights(crossing.first), old).sum(axis=1)
    # Those that miss ε by the model come last: the tail may bend towards it.
    score = np.where(crossing.miss > 0.0, -crossing.miss, value)
    useful = (score <= 0.0) | (score > state.value[row])
    order = np.lexsort((-score, row))
    order = order[useful[order]]
    order = order[np.arange(len(order)) - np.searchsorted(row[order], row[order]) < FOLLOWED]
    row, tokens, curves, inside = (
        row[order],
        tokens[order],
        curves.take(order),
        crossing.inside[order],
    )
    within = np.zeros(len(row), bool)
    # Outputs between two tokens differ from the curve's; each reading bends the curve through it.
    for _ in range(AIMS):
        left = np.flatnonzero(~within)
        read = state.outputs.under_few(
            row[left], tokens[left], weights(inside[left]), state.measure
        )
        within[left] = read[:, 0] <= state.limit
        bent = curves.take(left).through(inside[left], read[:, 1:])
        aimed = crossing_of(bent, state.own[row[left]], state.limit).inside
        inside[left] = np.where(within[left], inside[left], aimed)
    lengths = state.alpha.lengths[row]
    mixture = few_tokens(lengths, tokens, weights(inside))
    return Segments(row, few_tokens(lengths, tokens, weights(np.zeros(len(row)))), mixture)


def _one_more(state: State, singles: Singles, rows: np.ndarray) -> Segments:
    """Propose segments from the tokens of least attention to the best attention so far."""
    ranks = np.arange(min(MORE, singles.tokens.shape[1]))
    row, rank = np.nonzero(ranks < np.minimum(singles.first, singles.count)[rows, None])
    row = rows[row]
    return state.to_best(row, _alone(state, row, singles.tokens[row, rank]))


def _climb(state: State, singles: Singles, size: float) -> None:
    """Propose what solves programs on the slopes at the best attention, in boxes around it.

    A box is halved where it gains little. In the whole simplex, a box of size 1, the outputs of
    single tokens take the place of slopes.
    """
    log_p, box = singles.log_p.copy(), np.full(len(state.alpha), size)
    moved = box < 1.0
    for _ in range(CLIMBS):
        rows = state.open_rows()
        rows = rows[box[rows] >= SMALLEST_BOX]
        before = state.value.copy()
        _update_slopes(state, singles, rows[moved[rows]], log_p)
        tasks, solved = {}, []
        for row in rows.tolist():
            tokens = singles.tokens[row, : singles.count[row]]
            held = state.attention[row][tokens]
            scores = log_p[row, : len(tokens)] - np.log(state.own[row])
            task = Task.from_scores(
                scores, state.own[row], state.alpha[row][tokens], state.limit, COARSE
            )
            low, high = np.maximum(held - box[row], 0.0), np.minimum(held + box[row], 1.0)
            solution = solve(task, task.box(low, high))
            if solution.values is not None:
                weights, every = np.zeros(len(state.alpha[row])), np.zeros_like(scores)
                every = np.zeros((len(weights), scores.shape[1]))
                weights[tokens], every[tokens] = solution.values[: len(tokens)], scores
                tasks[row] = task._replace(scores=every)
                solved.append((row, weights))
        state.propose(tasks, solved)
        gained = state.value[rows] - before[rows]
        # From the whole simplex on to slopes, whatever it gained.
        halve = (gained < PROGRESS) | (box[rows] == 1.0)
        box[rows] = np.where(halve, 0.5 * box[rows], box[rows])
        moved[rows] = (gained > 0.0) | (box[rows] == 0.5)


def _update_slopes(
    state: State, singles: Singles, rows: np.ndarray, log_p: Float[np.ndarray, "n k classes"]
) -> None:
    """Set the log-probabilities of single tokens by the slopes at the best attention so far."""
    own = state.attention.take(rows)
    best = state.outputs.under(rows, lambda chosen: own.take(chosen), state.measure)[:, 1:]
    place, rank = np.nonzero(np.arange(log_p.shape[1]) < singles.count[rows, None])
    row = rows[place]
    base = (1.0 - STEP) * attended_sums(state.outputs.readout, rows, own)
    contribution = state.outputs.readout.contribution.values
    at = state.alpha.offsets[row] + singles.tokens[row, rank]
    read = state.outputs.under_sums(
        row, lambda chosen: base[place[chosen]] + STEP * contribution[at[chosen]], state.measure
    )[:, 1:]
    log_p[row, rank] = best[place] + (read - best[place]) / STEP


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
    alpha, share = outputs.alpha, np.ones(len(found))

    def moved(rows: np.ndarray) -> Ragged:
        own, other = alpha.take(rows), found.take(rows)
        return own.with_values(own.values + own.spread(share[rows]) * (other.values - own.values))

    outside = np.arange(len(found))
    for _ in range(CLOSER):
        rows = outside
        distance = outputs.under(
            rows, lambda chosen, rows=rows: moved(rows[chosen]), outputs.distance
        )
        beyond: Bool[np.ndarray, " m"] = ~(distance <= limit)  # NaN too
        outside = rows[beyond]
        share[outside] *= 0.999 * limit / distance[beyond]
    share[outside] = 0.0
    return moved(np.arange(len(found)))


def _alone(state: State, rows: np.ndarray, tokens: np.ndarray) -> Ragged:
    """Return all attention on one token of each of the rows."""
    return few_tokens(state.alpha.lengths[rows], tokens[:, None], np.ones((len(rows), 1)))


def _by_attention(state: State) -> tuple[Int64[np.ndarray, "n k"], Int64[np.ndarray, " n"]]:
    """Return at most `TOKENS` positions of every row, least attention first, and their number.

    Of a longer row they are those of least attention and `SPREAD` evenly spaced among the others,
    the one of most attention included.
    """
    orders, least = [], TOKENS - SPREAD
    for row, weights in enumerate(state.alpha):
        start = state.alpha.offsets[row]
        stand_in = state.stand_in[start : start + len(weights)] - start
        order = np.argsort(weights, kind="stable")
        order = order[stand_in[order] == order]
        if len(order) > TOKENS:
            rest = np.linspace(least, len(order) - 1, SPREAD).astype(np.int64)
            order = order[np.append(np.arange(least), rest)]
        orders.append(order)
    count = np.array([len(order) for order in orders], np.int64)
    tokens = np.zeros((len(orders), int(count.max(initial=0))), np.int64)
    for row, order in enumerate(orders):
        tokens[row, : len(order)] = order
    return tokens, count

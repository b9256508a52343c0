"""Search for the attention that changes the output most: single tokens, then mixtures.

With an identity tail and one sigmoid output, or a softmax over two classes, the probability is
monotone in one logit, which is linear in the attention. So a single token gives the maximum. In
general a mixture may change more: if two tokens have the logits (2, 5, −5) and (2, −5, 5), the
first class has probability 0.05 under either token and 0.79 under half of each.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.core.shapes import Indices, PerPosition, PerRow, RowInts, RowMask
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.adversary.exact import one_logit_decides
from attnaudit.experiments.through_tail import Outputs, has_compiled_tail

# Number of top tokens that are mixed, and of steps. Each mixture is a pass through a network.
EFFORT, EFFORT_OF_NETWORK = (6, 8), (4, 3)


class Singles(NamedTuple):
    """Change of the output (TVD) with all attention on each position, and flips, flat ``(N,)``."""

    change: PerPosition
    flips: Bool[np.ndarray, " N"]


class Change(NamedTuple):
    """Largest change found in each row.

    Attributes:
        largest: Change of the output, in TVD.
        position: The single token of largest change.
        flips: Whether some attention tried flips the decision.
    """

    largest: PerRow
    position: RowInts
    flips: RowMask


def single_tokens(outputs: Outputs) -> Singles:
    """Put all attention on each position in turn."""
    alpha = outputs.alpha
    tokens = alpha.places[:, None]
    return _read(outputs, alpha.row_of_value, tokens, np.ones(tokens.shape))


def largest_change(outputs: Outputs, singles: Singles) -> Change:
    """Search for the largest change of each row's output.

    Args:
        outputs: Outputs under the model's own attention.
        singles: Changes by single tokens; those below 0 may have no attention.
    """
    change = outputs.alpha.with_values(singles.change)
    best, flipped = change.max(), change.with_values(singles.flips).reduce(np.logical_or)
    # The first of the tokens whose changes differ only by a network's noise, so that the batch
    # does not choose.
    large = np.flatnonzero(change.values >= change.spread(best - TOLERANCE.network))
    position = large[np.searchsorted(large, change.offsets[:-1])] - change.offsets[:-1]
    if one_logit_decides(outputs.readout):
        return Change(best, position, flipped)
    mixed, by_mixture = _mixtures(outputs, change, best)
    return Change(mixed, position, flipped | by_mixture)


def _read(
    outputs: Outputs,
    rows: Indices,
    tokens: Int64[np.ndarray, "m k"],
    weights: Float[np.ndarray, "m k"],
) -> Singles:
    # The lead is a difference of two probabilities; those of a network have noise each.
    margin = TOLERANCE.rounding if has_compiled_tail(outputs.readout) else 2.0 * TOLERANCE.network

    def measure(prediction, rows):
        flips = outputs.lead(prediction, rows) < -margin
        return np.column_stack([outputs.distance(prediction, rows), flips])

    change, flips = outputs.under_few(rows, tokens, weights, measure).T
    return Singles(change, flips > 0.0)


def _mixtures(outputs: Outputs, change: Ragged, best: PerRow) -> tuple[PerRow, RowMask]:
    """Improve ``best`` by mixing the tokens of largest change; also return whether one flips.

    The search tries the middles of all pairs, then steps from the best mixture towards each token.
    """
    size, steps = EFFORT if has_compiled_tail(outputs.readout) else EFFORT_OF_NETWORK
    order = change.descending()
    starts = change.offsets[:-1, None]
    rank = np.arange(size)
    # Slots beyond a short row repeat its first token; `usable` keeps weight away from them.
    flat = order[np.where(rank < change.lengths[:, None], starts + rank, starts)]
    usable = (rank < change.lengths[:, None]) & (change.values[flat] >= 0.0)
    rows = np.flatnonzero(usable[:, 1])
    tokens, usable, weights = (
        (flat - starts)[rows],
        usable[rows],
        np.tile(np.eye(1, size), (len(rows), 1)),
    )
    best, flips, each = best.copy(), np.zeros(len(best), bool), np.arange(len(rows))

    def keep_best(made: Float[np.ndarray, "r a k"]) -> None:
        chosen, alternative = np.nonzero(~(made * ~usable[:, None]).any(axis=2))
        values = np.full((2, *made.shape[:2]), -1.0)
        values[:, chosen, alternative] = _read(
            outputs, rows[chosen], tokens[chosen], made[chosen, alternative]
        )
        top = values[0].argmax(axis=1)
        better = values[0, each, top] > best[rows]
        best[rows[better]] = values[0, each, top][better]
        weights[better] = made[each, top][better]
        flips[rows] |= (values[1] > 0.0).any(axis=1)

    corners = np.eye(size)
    middles = [0.5 * (one + other) for one, other in combinations(corners, 2)]
    keep_best(np.tile(middles, (len(rows), 1, 1)))
    for number in range(steps):
        # Steps shrink as the mixture approaches a maximum.
        step = 0.4 * 0.6**number
        keep_best((1.0 - step) * weights[:, None] + step * corners)
    return best, flips

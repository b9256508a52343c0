"""Which logits a softmax over several classes may have when its probabilities move by ε (TVD) at most: half-spaces that hold them all.

z are the logits less the model's own, p its probabilities, and q those under z. TVD ≤ ε iff q(S) ≤ p(S) + ε for every set S of classes.

- Of two classes, q_y ≤ p_y + ε and q_k ≥ p_k − ε bound the log-odds: z_y − z_k ≤ ln((p_y + ε)/p_y) − ln((p_k − ε)/p_k).
- Of a set S, with c = p(S) + ε and r the likeliest class, (1 − c) Σ_{k in S} p_k e^(v_k) ≤ c Σ_{k not in S} p_k e^(v_k), where v_k = z_k
  − z_r lies between bounds of the first kind. The left side is at least its tangent at v = 0, Σ p_k (1 + v_k). The right side is at most
  its chord between these bounds, at which p_k e^(v_k) is (p_k ∓ ε) p_r/(p_r ± ε). With tangent and chord the condition is linear in v,
  and it holds wherever the first one did.

Up to `SUBSETS` classes there is a half-space for every side of the polytope q(S) ≤ p(S) + ε, off by an order of ε² alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

SUBSETS = 6  # of more classes at first only sets of one class, and of all but one
PAIRS = 12  # of more classes only pairs with the likeliest
ROUNDING = 1e-12


class HalfSpaces(NamedTuple):
    """``direction @ z ≤ bound``; every direction sums to 0."""

    direction: Float[np.ndarray, "m C"]
    bound: Float[np.ndarray, " m"]


def outputs_within(
    log_p: Float[np.ndarray, " C"], epsilon: float, sets: Bool[np.ndarray, "s C"] | None = None
) -> HalfSpaces:
    """Half-spaces that hold the logits, less the model's own, of all outputs within TVD ``epsilon`` of the probabilities exp(``log_p``).

    With ``sets`` those of these sets of classes alone, to be added to the others: the sets that an attention's output gains are
    the conditions that it breaks most.
    """
    p, top = np.exp(log_p), int(np.argmax(log_p))
    gain = np.log(p + epsilon) - log_p
    can_vanish = p <= epsilon
    loss = np.where(
        can_vanish, np.inf, -np.log1p(-np.where(can_vanish, 0.0, epsilon / np.maximum(p, epsilon)))
    )
    made = [] if sets is not None else list(_pairs(gain, loss, top))
    if not can_vanish[top]:
        made += _of_sets(_first_sets(len(p)) if sets is None else sets, p, gain, loss, epsilon)
    direction = np.array([one for one, _ in made]).reshape(-1, len(p))
    bound = np.array([limit for _, limit in made])
    scale = np.abs(direction).max(axis=1, initial=0.0)
    return HalfSpaces(direction / scale[:, None], bound / scale + ROUNDING)


def most_halfspaces(classes: int) -> int:
    """How many there can be."""
    pairs = classes * (classes - 1) if classes <= PAIRS else 2 * (classes - 1)
    return pairs + (2**classes - 2 if classes <= SUBSETS else 2 * classes)


def _pairs(gain: np.ndarray, loss: np.ndarray, top: int) -> Iterator[tuple[np.ndarray, float]]:
    classes = range(len(gain))
    for more in classes:
        for fewer in classes:
            named = len(gain) <= PAIRS or top in (more, fewer)
            if more != fewer and named and np.isfinite(loss[fewer]):
                direction = np.zeros(len(gain))
                direction[more], direction[fewer] = 1.0, -1.0
                yield direction, float(gain[more] + loss[fewer])


def _of_sets(
    sets: Iterable[np.ndarray], p: np.ndarray, gain: np.ndarray, loss: np.ndarray, epsilon: float
) -> Iterator[tuple[np.ndarray, float]]:
    top = int(np.argmax(p))
    least, most = (
        (p - epsilon) * p[top] / (p[top] + epsilon),
        (p + epsilon) * p[top] / (p[top] - epsilon),
    )
    low, high = -(gain[top] + loss), gain + loss[top]
    chord = np.where(
        np.isfinite(low) & (high > low),
        (most - least) / np.where(np.isfinite(low), high - low, 1.0),
        0.0,
    )
    at_zero = most - chord * high
    tangent, start = p.copy(), p.copy()
    chord[top], at_zero[top], tangent[top] = 0.0, p[top], 0.0
    for inside in sets:
        limit = float(p[inside].sum()) + epsilon
        if limit >= 1.0:
            continue
        direction = np.where(inside, (1.0 - limit) * tangent, -limit * chord)
        constant = np.where(inside, (1.0 - limit) * start, -limit * at_zero).sum()
        direction[top] = -direction.sum()
        if np.abs(direction).max() > 0.0:
            yield direction, float(-constant)


def _first_sets(classes: int) -> Iterator[np.ndarray]:
    sizes = range(1, classes) if classes <= SUBSETS else (1, classes - 1)
    for size in sizes:
        for chosen in combinations(range(classes), size):
            inside = np.zeros(classes, bool)
            inside[list(chosen)] = True
            yield inside

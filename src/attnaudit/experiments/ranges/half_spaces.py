"""Linear conditions on attention that hold for every output within ε (TVD) of the model's.

z are the logits minus the model's own, p the model's probabilities, and q those under z. TVD ≤ ε if
and only if q(S) ≤ p(S) + ε for every set S of classes.

- For two classes, q_y ≤ p_y + ε and q_k ≥ p_k − ε bound the log-odds:
  z_y − z_k ≤ ln((p_y + ε)/p_y) − ln((p_k − ε)/p_k).
- For a set S, with c = p(S) + ε and r the likeliest class,
  (1 − c) Σ_{k in S} p_k e^(v_k) ≤ c Σ_{k not in S} p_k e^(v_k), where v_k = z_k − z_r lies between
  bounds of the first kind. The left side is at least its tangent at v = 0, Σ p_k (1 + v_k). The
  right side is at most its chord between these bounds, at which p_k e^(v_k) is
  (p_k ∓ ε) p_r/(p_r ± ε). With tangent and chord the condition is linear in v.

With an identity tail z is linear in the attention. Behind tanh it lies between two linear functions
of the attention, because each tanh lies between two lines over the range that single tokens give
its argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import log_softmax, softmax

from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.logits import OutputLayer, output_layer
from attnaudit.experiments.programs import Constraints
from attnaudit.stats.measures import tvd
from attnaudit.trace.readout import Readout

# Most classes of which all 2^C sets are used; with more, only sets of one class, or all but one.
SUBSETS = 6
# Most classes of which all pairs are used; with more, only pairs with the likeliest class.
PAIRS = 12
# Halvings that reach float64 precision. With fewer the line would still be safe, only looser.
BISECTIONS = 50

PerClass = Float[np.ndarray, " C"]
PerUnit = Float[np.ndarray, " P"]
Sets = Bool[np.ndarray, "s C"]


class HalfSpaces(NamedTuple):
    """Half-spaces ``direction @ z ≤ bound``; each direction sums to 0."""

    direction: Float[np.ndarray, "m C"]
    bound: Float[np.ndarray, " m"]


@dataclass(frozen=True)
class RowLogits:
    """Logits of one row's allowed classes as a function of its attention.

    Attributes:
        alpha: The model's own attention.
        single: Attended sum, with the offset, under all attention on each token.
        layer: Logits of the attended sum.
    """

    alpha: Float[np.ndarray, " T"]
    single: Float[np.ndarray, "T P"]
    layer: OutputLayer

    @classmethod
    def from_readout(cls, readout: Readout, alpha: Float[np.ndarray, " T"], row: int) -> RowLogits:
        """Take one row of a readout with an identity or tanh tail.

        Args:
            readout: Readout of all rows.
            alpha: The row's attention.
            row: Number of the row.
        """
        weight, bias, tanh = output_layer(readout)
        if readout.candidates is not None and readout.activation == "softmax":
            weight, bias = weight[readout.candidates[row]], bias[readout.candidates[row]]
        single = readout.offset[row] + readout.contribution[row]
        return cls(alpha, single, OutputLayer(weight, bias, tanh))

    @cached_property
    def log_p(self) -> PerClass:
        """Log-probabilities under the model's own attention."""
        return log_softmax(self.logits(self.alpha @ self.single))

    def logits(self, pooled: Float[np.ndarray, "*n P"]) -> Float[np.ndarray, "*n C"]:
        """Compute the logits of attended sums."""
        return self.layer.units(pooled) @ self.layer.weight.T + self.layer.bias

    def output(self, pooled: Float[np.ndarray, "*n P"]) -> Float[np.ndarray, "*n C"]:
        """Compute the probabilities of attended sums."""
        return softmax(self.logits(pooled), axis=-1)

    def change(self, attention: Float[np.ndarray, "n T"]) -> Float[np.ndarray, " n"]:
        """Compute the TVD from the model's own output."""
        return self.distance(self.output(attention @ self.single))

    def distance(self, output: Float[np.ndarray, "*n C"]) -> Float[np.ndarray, "*n"]:
        """Compute the TVD of outputs from the model's own."""
        return tvd(output, np.broadcast_to(np.exp(self.log_p), output.shape))

    def tangent(self, spaces: HalfSpaces) -> Constraints:
        """Express the half-spaces as conditions on attention, linearised at the model's own."""
        pooled = self.alpha @ self.single
        slope = 1.0 - np.tanh(pooled) ** 2 if self.layer.tanh else 1.0
        along = spaces.direction @ self.layer.weight * slope
        return Constraints(along @ (self.single - pooled).T, spaces.bound)

    def relaxed(self, spaces: HalfSpaces) -> Constraints:
        """Express the half-spaces as conditions on attention that exclude none inside them."""
        if not self.layer.tanh:
            return self.tangent(spaces)
        low, high = self.single.min(axis=0), self.single.max(axis=0)
        pooled = self.alpha @ self.single
        slope_under, under = line_below_tanh(low, high, pooled)
        slope_over, over = line_below_tanh(-high, -low, -pooled)
        along = spaces.direction @ self.layer.weight
        # A half-space must not exclude too much, so each tanh is replaced by its line below if its
        # factor is positive, and by its line above if it is negative.
        rising, falling = np.maximum(along, 0.0), np.minimum(along, 0.0)
        values = (rising * slope_under + falling * slope_over) @ self.single.T
        constant = rising @ under - falling @ over - along @ np.tanh(pooled)
        return Constraints(values, spaces.bound - constant)


def line_below_tanh(low: PerUnit, high: PerUnit, near: PerUnit) -> tuple[PerUnit, PerUnit]:
    """Return slope and intercept of the line below tanh on [low, high] that is highest at ``near``.

    Left of the point whose tangent passes through the right end it is the tangent at ``near``, and
    beyond that point it is that point's tangent. If there is no such point it is the chord.

    Args:
        low: Left end for each unit.
        high: Right end for each unit.
        near: Point between the ends.
    """
    end, left, right = np.tanh(high), low.copy(), np.minimum(high, 0.0)

    def is_short(x: np.ndarray) -> np.ndarray:
        """Mark where the tangent at x passes below the right end."""
        return end - np.tanh(x) - (1.0 - np.tanh(x) ** 2) * (high - x) > 0.0

    convex = is_short(low)
    for _ in range(BISECTIONS):
        middle = 0.5 * (left + right)
        short = is_short(middle)
        left, right = np.where(short, middle, left), np.where(short, right, middle)
    chord = (end - np.tanh(low)) / np.where(high > low, high - low, 1.0)
    slope = np.where(convex, 1.0 - np.tanh(np.minimum(near, left)) ** 2, chord)
    # Any slope in [0, 1] is safe if the intercept is the minimum of tanh x − slope · x. The minimum
    # is at an end, or at the point left of 0 where tanh has this slope.
    slope = np.clip(slope, 0.0, 1.0)
    turn = -np.arccosh(1.0 / np.sqrt(np.maximum(slope, 1e-300)))
    at = np.stack([low, high, np.clip(turn, low, high)])
    return slope, (np.tanh(at) - slope * at).min(axis=0) - TOLERANCE.rounding


def first_sets(classes: int) -> Sets:
    """List all sets of few classes; with many classes the sets of one, and of all but one."""
    if classes > SUBSETS:
        return np.vstack([np.eye(classes, dtype=bool), ~np.eye(classes, dtype=bool)])
    return (np.arange(1, 2**classes - 1)[:, None] >> np.arange(classes)) % 2 == 1


def most_half_spaces(classes: int) -> int:
    """Count the half-spaces that `outputs_within` returns at most for the first sets."""
    return (classes - 1) * (classes if classes <= PAIRS else 2) + len(first_sets(classes))


def outputs_within(log_p: PerClass, epsilon: float, sets: Sets) -> HalfSpaces:
    """Find half-spaces that contain z of all outputs within ``epsilon``.

    They come from pairs of classes and from ``sets``.

    Args:
        log_p: Log-probabilities of the model's own output.
        epsilon: Largest change of the output, in TVD.
        sets: Sets of classes whose conditions are used.
    """
    p, top, each = np.exp(log_p), int(np.argmax(log_p)), np.eye(len(log_p))
    gain = np.log(p + epsilon) - log_p
    # A class that may lose all of its probability has no least log-odds.
    stays = p > epsilon
    loss = np.where(
        stays, -np.log1p(-np.where(stays, epsilon / np.maximum(p, epsilon), 0.0)), np.inf
    )
    more, fewer = np.nonzero(each == 0.0)
    paired = stays[fewer] & ((len(p) <= PAIRS) | (more == top) | (fewer == top))
    more, fewer = more[paired], fewer[paired]
    direction, bound = each[more] - each[fewer], gain[more] + loss[fewer]
    if stays[top]:
        further = _of_sets(p, epsilon, sets, -(gain[top] + loss), gain + loss[top])
        direction, bound = np.vstack([direction, further[0]]), np.append(bound, further[1])
    # Scaled, because the rounding that is added is absolute.
    scale = np.abs(direction).max(axis=1, initial=0.0)
    return HalfSpaces(direction / scale[:, None], bound / scale + TOLERANCE.rounding)


def _of_sets(
    p: PerClass,
    epsilon: float,
    sets: Sets,
    low: PerClass,
    high: PerClass,
) -> HalfSpaces:
    """Relax the conditions of sets to linear ones.

    ``low`` and ``high`` bound the log-odds of each class over the likeliest.
    """
    top = int(np.argmax(p))
    least, most = (
        (p - sign * epsilon) * p[top] / (p[top] + sign * epsilon) for sign in (1.0, -1.0)
    )
    bounded = np.isfinite(low) & (high > low)
    chord = np.where(bounded, (most - least) / np.where(bounded, high - low, 1.0), 0.0)
    at_zero, tangent = most - chord * high, p.copy()
    chord[top], at_zero[top], tangent[top] = 0.0, p[top], 0.0
    limit = sets @ p + epsilon
    sets, limit = sets[limit < 1.0], limit[limit < 1.0, None]
    direction = np.where(sets, (1.0 - limit) * tangent, -limit * chord)
    bound = -np.where(sets, (1.0 - limit) * p, -limit * at_zero).sum(axis=1)
    direction[:, top] = -direction.sum(axis=1)
    useful = np.abs(direction).max(axis=1, initial=0.0) > 0.0
    return HalfSpaces(direction[useful], bound[useful])

"""The logits of one row as a function of its attention: linear with an identity tail, between two linear functions behind tanh."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.special import log_softmax, softmax

from attnaudit.stats.measures import tvd
from attnaudit.trace.readout import IdentityTail, Readout

BISECTIONS = 50
ROUNDING = 1e-12
LAST_BELOW_ONE = float(np.nextafter(1.0, 0.0))


@dataclass(frozen=True)
class RowLogits:
    """Attention (T,), contributions (T, P), offset (P,), and the tail: ``weight`` (C, P) and ``bias`` (C,), without weight the identity.

    The classes are the answers allowed; one sigmoid output is given as two classes, the logit of the first 0.
    """

    alpha: Float[np.ndarray, " T"]
    contribution: Float[np.ndarray, "T P"]
    offset: Float[np.ndarray, " P"]
    weight: Float[np.ndarray, "C P"] | None
    bias: Float[np.ndarray, " C"]

    @cached_property
    def pooled(self) -> Float[np.ndarray, " P"]:
        """The attended sum under the model's own attention, with the offset."""
        return self.offset + self.alpha @ self.contribution

    @cached_property
    def log_p(self) -> Float[np.ndarray, " C"]:
        return log_softmax(self.logits(self.pooled[None]))[0]

    def logits(self, pooled: Float[np.ndarray, "n P"]) -> Float[np.ndarray, "n C"]:
        return pooled if self.weight is None else np.tanh(pooled) @ self.weight.T + self.bias

    def output(self, pooled: Float[np.ndarray, "n P"]) -> Float[np.ndarray, "n C"]:
        return softmax(self.logits(pooled), axis=1)

    def prediction(self, attention: Float[np.ndarray, "n T"]) -> Float[np.ndarray, "n C"]:
        return self.output(self.offset + attention @ self.contribution)

    def change(self, attention: Float[np.ndarray, "n T"]) -> Float[np.ndarray, " n"]:
        """TVD from the model's own output."""
        prediction = self.prediction(attention)
        return tvd(prediction, np.broadcast_to(np.exp(self.log_p), prediction.shape))

    def tangent(self, direction: Float[np.ndarray, "m C"]) -> Float[np.ndarray, "m T"]:
        """``direction @ z`` under all attention on each token, z the logits less the own, as if linear with the slopes of the own."""
        along = (
            direction
            if self.weight is None
            else direction @ self.weight * (1.0 - np.tanh(self.pooled) ** 2)
        )
        return along @ (self.contribution - self.alpha @ self.contribution).T

    def below(
        self, direction: Float[np.ndarray, "m C"]
    ) -> tuple[Float[np.ndarray, "m T"], Float[np.ndarray, " m"]]:
        """Linear functions of the attention that ``direction @ z`` is never below: their values at each token, and what is to be added."""
        if self.weight is None:
            return self.tangent(direction), np.zeros(len(direction))
        each = self.offset + self.contribution
        low, high = each.min(axis=0), each.max(axis=0)
        slope_under, under = _line_below_tanh(low, high, self.pooled)
        slope_over, over = _line_below_tanh(-high, -low, -self.pooled)
        along = direction @ self.weight
        rising, falling = np.maximum(along, 0.0), np.minimum(along, 0.0)
        values = (rising * slope_under + falling * slope_over) @ each.T
        return values, rising @ under - falling @ over - along @ np.tanh(self.pooled)


def row_logits(readout: Readout, alpha: Float[np.ndarray, " T"], row: int) -> RowLogits:
    """Row ``row`` of a readout with an identity or tanh tail."""
    contribution, offset = readout.contribution[row], readout.offset[row]
    if isinstance(readout.tail, IdentityTail):
        allowed = slice(None) if readout.candidates is None else readout.candidates[row]
        return RowLogits(alpha, contribution[:, allowed], offset[allowed], None, np.zeros(0))
    weight, bias = (
        np.asarray(readout.tail.weight, np.float64),
        np.asarray(readout.tail.bias, np.float64),
    )
    if readout.activation == "sigmoid":
        weight, bias = np.vstack([np.zeros_like(weight), weight]), np.append(0.0, bias)
    elif readout.candidates is not None:
        weight, bias = weight[readout.candidates[row]], bias[readout.candidates[row]]
    return RowLogits(alpha, contribution, offset, weight, bias)


def _line_below_tanh(
    low: Float[np.ndarray, " P"], high: Float[np.ndarray, " P"], here: Float[np.ndarray, " P"]
) -> tuple[Float[np.ndarray, " P"], Float[np.ndarray, " P"]]:
    """Slope and intercept of a line that tanh is not below on [``low``, ``high``], as near to it at ``here`` as any.

    It is the tangent at ``here`` up to the point whose tangent passes through the right end, and beyond it that one; the chord where
    there is no such point. Whatever the slope, the intercept is the least of tanh x − slope · x: at an end, or left of 0 where tanh has it.
    """
    end, left, right = np.tanh(high), low.copy(), np.minimum(high, 0.0)

    def is_short(x: np.ndarray) -> np.ndarray:
        """Whether the tangent at x passes below the right end."""
        return end - np.tanh(x) - (1.0 - np.tanh(x) ** 2) * (high - x) > 0.0

    convex = is_short(low)
    for _ in range(BISECTIONS):
        middle = 0.5 * (left + right)
        short = is_short(middle)
        left, right = np.where(short, middle, left), np.where(short, right, middle)
    width = high - low
    chord = (end - np.tanh(low)) / np.where(width > 0.0, width, 1.0)
    slope = np.clip(np.where(convex, 1.0 - np.tanh(np.minimum(here, left)) ** 2, chord), 0.0, 1.0)
    turn = -np.arctanh(np.minimum(np.sqrt(1.0 - slope), LAST_BELOW_ONE))
    least = np.minimum(np.tanh(low) - slope * low, end - slope * high)
    inside = (low < turn) & (turn < high)
    return slope, np.where(
        inside, np.minimum(least, np.tanh(turn) - slope * turn), least
    ) - ROUNDING

"""Degrees in words. Every threshold behind a word of the verdict card stands here."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

_SHARES = (
    (0.12, "hardly at all, compared with how"),
    (0.29, "about a quarter as well as"),
    (0.42, "about a third as well as"),
    (0.58, "about half as well as"),
    (0.71, "about two thirds as well as"),
    (0.85, "about three quarters as well as"),
    (0.95, "nearly as well as"),
    (1.05, "about as well as"),
)
_OUTPUT_CHANGE = ((0.01, "hardly moves"), (0.05, "moves a little"), (0.15, "moves somewhat"), (0.3, "moves clearly"))
_DIFFERENT = ((0.05, "very little"), (0.25, "a little"), (0.5, "clearly"), (0.8, "very much"))
_MATTERS = 0.15  # a change from which on the output is said to depend on which token has which weight
_FLAT = 0.25  # a mean largest weight, the paper's lowest bin, below which a shuffled attention is much like the model's own
LN2 = log(2.0)


def share_of_yardstick(value: float, yardstick: float) -> str:
    """How ``value`` compares with a positive yardstick: ``about half as well as``."""
    return _word(_SHARES, value / yardstick, "better than")


def output_change(delta: float) -> str:
    """A change of probability, 0 to 1: ``hardly moves``."""
    return _word(_OUTPUT_CHANGE, delta, "moves strongly")


def shuffling_matters(delta: float, peak: float | None) -> str:
    """What such a change of probability under shuffling means, where the largest weight is ``peak`` on average."""
    if delta < _MATTERS and peak is not None and peak < _FLAT:
        return f"with weights as even as these (the largest {peak:.2f} on average) shuffling changes little by itself, so this says little"
    if delta < _MATTERS:
        return "a small change means that it depends little on which token has which weight"
    return "it depends on which token has which weight"


def difference(divergence: float) -> str:
    """How much two attentions of this Jensen-Shannon divergence, at most ln 2, differ: ``very much``."""
    return _word(_DIFFERENT, divergence / LN2, "almost as much as two attentions can")


def _word(ladder: Sequence[tuple[float, str]], value: float, above: str) -> str:
    return next((word for bound, word in ladder if value < bound), above)

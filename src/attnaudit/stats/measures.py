"""Distances between predictions and between attention distributions (Jain & Wallace 2019)."""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit, rel_entr

Activation = Literal["sigmoid", "softmax"]
LN2 = float(np.log(2.0))
# Up to here numpy reduces one class after another many times faster than each row by itself.
FEW_CLASSES = 16
ERASURE_WAYS = ("comprehensiveness", "sufficiency")  # without the best tokens, with only them
ERASED_SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)  # of the tokens, DeYoung et al. 2020


def tvd(p: Float[np.ndarray, "*n C"], q: Float[np.ndarray, "*n C"]) -> Float[np.ndarray, "*n"]:
    """Compute the total variation distance ``½ Σ|p − q|`` over the last axis, from 0 to 1.

    A single column is the probability of class 1, so the distance is ``|p − q|``.
    """
    gap = _over_classes(np.add, np.abs(p - q))
    return gap if p.shape[-1] == 1 else 0.5 * gap


def jsd(p: Float[np.ndarray, "*n T"], q: Float[np.ndarray, "*n T"]) -> Float[np.ndarray, "*n"]:
    """Compute the Jensen-Shannon divergence over the last axis, in nats, from 0 to ``ln 2``."""
    return jsd_terms(p, q).sum(axis=-1)


def jsd_terms(p: Float[np.ndarray, "*n"], q: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """Compute what each entry adds to the divergence; one that is 0 in both adds 0."""
    middle = 0.5 * (p + q)
    return 0.5 * (rel_entr(p, middle) + rel_entr(q, middle))


def activate(
    logits: Float[np.ndarray, "n C"],
    activation: Activation,
    candidates: Bool[np.ndarray, "n C"] | None = None,
) -> Float[np.ndarray, "n C"]:
    """Turn logits into probabilities; answers that are no candidates get exactly 0."""
    if activation == "sigmoid":
        return expit(logits)
    masked = logits if candidates is None else np.where(candidates, logits, -np.inf)
    raised = np.exp(masked - _over_classes(np.maximum, masked)[..., None])
    return raised / _over_classes(np.add, raised)[..., None]


def _over_classes(reduction: np.ufunc, values: Float[np.ndarray, "*n C"]) -> np.ndarray:
    """Reduce the last axis, few classes one after another."""
    if values.shape[-1] > FEW_CLASSES:
        return reduction.reduce(values, axis=-1)
    return functools.reduce(reduction, np.moveaxis(values, -1, 0))


def predicted_class(prediction: Float[np.ndarray, "n C"]) -> np.ndarray:
    """Return the most probable class; a single sigmoid output predicts class 1 from 0.5 upwards."""
    if prediction.shape[1] == 1:
        return (prediction[:, 0] >= 0.5).astype(np.int64)
    return prediction.argmax(axis=1)

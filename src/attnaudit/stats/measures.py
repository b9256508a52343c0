"""Distances between predictions and between attention distributions (Jain & Wallace 2019)."""

import functools
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit, rel_entr

from attnaudit.core.shapes import PerClass

Activation = Literal["sigmoid", "softmax"]
LN2 = float(np.log(2.0))
# Up to this number of classes, numpy is several times faster with a call per class than with a
# reduction of the short last axis.
FEW_CLASSES = 16
ERASURE_WAYS = ("comprehensiveness", "sufficiency")  # without the best tokens, with only them
ERASED_SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)  # of the tokens, DeYoung et al. 2020


def tvd(p: Float[np.ndarray, "*n C"], q: Float[np.ndarray, "*n C"]) -> Float[np.ndarray, "*n"]:
    """Compute the total variation distance ``½ Σ|p − q|``, from 0 to 1.

    Args:
        p: Distributions over the last axis, or probabilities of class 1 in a single column.
        q: Distributions of the same shape.
    """
    # A single column is the probability of class 1. Class 0 differs by as much, so half of the sum
    # over both classes is the difference itself.
    gap = _over_classes(np.add, np.abs(p - q))
    return gap if p.shape[-1] == 1 else 0.5 * gap


def jsd(p: Float[np.ndarray, "*n T"], q: Float[np.ndarray, "*n T"]) -> Float[np.ndarray, "*n"]:
    """Compute the Jensen-Shannon divergence in nats, from 0 to ``ln 2``.

    Args:
        p: Distributions over the last axis.
        q: Distributions of the same shape.
    """
    return _over_classes(np.add, jsd_terms(p, q))


def jsd_terms(p: Float[np.ndarray, "*n"], q: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """Compute each entry's term of `jsd`, in nats; an entry that is 0 in both contributes 0."""
    middle = 0.5 * (p + q)
    return 0.5 * (rel_entr(p, middle) + rel_entr(q, middle))


def activate(
    logits: PerClass,
    activation: Activation,
    candidates: Bool[np.ndarray, "n C"] | None = None,
) -> PerClass:
    """Turn logits into probabilities.

    Args:
        logits: One logit per class, or a single one for class 1 with ``sigmoid``.
        activation: ``sigmoid`` or ``softmax``.
        candidates: Allowed classes, for ``softmax``; others get exactly 0. None allows all.
    """
    if activation == "sigmoid":
        return expit(logits)
    masked = logits if candidates is None else np.where(candidates, logits, -np.inf)
    # The largest logit becomes 0, so that no exponential overflows.
    raised = np.exp(masked - _over_classes(np.maximum, masked)[..., None])
    return raised / _over_classes(np.add, raised)[..., None]


def _over_classes(reduction: np.ufunc, values: Float[np.ndarray, "*n C"]) -> np.ndarray:
    """Reduce the last axis."""
    if values.shape[-1] > FEW_CLASSES:
        # The order of a sum depends on the layout, which tells nothing of a single row.
        return reduction.reduce(np.ascontiguousarray(values), axis=-1)
    return functools.reduce(reduction, [values[..., c] for c in range(values.shape[-1])])


def predicted_class(prediction: PerClass) -> np.ndarray:
    """Return the most probable class of every row.

    A single output is the probability of class 1, which is predicted from 0.5 upwards.
    """
    if prediction.shape[1] == 1:
        return (prediction[:, 0] >= 0.5).astype(np.int64)
    return prediction.argmax(axis=1)


def two_classes(prediction: PerClass) -> np.ndarray:
    """Return a column for each class: a single sigmoid output becomes two."""
    return np.hstack([1.0 - prediction, prediction]) if prediction.shape[1] == 1 else prediction

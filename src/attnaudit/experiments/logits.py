"""Logits as a linear function of units: the attended sum itself, or its tanh."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from attnaudit.trace.readout import Readout
from attnaudit.trace.tails import TanhTail


class OutputLayer(NamedTuple):
    """Linear layer ``logits = weight @ units + bias`` of two or more classes.

    Attributes:
        weight: Weight of each unit for each class.
        bias: Bias of each class.
        tanh: Whether the units are the tanh of the attended sum, or the sum itself.
    """

    weight: Float[np.ndarray, "C P"]
    bias: Float[np.ndarray, " C"]
    tanh: bool

    def units(self, pooled: Float[np.ndarray, "*n P"]) -> Float[np.ndarray, "*n P"]:
        """Map attended sums to the inputs of the linear layer."""
        return np.tanh(pooled) if self.tanh else pooled


def output_layer(readout: Readout) -> OutputLayer:
    """Return the linear layer behind an identity or tanh tail.

    A sigmoid output becomes two classes, the first with logit 0.
    """
    tanh = isinstance(readout.tail, TanhTail)
    if isinstance(readout.tail, TanhTail):
        # Bounds must hold to the rounding of float64, whatever the dtype of the model.
        weight = np.asarray(readout.tail.weight, np.float64)
        bias = np.asarray(readout.tail.bias, np.float64)
    else:
        weight, bias = np.eye(readout.offset.shape[1]), np.zeros(readout.offset.shape[1])
    if readout.activation == "sigmoid":
        # A softmax over logits 0 and x gives class 1 the probability sigmoid(x).
        weight, bias = np.vstack([np.zeros_like(weight), weight]), np.append(0.0, bias)
    return OutputLayer(weight, bias, tanh)

"""Outputs of a large vocabulary read for a few thousand classes, which stand for all others.

They are what a search reads, not what is reported. Near the output p under the model's own
attention, the distance of another is ``½ Σ p_c |p'_c / p_c − 1|``, an expectation under p. Classes
drawn with the shares ``min(1, p_c / τ)`` and weighted by their inverse estimate it, and the sum
that the softmax divides by: the likeliest are all among them, and each other one stands for the
same probability.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int64

from attnaudit.experiments.through_tail import Outputs
from attnaudit.stats.measures import tvd

MANY = 10_000  # classes, from which on some stand for all
READ = 1_500  # of them
POSITIONS = 1 << 12  # of the rows that are searched together
WEIGHTS = 1 << 26  # numbers of an output layer held for them
AGREE = 1e-4  # TVD of the own output of the classes read, and of what a tail says of all classes


def blocks(outputs: Outputs) -> Iterator[Int64[np.ndarray, " b"]]:
    """Yield the rows in runs that are searched together, whose classes' weights fit in memory."""
    layer = getattr(outputs.readout.tail, "output_layer", None)
    rows = len(outputs.own) if layer is None else max(WEIGHTS // (READ * layer.weight.shape[1]), 1)
    for block in outputs.alpha.blocks(POSITIONS):
        yield from np.array_split(block, -(-len(block) // rows))


def of_some_classes(outputs: Outputs) -> Outputs | None:
    """Return the outputs of `READ` classes that stand for all.

    Returns:
        None if the tail does not end in a linear layer.
    """
    own = outputs.own
    classes, weight = representatives(own, READ)
    readout = outputs.readout.of_classes(classes, np.log(weight).astype(np.float32))
    if readout is None:
        return None
    found = Outputs.of(readout, outputs.alpha)
    expected = weight * np.take_along_axis(own, classes, axis=1)
    expected /= expected.sum(axis=1, keepdims=True)
    if not (tvd(found.own, expected) <= AGREE).all():
        return None
    # The tail's last digits depend on the batch, and would rank classes that stand for as many.
    return replace(found, own=expected)


def representatives(
    prediction: Float[np.ndarray, "n C"], number: int
) -> tuple[Int64[np.ndarray, "n K"], Float[np.ndarray, "n K"]]:
    """Return the classes that stand for all of each prediction, and for how many each stands.

    They are a systematic sample of the classes in the order of their probabilities, likeliest
    first, so that nothing is drawn.
    """
    found: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}  # heads of one text have one prediction
    for row in prediction:
        if (key := row.tobytes()) not in found:
            found[key] = _representatives_of(row, number)
    classes, weight = zip(*(found[row.tobytes()] for row in prediction), strict=True)
    return np.stack(classes), np.stack(weight)


def _representatives_of(
    prediction: Float[np.ndarray, " C"], number: int
) -> tuple[Int64[np.ndarray, " K"], Float[np.ndarray, " K"]]:
    """Return the classes that stand for all of one prediction, and for how many each stands."""
    ranked = np.argsort(-prediction, kind="stable")
    p, classes, weight = prediction[ranked], ranked[:number].copy(), np.ones(number)
    behind = np.cumsum(p[::-1])[::-1]  # of each rank and those after it
    # A class that has at least an equal share of what is left stands only for itself.
    fits = np.arange(number, 0, -1) * p[:number] <= behind[:number]
    certain = int(fits.argmax()) if fits.any() else number
    if certain < number and behind[certain] > 0.0:
        each = behind[certain] / (number - certain)
        middle = (np.arange(number - certain) + 0.5) * each
        chosen = np.minimum(certain + np.searchsorted(np.cumsum(p[certain:]), middle), len(p) - 1)
        classes[certain:], weight[certain:] = ranked[chosen], each / p[chosen]
    return classes, weight

"""Statistics of trainings with several seeds that are all tested on the same texts.

A statistic is an array of terms, a row per seed and a column per text, whose mean is its value.
Seeds and texts are both drawn from more of their kind, so the variance of the mean is that of two
crossed samples: between seeds, plus between texts, minus what both have counted (Cameron, Gelbach &
Miller 2011). Differences, slopes and F1 are terms too, so pairs need no formula of their own.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtr, stdtrit

from attnaudit.stats.inference import wilson_interval

Terms = Float[np.ndarray, "S n"]


class Crossed(NamedTuple):
    """A mean over seeds and texts.

    Attributes:
        value: The mean over seeds of the means over texts.
        low: Lower end of its 95 % interval.
        high: Upper end.
        error: Standard error.
        freedom: Degrees of freedom of the error.
    """

    value: float
    low: float
    high: float
    error: float
    freedom: float


def crossed_mean(terms: Terms, most: float = math.inf) -> Crossed:
    """Return a mean over seeds and texts with its 95 % t interval.

    The degrees of freedom are Satterthwaite's, so few seeds make a wide interval.

    Args:
        terms: A value for each seed and text; NaN is excluded. One column if seeds alone vary.
        most: Largest distance of a term from the mean. If all terms are alike, the interval is that
            of texts as far away as this that the sample lacks.

    Returns:
        The mean; NaN if a seed has no term.
    """
    known = ~np.isnan(terms)
    seeds, texts = known.sum(axis=1), int(known.any(axis=0).sum())
    if not seeds.size or not seeds.all():
        return Crossed(*[math.nan] * 5)
    each = np.where(known, terms, 0.0).sum(axis=1) / seeds
    value = float(each.mean())
    # Contribution of each seed and text to the error of the mean.
    cells = np.where(known, terms - value, 0.0) / (len(terms) * seeds[:, None])
    between = [
        float(np.square(sums).sum()) * count / max(count - 1, 1) if count > 1 else 0.0
        for sums, count in ((cells.sum(axis=1), len(terms)), (cells.sum(axis=0), texts))
    ]
    crossed = float(np.square(cells).sum()) if min(len(terms), texts) > 1 else 0.0
    # Neither sample adds less than nothing, which a difference of estimates may.
    variance = max(*between, sum(between) - crossed)
    if variance <= (1e-12 * max(abs(value), 1.0)) ** 2:
        half = wilson_interval(0, texts)[1] * most if math.isfinite(most) else 0.0
        return Crossed(value, value - half, value + half, 0.0, max(texts - 1.0, 1.0))
    limits = max(len(terms) - 1, 1), max(texts - 1, 1)
    # A sample that adds no more than its cells do takes no freedom away.
    spread = crossed**2 / math.prod(limits) + sum(
        one**2 / limit for one, limit in zip(between, limits, strict=True) if one > crossed
    )
    freedom = max(variance**2 / spread, 1.0)
    error = math.sqrt(variance)
    half = float(stdtrit(freedom, 0.975)) * error
    return Crossed(value, value - half, value + half, error, freedom)


def equivalence_p(terms: Terms, margin: float, most: float = 1.0) -> float:
    """Return the p-value of the test that a mean is within a margin of 0.

    Two one-sided t tests, of which the larger p-value counts (Schuirmann 1987). A small p-value
    shows the mean to be within; a large one shows nothing.

    Args:
        terms: Differences for each seed and text.
        margin: Largest mean that is as good as 0.
        most: Largest distance of a term from the mean. If all terms are alike, the p-value is the
            chance that a sample of this size lacks texts that put the mean outside.
    """
    mean = crossed_mean(terms, most)
    room = margin - abs(mean.value)
    if math.isnan(room):
        return math.nan
    if mean.error == 0.0:
        return float((1.0 - min(room / most, 1.0)) ** terms.shape[1]) if room > 0.0 else 1.0
    return float(stdtr(mean.freedom, -room / mean.error))


def f1_terms(
    label: Int[np.ndarray, " n"], predicted: Int[np.ndarray, "*m n"]
) -> Float[np.ndarray, "*m n"]:
    """Return terms whose mean is macro F1, linear in what each text contributes.

    The terms are F1 plus the influence of a text on it, so the variance of their mean is that of
    F1 (delta method).

    Args:
        label: Class of each text.
        predicted: Predicted classes, such as a row for each seed.
    """
    classes = np.union1d(label, predicted)[:, None]
    hit = (predicted[..., None, :] == classes) & (label == classes)
    top = 2.0 * hit
    bottom = 1.0 * (predicted[..., None, :] == classes) + (label == classes)
    size = bottom.mean(axis=-1, keepdims=True)
    # A class that neither occurs nor is predicted has no F1.
    known, share = size > 0.0, np.divide(1.0, size, out=np.zeros_like(size), where=size > 0.0)
    score = top.mean(axis=-1, keepdims=True) * share
    each = score + (top - score * bottom) * share
    return np.where(known, each, 0.0).sum(axis=-2) / known.sum(axis=-2)


def slope_terms(
    x: Float[np.ndarray, " m"], y: Float[np.ndarray, "m ..."]
) -> Float[np.ndarray, "..."]:
    """Return the least-squares slope of m arrays of terms on m numbers, term by term.

    Args:
        x: Value of the factor of each array; not all alike.
        y: Terms at each value.
    """
    centred = x - x.mean()
    return np.tensordot(centred / (centred @ centred), y, axes=1)


class Mediation(NamedTuple):
    """The two parts of an effect in each block: ``total = indirect + direct``.

    Attributes:
        total: Slope of the outcome on the factor.
        indirect: Slope of the mediator on the factor, times that of the outcome on the mediator at
            a fixed factor.
        direct: Slope of the outcome on the factor at a fixed mediator.
    """

    total: Float[np.ndarray, " S"]
    indirect: Float[np.ndarray, " S"]
    direct: Float[np.ndarray, " S"]


def mediation(
    factor: Float[np.ndarray, "S k"],
    mediator: Float[np.ndarray, "S k"],
    outcome: Float[np.ndarray, "S k"],
) -> Mediation:
    """Divide the effect of a factor into what goes through a mediator and what does not.

    Each block, such as a seed with k models, has least-squares fits of its own, so their spread
    gives the interval of a mean by `crossed_mean` (Kenny, Korchmaros & Bolger 2003).

    Args:
        factor: Value of the factor in each model of each block.
        mediator: Value of the mediator.
        outcome: The outcome.

    Returns:
        The parts for each block; NaN if the mediator follows from the factor, or either is
        constant.
    """
    parts = np.full((3, len(factor)), np.nan)
    for block, columns in enumerate(zip(factor, mediator, outcome, strict=True)):
        x, m, y = (column - column.mean() for column in columns)
        both = np.stack([x, m], axis=1)
        if np.linalg.matrix_rank(both, tol=1e-9 * max(np.abs(both).max(), 1e-300)) < 2:
            continue
        direct, through = np.linalg.lstsq(both, y, rcond=None)[0]
        parts[:, block] = (x @ y) / (x @ x), (x @ m) / (x @ x) * through, direct
    return Mediation(*parts)

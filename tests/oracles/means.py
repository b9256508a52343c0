"""The interval of a mean, with every resample written out (Gaffke 2005)."""

import math

import numpy as np

from attnaudit.core.random import stream_keys, uniform


def mean_interval(texts, least, most, seed, resamples=1000):
    """Interval of the mean over the rows of texts, with values from ``least`` to ``most``."""
    rows = [len(text) for text in texts]
    size = sum(rows) / sum(count > 0 for count in rows)
    lows, highs = [], []
    for key in stream_keys(seed, "bootstrap", np.arange(resamples)):
        drawn = uniform(key, np.arange(len(texts) + 1))
        weights = [-math.log(number) for number in drawn]
        total = sum(weight * sum(text) for weight, text in zip(weights, texts, strict=False))
        count = sum(weight * n for weight, n in zip(weights, rows, strict=False))
        count += weights[-1] * size
        lows.append((total + weights[-1] * size * least) / count)
        highs.append((total + weights[-1] * size * most) / count)
    return float(np.quantile(lows, 0.025)), float(np.quantile(highs, 0.975))

"""What the model would predict, one position at a time."""

import math

import numpy as np

from attnaudit.trace import IdentityTail


def naive_prediction(trace, row, alpha):
    """``activation(tail(offset + Σ_t alpha_t · readout_t))`` by loops over positions and numbers."""
    return naive_readout(trace, row)(alpha)


def naive_readout(trace, row):
    """The prediction of one row as a function of its attention."""
    offset = [float(x) for x in trace.readout.offset[row]]
    contributions = [
        [float(x) for x in contribution] for contribution in trace.readout.contribution[row]
    ]
    sigmoid, tail = trace.metadata["activation"] == "sigmoid", trace.readout.tail
    candidates = None if trace.candidates is None else list(trace.candidates[row])

    def predict(alpha):
        pooled = list(offset)
        for weight, contribution in zip(alpha, contributions, strict=True):
            for k, number in enumerate(contribution):
                pooled[k] += float(weight) * number
        logits = (
            pooled
            if isinstance(tail, IdentityTail)
            else [float(z) for z in tail(np.array([pooled]), np.array([row]))[0]]
        )
        if sigmoid:
            return [
                1.0 / (1.0 + math.exp(-z)) if z > 0 else math.exp(z) / (1.0 + math.exp(z))
                for z in logits
            ]
        allowed = [True] * len(logits) if candidates is None else candidates
        highest = max(z for z, yes in zip(logits, allowed, strict=True) if yes)
        raised = [
            math.exp(z - highest) if yes else 0.0 for z, yes in zip(logits, allowed, strict=True)
        ]
        return [e / sum(raised) for e in raised]

    return predict


def naive_tvd(p, q):
    gap = sum(abs(a - b) for a, b in zip(p, q, strict=True))
    return gap if len(p) == 1 else gap / 2


def naive_jsd(p, q, log=math.log):
    """½ KL(p‖m) + ½ KL(q‖m) with m the mean of both, zeros left out."""
    total = 0.0
    for a, b in zip(p, q, strict=True):
        middle = (a + b) / 2
        total += 0.5 * a * log(a / middle) if a > 0 else 0.0
        total += 0.5 * b * log(b / middle) if b > 0 else 0.0
    return total

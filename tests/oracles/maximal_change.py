"""The largest change of the output by any attention: single tokens, a grid of mixtures, and random attentions, one at a time."""

import numpy as np

from tests.oracles.erasure import decided
from tests.oracles.readout import naive_prediction, naive_readout, naive_tvd


def single_changes(trace, row):
    """The change with all attention on each token."""
    change = changes(trace, row)
    return [change(corner) for corner in np.eye(len(trace.alpha[row]))]


def single_flips(trace, row):
    """Whether another class is likelier with all attention on some token."""
    own = decided(naive_prediction(trace, row, trace.alpha[row]))
    return any(
        decided(naive_prediction(trace, row, corner)) != own
        for corner in np.eye(len(trace.alpha[row]))
    )


def sampled_change(trace, row, samples=300, seed=0):
    """The largest change among random attentions, most of them of few tokens."""
    return max(
        map(changes(trace, row), samples_of(len(trace.alpha[row]), samples, seed)), default=0.0
    )


def change_under(trace, row, attention):
    return changes(trace, row)(attention)


def changes(trace, row):
    """The change of one row's output as a function of its attention."""
    predict = naive_readout(trace, row)
    own = predict(trace.alpha[row])
    return lambda attention: naive_tvd(predict(attention), own)


def samples_of(length, samples, seed):
    rng = np.random.default_rng([seed, length])
    for _ in range(samples):
        chosen = rng.choice(length, min(int(rng.integers(1, 5)), length), replace=False)
        point = np.zeros(length)
        point[chosen] = rng.dirichlet(np.ones(len(chosen)))
        yield point

"""Two models with the same trace and opposite truths: what no measure of a trace can tell apart.

A text has two words of one class, fillers, and a last word that names the class as well. Both models put their weight on the last word.
One decides by the last word; the other carries the class of the earlier words to the last position, saturated, so that one of the two is
enough. Where the words agree, weights, readouts, predictions, leave-one-out and gradients are the same. Replacing the last word changes the
decision of the first model alone, replacing the two earlier words that of the second alone.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from attnaudit.corpora.corpus import keyed
from attnaudit.corpora.planted import BAD, GOOD, filler
from attnaudit.trace import Trace

ENDS = ("no", "yes")
CLASSES = ("negative", "positive")
_FOCUS, _SIZE, _STEP = (
    8.0,
    4.0,
    1e-4,
)  # score of a last word, readout of a decision, step of a derivative
Features = Float[
    np.ndarray, "T three"
]  # of each word its class as an earlier word, its class as a last word, whether it is a last word
States = Callable[[Features], Float[np.ndarray, " T"]]


def by_last_word(features):
    """The state of every position is the class that its own word names: faithful, with attention on last words."""
    return features[:, 1]


def by_earlier_words(features):
    """A last word, whichever it is, lets the saturated sum of the classes before it pass: unfaithful, with attention on last words."""
    before = np.concatenate([[0.0], np.cumsum(features[:, 0])[:-1]])
    return features[:, 2] * np.clip(before, -1.0, 1.0)


def texts(rows, seed):
    """Texts in which all words that name a class name the same."""
    return [_text(row % 2, keyed(seed, "twins", str(row))) for row in range(rows)]


def _text(label, rng):
    words = filler(int(rng.integers(8, 13)), rng)
    for place in rng.choice(len(words), 2, replace=False).tolist():
        words[place] = (BAD, GOOD)[label][int(rng.integers(len(GOOD)))]
    return [*words, ENDS[label]]


def replaced(words, last):
    """The text with its last word replaced by the other one, or with its earlier words replaced by those of the other class."""
    if last:
        return [*words[:-1], ENDS[1 - ENDS.index(words[-1])]]
    other = dict(zip((*GOOD, *BAD), (*BAD, *GOOD), strict=True))
    return [other.get(word, word) for word in words]


def features_of(words):
    early = {**dict.fromkeys(BAD, -1.0), **dict.fromkeys(GOOD, 1.0)}
    late = dict(zip(ENDS, (-1.0, 1.0), strict=True))
    return np.array(
        [[early.get(word, 0.0), late.get(word, 0.0), float(word in late)] for word in words]
    )


def probability(states, features):
    """Of the class positive."""
    return float(1.0 / (1.0 + np.exp(-_SIZE * attention(features) @ states(features))))


def attention(features):
    weights = np.exp(_FOCUS * features[:, 2])
    return weights / weights.sum()


def trace_of(states, rows):
    """The trace of a model, with leave-one-out by deleting words and gradient × input by differences."""
    found = [features_of(words) for words in rows]
    return Trace.from_arrays(
        activation="sigmoid",
        class_names=CLASSES,
        instance=np.arange(len(rows)),
        tokens=[list(words) for words in rows],
        alpha=[attention(one) for one in found],
        readout=[_SIZE * states(one)[:, None] for one in found],
        offset=np.zeros((len(rows), 1)),
        prediction=np.array([[probability(states, one)] for one in found]),
        gradient=[_gradient(states, one) for one in found],
        loo=[_without_each(states, one) for one in found],
    )


def _without_each(states, features):
    whole = probability(states, features)
    return np.array(
        [
            abs(probability(states, np.delete(features, t, axis=0)) - whole)
            for t in range(len(features))
        ]
    )


def _gradient(states, features):
    found = np.zeros(len(features))
    for t, k in np.ndindex(features.shape):
        step = np.zeros_like(features)
        step[t, k] = _STEP
        slope = (probability(states, features + step) - probability(states, features - step)) / (
            2 * _STEP
        )
        found[t] += slope * features[t, k]
    return np.abs(found)

"""A classifier behind a function, with words that decide, and texts that hold them."""

import numpy as np

FILLER = ("the", "film", "was", "and", "a", "story", "with", "two", "scenes", "of", "it")
DECIDING = {"superb": 1.5, "moving": 1.0, "awful": -1.5, "dull": -1.0}


def planted(n=24, seed=0):
    """Texts, and how much each word decides."""
    rng = np.random.default_rng(seed)
    texts, truth = [], []
    for _ in range(n):
        words = rng.choice(FILLER, rng.integers(5, 10)).tolist()
        side = list(DECIDING)[:2] if rng.random() < 0.5 else list(DECIDING)[2:]
        for place, word in zip(rng.choice(len(words), 2, replace=False), side, strict=True):
            words[place] = word
        texts.append("  ".join(words) + " ")
        truth.append(np.array([DECIDING.get(word, 0.0) for word in words]))
    return texts, truth


def predict(texts):
    """The probability of each class, which follows the deciding words alone."""
    logit = np.array([sum(DECIDING.get(word, 0.0) for word in text.split()) for text in texts])
    positive = 1.0 / (1.0 + np.exp(-logit))
    return np.stack([1.0 - positive, positive], axis=1)


def rolled(rows):
    """The scores of each text, one word further on."""
    return [np.roll(row, 1) for row in rows]

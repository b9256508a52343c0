"""Log-odds of words by definition: proximal gradient steps on the L1-penalised logistic loss over dense bags of words."""

import numpy as np


def log_odds(texts, positive, words, steps=20_000):
    """Coefficients of ``words`` words; classes are balanced, and the bias is penalised like a coefficient (as liblinear has it)."""
    bags = np.zeros((len(texts), words + 1))
    for row, text in enumerate(texts):
        for word in set(text):
            bags[row, word] = 1.0
        bags[row] /= np.sqrt((bags[row] ** 2).sum())
        bags[row, words] = 1.0
    sign = np.where(positive, 1.0, -1.0)
    weight = np.where(
        positive,
        len(texts) / (2 * np.sum(positive)),
        len(texts) / (2 * np.sum(~np.array(positive))),
    )
    step = 4.0 / (weight.max() * np.linalg.norm(bags, 2) ** 2)
    found = np.zeros(words + 1)
    for _ in range(steps):
        slope = -(weight * sign / (1.0 + np.exp(sign * (bags @ found)))) @ bags
        moved = found - step * slope
        found = np.sign(moved) * np.maximum(np.abs(moved) - step, 0.0)
    return found[:words]

"""The variance of a mean over seeds and texts, as two-way clustered errors are written."""


def crossed_variance(terms):
    """Between seeds, plus between texts, minus cells; no less than either alone."""
    seeds, texts = terms.shape
    mean = terms.mean()
    by_seed = sum(
        (sum(terms[s, t] - mean for t in range(texts)) / terms.size) ** 2 for s in range(seeds)
    )
    by_text = sum(
        (sum(terms[s, t] - mean for s in range(seeds)) / terms.size) ** 2 for t in range(texts)
    )
    cells = sum(
        ((terms[s, t] - mean) / terms.size) ** 2 for s in range(seeds) for t in range(texts)
    )
    by_seed, by_text = by_seed * seeds / (seeds - 1), by_text * texts / (texts - 1)
    return max(by_seed, by_text, by_seed + by_text - cells)

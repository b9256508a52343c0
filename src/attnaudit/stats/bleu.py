"""BLEU of several trainings (Papineni et al. 2002), as sacrebleu counts it, resampled over seeds and pairs."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from attnaudit.stats.bootstrap import (
    canonical_order,
    drawn_seeds,
    percentile_interval,
    resample,
    resample_keys,
)

RESAMPLES, SEED = 1000, 0
ORDERS = 4
COUNTS = (
    2 * ORDERS + 2
)  # matching and all n-grams of each order, the lengths of translation and reference


def bleu_counts(written: Sequence[str], references: Sequence[str]) -> Int64[np.ndarray, "n counts"]:
    """What BLEU is made from, of every pair; their sums over pairs give that of a corpus."""
    from sacrebleu.metrics.bleu import BLEU

    one = BLEU(effective_order=True)  # of the score of a sentence alone, not of its counts
    scores = [
        one.sentence_score(text, [reference])
        for text, reference in zip(written, references, strict=True)
    ]
    rows = [(*score.counts, *score.totals, score.sys_len, score.ref_len) for score in scores]
    return np.array(rows, dtype=np.int64).reshape(-1, COUNTS)


def bleu(counts: Int64[np.ndarray, " counts"]) -> float:
    """BLEU, from 0 to 100, of counts summed over a corpus."""
    return _score(counts.tolist())


def bleu_of_others(written: Sequence[str], references: Sequence[str]) -> float | None:
    """BLEU of every translation against another reference than its own, from 0 to 100: what can be written without the source.

    Which one follows from the texts alone, and does not change with the order of the pairs. None of a single pair.
    """
    if len(references) < 2:
        return None
    shuffled = sorted(
        set(references), key=lambda text: sha256(text.encode(errors="surrogatepass")).digest()
    )
    other = dict(zip(shuffled, [*shuffled[1:], shuffled[0]], strict=True))
    return bleu(bleu_counts(written, [other[text] for text in references]).sum(axis=0))


def _score(counts: Any) -> float:
    from sacrebleu.metrics.bleu import BLEU

    matching, total, (length, reference) = (
        list(counts[:ORDERS]),
        list(counts[ORDERS:-2]),
        map(int, counts[-2:]),
    )
    return BLEU.compute_bleu(matching, total, length, reference, smooth_method="exp").score


def corpus_bleu(
    written: Sequence[str], references: Sequence[str]
) -> tuple[float, float, float, str]:
    """BLEU of a corpus, its 95 % percentile interval over pairs, which does not depend on their order, and sacrebleu's signature."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    score = metric.corpus_score(list(written), [list(references)]).score
    counts = canonical_order(bleu_counts(written, references).astype(np.float64)).astype(np.int64)
    again = np.array(
        [
            [bleu(resample(key, len(counts)).astype(np.int64) @ counts)]
            for key in resample_keys(SEED, RESAMPLES)
        ]
    )
    low, high = percentile_interval(again, rows=np.array([len(counts)]))
    return score, float(low[0]), float(high[0]), str(metric.get_signature())


def bleu_over_seeds(
    counts: Int64[np.ndarray, "S n counts"], *, seed: int, resamples: int = 1000
) -> tuple[Float[np.ndarray, " S"], Float[np.ndarray, " resamples"]]:
    """BLEU of every seed, and the mean over seeds of resampled seeds and pairs."""
    keys, drawn = resample_keys(seed, resamples), drawn_seeds(seed, resamples, len(counts))
    again = np.empty(resamples)
    for b, key in enumerate(keys):
        weight = resample(key, counts.shape[1]).astype(np.int64)
        of_seed = np.array([bleu(weight @ part) for part in counts])
        again[b] = of_seed[drawn[b]].mean()
    return np.array([bleu(part.sum(axis=0)) for part in counts]), again

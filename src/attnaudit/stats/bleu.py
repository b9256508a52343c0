"""BLEU of translations (Papineni et al. 2002) by sacrebleu, with bootstrap intervals."""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int64

from attnaudit.stats.bootstrap import (
    RESAMPLES,
    Weights,
    expanded_tail,
    percentile_interval,
    resampled,
    resampled_over_seeds,
    weighted_sums,
)

ORDERS = 4  # longest n-grams counted, sacrebleu's default


class CorpusBleu(NamedTuple):
    """BLEU of a corpus, from 0 to 100, with its 95 % interval and sacrebleu's signature."""

    score: float
    low: float
    high: float
    signature: str


def bleu_counts(written: Sequence[str], references: Sequence[str]) -> Int64[np.ndarray, "n counts"]:
    """Count the statistics of BLEU in every pair; those of a corpus are the sums over its pairs.

    Args:
        written: Translations.
        references: Their references.

    Returns:
        Numbers of matching n-grams of each order, numbers of all n-grams of each order, and the
        lengths of translation and reference.
    """
    # Imported within functions, because sacrebleu belongs to an extra.
    from sacrebleu.metrics.bleu import BLEU

    # The scores are not used, only the counts; `effective_order` silences a warning about scores
    # of single sentences.
    metric = BLEU(effective_order=True)
    scores = [
        metric.sentence_score(text, [reference])
        for text, reference in zip(written, references, strict=True)
    ]
    rows = [(*score.counts, *score.totals, score.sys_len, score.ref_len) for score in scores]
    return np.array(rows, dtype=np.int64).reshape(-1, 2 * ORDERS + 2)


def bleu(counts: np.ndarray) -> float:
    """Compute BLEU, from 0 to 100, from counts summed over a corpus."""
    from sacrebleu.metrics.bleu import BLEU

    *grams, length, reference = map(int, counts)
    matching, total = grams[:ORDERS], grams[ORDERS:]
    # The smoothing of `corpus_score`, so that resamples are resamples of the same statistic.
    return BLEU.compute_bleu(matching, total, length, reference, smooth_method="exp").score


def bleu_of_others(written: Sequence[str], references: Sequence[str]) -> float | None:
    """Compute BLEU of the translations against the references of other pairs.

    This baseline is the score of a translator that ignores the source. The other pair depends on
    the texts only, not on the order of the pairs.

    Args:
        written: Translations.
        references: Their own references.

    Returns:
        BLEU from 0 to 100; None for fewer than two pairs.
    """
    if len(references) < 2:
        return None
    # Hashes give an order that is unrelated to the meaning; each text is paired with its successor.
    shuffled = sorted(
        set(references), key=lambda text: sha256(text.encode(errors="surrogatepass")).digest()
    )
    other = dict(zip(shuffled, [*shuffled[1:], shuffled[0]], strict=True))
    return bleu(bleu_counts(written, [other[text] for text in references]).sum(axis=0))


def corpus_bleu(written: Sequence[str], references: Sequence[str]) -> CorpusBleu:
    """Compute BLEU of a corpus and its interval over pairs.

    Args:
        written: Translations.
        references: Their references.
    """
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    score = metric.corpus_score(list(written), [list(references)]).score
    counts = bleu_counts(written, references)
    # Sorted, so that the interval does not depend on the order of the pairs.
    ordered = counts[np.lexsort(counts.T)]
    again = resampled(lambda weights: _of_resamples(weights, ordered), len(ordered), seed=0)
    (low,), (high,) = percentile_interval(again[:, None], expanded_tail(len(ordered)))
    return CorpusBleu(score, float(low), float(high), str(metric.get_signature()))


def bleu_over_seeds(
    counts: Int64[np.ndarray, "S n counts"], seed: int, resamples: int = RESAMPLES
) -> tuple[Float[np.ndarray, " S"], Float[np.ndarray, " resamples"]]:
    """Compute BLEU of each of S trainings, and its mean in resamples of trainings and pairs.

    Args:
        counts: `bleu_counts` of every training.
        seed: Seed of the draws.
        resamples: Number of resamples.

    Returns:
        BLEU of each training, and mean BLEU of each resample.
    """

    def scores(weights: Weights) -> Float[np.ndarray, "b S"]:
        return np.stack([_of_resamples(weights, part) for part in counts], axis=1)

    seeds, pairs, _ = counts.shape
    again = resampled_over_seeds(scores, pairs, seeds, seed, resamples)
    return np.array([bleu(part.sum(axis=0)) for part in counts]), again


def _of_resamples(
    weights: Weights, counts: Int64[np.ndarray, "n counts"]
) -> Float[np.ndarray, " b"]:
    return np.array([bleu(row) for row in weighted_sums(weights, counts.T.astype(np.float64))])

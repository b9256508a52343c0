"""BLEU of a corpus, its interval, and that of translations against references of other pairs."""

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from attnaudit.stats.bleu import bleu_of_others, corpus_bleu

WORDS = ["a", "the", "dog", "cat", "runs", "sleeps", "on", "under", "red", "green", "house", "tree"]


def sentences(number, seed):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, size=rng.integers(5, 12))) for _ in range(number)]


def nearly(references, seed):
    """Translations with some words exchanged, of each its own number."""
    rng = np.random.default_rng(seed)
    return [
        " ".join(word if rng.random() > 0.3 * (row % 3) else "x" for word in text.split())
        for row, text in enumerate(references)
    ]


@pytest.mark.slow
def test_score_and_interval_are_those_of_plain_resampling():
    references = sentences(60, 0)
    written = nearly(references, 1)
    score, low, high, signature = corpus_bleu(written, references)
    plain = BLEU()
    assert score == plain.corpus_score(written, [references]).score
    assert signature.startswith("nrefs:1")
    rng = np.random.default_rng(2)
    drawn = [rng.integers(60, size=60).tolist() for _ in range(1000)]
    again = [
        plain.corpus_score([written[k] for k in rows], [[references[k] for k in rows]]).score
        for rows in drawn
    ]
    assert (low, high) == pytest.approx(np.percentile(again, [2.5, 97.5]), abs=0.2 * (high - low))


def test_the_order_of_pairs_changes_nothing():
    references = sentences(20, 3)
    written, order = nearly(references, 4), np.random.default_rng(5).permutation(20).tolist()
    others = [written[k] for k in order], [references[k] for k in order]
    assert corpus_bleu(written, references) == corpus_bleu(*others)
    assert bleu_of_others(written, references) == bleu_of_others(*others)


@pytest.mark.parametrize("seed", range(4))
def test_an_interval_of_few_pairs_stays_within_0_and_100(seed):
    references = sentences(3, seed)
    score, low, high, _ = corpus_bleu([references[0], "x", "y z"], references)
    assert 0 <= low <= score <= high <= 100 + 1e-9


def test_a_translation_is_never_compared_with_its_own_reference():
    """References that stand twice side by side, as in a sorted file, too."""
    references = sentences(10, 6)
    twice = [text for text in references for _ in range(2)]
    assert (bleu_of_others(twice, twice) or 0.0) < 10  # of the next pair's it would be above 50
    assert bleu_of_others(references[:1], references[:1]) is None

"""Compare ``aa.judge`` with explainkit 0.2 on one classifier: ``python -m benchmarks.judge``.

Both judge the same scores of the same SST sentences. The classifier is a naive Bayes of words and
pairs of words, so deciding words are known in part. explainkit is no dependency: install it into a
folder of its own and put this folder on the path,

    pip install --no-deps --target FOLDER explainkit==0.2.0
    PYTHONPATH=FOLDER python -m benchmarks.judge
"""

from __future__ import annotations

import os
import time
from collections import Counter
from itertools import pairwise

import numpy as np
from explainkit.explain import Explainer  # pyright: ignore[reportMissingImports]
from explainkit.faithfulness import (  # pyright: ignore[reportMissingImports]
    aopc,
    comprehensiveness,
)
from explainkit.replace import (  # pyright: ignore[reportMissingImports]
    delete_strategy,
    replace_tokens,
)
from explainkit.schema import Explanation  # pyright: ignore[reportMissingImports]
from explainkit.tokenizers import word_tokenizer  # pyright: ignore[reportMissingImports]

import attnaudit as aa

TEXTS, TOP = 200, 3


class NaiveBayes:
    """Probabilities of two classes from words and pairs of neighbours."""

    def __init__(self, texts: list[list[str]], labels: np.ndarray) -> None:
        counts = [Counter[str](), Counter[str]()]
        for words, label in zip(texts, labels.tolist(), strict=True):
            counts[label].update(self.features(words))
        totals = [sum(count.values()) for count in counts]
        self.weight = {
            name: float(
                np.log((counts[1][name] + 1) / totals[1])
                - np.log((counts[0][name] + 1) / totals[0])
            )
            for name in {*counts[0], *counts[1]}
        }

    @staticmethod
    def features(words: list[str]) -> list[str]:
        """Return words and pairs."""
        return words + [f"{a} {b}" for a, b in pairwise(words)]

    def __call__(self, texts: list[str]) -> np.ndarray:
        """Return probabilities (n, 2)."""
        cut = (self.features([one.text.lower() for one in word_tokenizer(text)]) for text in texts)
        logit = np.array([sum(self.weight.get(name, 0.0) for name in names) for names in cut])
        positive = 1.0 / (1.0 + np.exp(-0.5 * logit))
        return np.stack([1.0 - positive, positive], axis=1)


def explained(model: NaiveBayes, texts: list[str]) -> dict[str, list[Explanation]]:
    """Explain each text: by deletion, by a local fit, by the weights of words, and by nothing."""
    explainer, rng = Explainer(model), np.random.default_rng(0)
    found = {
        name: explainer.explain_batch(texts, method=name, n_samples=64)
        for name in ("surrogate", "occlusion")
    }

    def other(one: Explanation, scores: list[float]) -> Explanation:
        return one.model_copy(update={"scores": scores})

    side = [2 * one.target_class - 1 for one in found["occlusion"]]
    found["weights"] = [
        other(one, [sign * model.weight.get(token.lower(), 0.0) for token in one.tokens])
        for one, sign in zip(found["occlusion"], side, strict=True)
    ]
    found["length"] = [
        other(one, [float(len(token)) for token in one.tokens]) for one in found["occlusion"]
    ]
    found["noise"] = [
        other(one, rng.random(len(one.tokens)).tolist()) for one in found["occlusion"]
    ]
    return found


def main() -> None:
    """Print what both say of every score, and the seconds."""
    corpus = aa.read_corpus("sst", data_dir=os.environ.get("ATTNAUDIT_DATA"))
    train, test = corpus.splits["train"], corpus.splits["test"]
    model = NaiveBayes(train.tokens, train.label)
    texts = [" ".join(words) for words in test.tokens[:TEXTS]]
    labels = test.label[:TEXTS]
    print(f"accuracy {(model(texts).argmax(axis=1) == labels).mean():.3f}, {len(texts)} texts")
    scores = explained(model, texts)
    begun, rows = time.process_time(), {}
    for name, explanations in scores.items():
        after = [replace_tokens(one, delete_strategy(), top_k=TOP).text for one in explanations]
        flips = model(after).argmax(axis=1) != [one.predicted_class for one in explanations]
        rows[name] = (
            np.mean([aopc(one, model) for one in explanations]),
            np.mean([comprehensiveness(one, model, k=TOP) for one in explanations]),
            flips.mean(),
        )
    print(f"explainkit, {time.process_time() - begun:.1f} CPU s: AOPC, comp@{TOP}, flips@{TOP}")
    for name, row in sorted(rows.items(), key=lambda row: -row[1][0]):
        print(f"  {name:10}", *(f"{value:.3f}" for value in row))
    begun = time.process_time()
    values = {name: [one.scores for one in own] for name, own in scores.items()}
    found = aa.judge(
        model,
        texts,
        values,
        labels=labels.tolist(),
        words=lambda text: [one.text for one in word_tokenizer(text)],
    )
    print(f"attnaudit, {time.process_time() - begun:.1f} CPU s: {found.verdict.code}")
    for row in found.table().iter_rows(named=True):
        numbers = [row["replacement"], row["low"], row["high"], row["comprehensiveness"]]
        print(f"  {row['score']:10}", *(f"{value:.3f}" for value in numbers))


if __name__ == "__main__":
    main()

"""How much a model gains from more training rows: ever more of train, the same dev and test, one seed.

    python benchmarks/training_size.py snli/bilstm ag_news/cnn --data-dir ../shared/data --vectors glove.6B.50d.top9163.txt.gz

A corpus of which only a sample is here trains on fewer rows than the published model did; what each doubling gives says what that costs.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from attnaudit.corpora.corpus import Corpus
from attnaudit.corpora.prepare.vocabulary import Vocabulary, word_vectors
from attnaudit.corpora.read import read_corpus
from attnaudit.models.classifier import build_model
from attnaudit.plans.spec import RunSpec
from attnaudit.stats.inference import share_interval
from attnaudit.stats.measures import predicted_class
from attnaudit.training.loop import best_epoch
from attnaudit.training.texts import predict, train
from benchmarks.output import print_header, print_row

SHARES = (8, 4, 2, 1)


def spaced_rows(corpus: Corpus, count: int) -> Corpus:
    """The corpus with ``count`` rows of train, evenly spaced."""
    split = corpus.splits["train"]
    rows = np.linspace(0, len(split) - 1, count).round().astype(int)
    return replace(corpus, splits={**corpus.splits, "train": split.take(rows)})


def size_row(spec: RunSpec, corpus: Corpus) -> list[str]:
    """One training as the spec says, as a row of the table."""
    split, test = corpus.splits["train"], corpus.splits["test"]
    tokens = [*split.tokens, *(split.question or [])]
    vocabulary = Vocabulary.build(tokens, corpus.min_df)
    vectors = word_vectors(
        spec.vectors,
        vocabulary,
        tokens,
        dimension=spec.model.embedding,
        seed=spec.seed,
        missing=spec.model.unknown_vectors,
    )
    model = build_model(
        spec.model,
        vocabulary,
        vectors.matrix,
        corpus.class_names,
        spec.seed,
        corpus.task != "classification",
    )
    best = best_epoch(train(model, corpus, spec.training, seed=spec.seed))
    right = predicted_class(predict(model, model.inputs(test))) == test.label
    low, high = share_interval(right.astype(float), np.arange(len(right)))
    unseen = np.mean([word not in vocabulary for text in test.tokens for word in text])
    figures = (
        len(split),
        best.epoch,
        f"{best.loss:.3f}",
        f"{best.dev_accuracy:.3f}",
        f"{right.mean():.3f}",
        f"[{low:.3f}, {high:.3f}]",
    )
    return [*map(str, figures), f"{100 * unseen:.1f} %"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "cells", nargs="+", metavar="CORPUS/ENCODER", help="with additive attention"
    )
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--vectors", required=True)
    options = parser.parse_args()
    heads = [
        "corpus",
        "encoder",
        "train rows",
        "best epoch",
        "its loss",
        "dev accuracy",
        "test accuracy",
        "95 % interval",
        "unseen test words",
    ]
    print_header(heads)
    for name, encoder in (cell.split("/") for cell in options.cells):
        spec = RunSpec.of(name, encoder=encoder, attention="additive", vectors=options.vectors)
        corpus = read_corpus(name, data_dir=options.data_dir)
        for share in SHARES:
            cells = size_row(spec, spaced_rows(corpus, len(corpus.splits["train"]) // share))
            print_row([name, encoder, *cells])


if __name__ == "__main__":
    main()

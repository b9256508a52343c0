"""Reading a corpus and its word vectors: rows, tokens, seconds and the peak memory of the whole process, a fresh one for each corpus.

    python benchmarks/preparing.py --data-dir DIR --vectors FILE [CORPUS...]

The process holds the interpreter and the library too; the row "nothing" shows how much that is.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time

from attnaudit.corpora.prepare.vocabulary import Vocabulary, word_vectors
from attnaudit.corpora.read import read_corpus
from attnaudit.steps.folder import peak_memory
from benchmarks.output import print_header, print_row

CORPORA = ("sst", "imdb", "20news_sports", "ag_news", "snli", "babi1", "cnn")
COLUMNS = ("corpus", "instances", "tokens", "words known", "seconds", "peak memory (GiB)")


def prepare(name: str, data_dir: str, vectors: str) -> list[str]:
    """One row of the table: what a run does before it trains."""
    begun = time.perf_counter()
    instances = tokens = words = 0
    if name != "nothing":
        corpus = read_corpus(name, data_dir=data_dir)
        splits, train = corpus.splits.values(), corpus.splits["train"].tokens
        words = word_vectors(vectors, Vocabulary.build(train, corpus.min_df), train).covered
        instances, tokens = (
            sum(len(split) for split in splits),
            sum(len(row) for split in splits for row in split.tokens),
        )
    seconds = time.perf_counter() - begun
    return [
        name,
        f"{instances}",
        f"{tokens}",
        f"{words}",
        f"{seconds:.1f}",
        f"{peak_memory() / 2**30:.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", nargs="*", default=CORPORA)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--vectors", required=True)
    options = parser.parse_args()
    print_header(COLUMNS)
    for name in ("nothing", *options.corpora):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            row = pool.apply(prepare, (name, options.data_dir, options.vectors))
        print_row(row)


if __name__ == "__main__":
    main()

"""Audit a model of the size of BERT-base: all heads of its last layer, on sentences of SST test.

    python -m benchmarks.bert_base --data-dir DIR [--sample 500]

The weights are random; the tokenizer has as many word pieces as BERT's, learned from SST train.
Once with the usual scores of importance, once without leave-one-out, which runs the whole model
again for every word. Print a Markdown table; its last row is the time of the model alone for the
passes of leave-one-out: texts of one length, as many as make `POSITIONS`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
)

from attnaudit.corpora.read import read_corpus
from attnaudit.hf.importance import USUAL
from attnaudit.hf.train import train_tokenizer
from attnaudit.trace import Trace
from attnaudit.training.transformers import CONFIGS, TransformerSizes
from benchmarks.cost import cost_of_attnaudit
from benchmarks.output import print_header, print_row

PIECES = 30_522
POSITIONS, PASSES = 4096, 5


def write_model(folder: Path, data_dir: str) -> None:
    """Save a model whose decisions are neither all the same nor saturated, and its tokenizer."""
    corpus = read_corpus("sst", data_dir=data_dir)
    texts = [" ".join(words) for words in corpus.splits["train"].tokens]
    sizes = TransformerSizes(vocabulary=PIECES)
    train_tokenizer(texts, sizes, CONFIGS["small-bert"].architecture).save_pretrained(folder)
    names = dict(enumerate(corpus.class_names))
    ids = {name: k for k, name in names.items()}
    torch.manual_seed(0)
    # Larger weights than usual, because with the usual ones all decisions are the same.
    config = BertConfig(vocab_size=PIECES, id2label=names, label2id=ids, initializer_range=0.04)
    BertForSequenceClassification(config).save_pretrained(folder)


def passes_alone(model: Path, trace: Path) -> tuple[int, float]:
    """Return the positions of all texts without each of their words, and the model's seconds."""
    rows = Trace.read(trace)
    _, first = np.unique(rows.instance, return_index=True)  # a row for each head
    word_id = rows.ragged("word_id").take(first)
    words = np.maximum(word_id.max(), -1) + 1
    pieces = word_id.with_values(word_id.values >= 0).sum()
    positions = int((words * word_id.lengths - pieces).sum())
    length = int(np.average(word_id.lengths, weights=words))
    network = AutoModelForSequenceClassification.from_pretrained(model).eval()
    ids = torch.randint(PIECES, (POSITIONS // length, length))
    with torch.inference_mode():
        network(ids)
        begun = time.perf_counter()
        for _ in range(PASSES):
            network(ids)
    return positions, (time.perf_counter() - begun) / (PASSES * ids.numel()) * positions


def main() -> None:
    """Measure both audits and the model alone."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--sample", type=int, default=500)
    options = parser.parse_args()
    names = ("scores of importance", "sentences", "whole command (s)", "CPU (s)")
    print_header((*names, "peak memory (GiB)"))
    with tempfile.TemporaryDirectory() as name:
        model = Path(name, "model")
        write_model(model, options.data_dir)
        sample = str(options.sample)
        for title, scores in (
            ("without leave-one-out", [score for score in USUAL if score != "loo"]),
            ("the usual ones", USUAL),
        ):
            out = Path(name, f"{len(scores)}")
            texts = ["sst", "--data-dir", options.data_dir, "--sample", sample]
            asked = ["--set", f"collect.scores={','.join(scores)}", "--out", str(out), "--json"]
            cost = cost_of_attnaudit(["audit", str(model), *texts, *asked])
            print_row([title, sample, f"{cost.wall:.0f}", f"{cost.cpu:.0f}", f"{cost.memory:.2f}"])
        positions, seconds = passes_alone(model, out / "trace")
    name = f"the model alone, {positions:,} positions of leave-one-out"
    print_row([name, sample, f"{seconds:.0f}", "", ""])


if __name__ == "__main__":
    main()

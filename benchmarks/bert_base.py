"""The whole audit of a model of the size of BERT-base: all heads of its last layer, on sentences of SST test, from the command line.

    python benchmarks/bert_base.py --data-dir DIR [--sample 500]

The weights are random, the tokenizer has as many word pieces as BERT's, learned from SST train. Once with the usual scores of importance,
and once without leave-one-out, which runs the whole model again for every word. Prints a markdown table, its last row how long the model
alone takes for the passes of leave-one-out: texts of one length, as many as make `POSITIONS`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
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

from attnaudit.corpora import read_corpus
from attnaudit.hf.importance import USUAL
from attnaudit.hf.tokenizer import train_tokenizer
from attnaudit.trace import Trace
from attnaudit.training.transformers import CONFIGS, TransformerSizes

PIECES = 30_522
POSITIONS, PASSES = 4096, 5


def model_folder(folder: Path, data_dir: str) -> Path:
    """A model whose decisions are neither all the same nor saturated, saved with its tokenizer."""
    corpus = read_corpus("sst", data_dir=data_dir)
    texts = [" ".join(words) for words in corpus.splits["train"].tokens]
    tokenizer = train_tokenizer(
        texts, TransformerSizes(vocabulary=PIECES), CONFIGS["small-bert"].architecture
    )
    names = dict(enumerate(corpus.class_names))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=PIECES,
        id2label=names,
        label2id={name: k for k, name in names.items()},
        initializer_range=0.04,
    )
    model = BertForSequenceClassification(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def audited(model: Path, options: list[str]) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak memory (GiB) of one command."""
    command = [sys.executable, "-m", "attnaudit", "hf", str(model), "sst", *options, "--json"]
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed")
    return time.perf_counter() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20


def passes_alone(model: Path, trace: Path) -> tuple[int, float]:
    """The positions of all texts without each of their words, and the seconds that the model takes for as many, padding aside."""
    rows = Trace.read(trace)
    _, first = np.unique(rows.instance, return_index=True)  # a row for each head
    word_id = rows.ragged("word_id").take(first)
    words, pieces = (
        np.maximum(word_id.max(), -1) + 1,
        word_id.with_values(word_id.values >= 0).sum(),
    )
    positions, length = (
        int((words * word_id.lengths - pieces).sum()),
        int(np.average(word_id.lengths, weights=words)),
    )
    network = AutoModelForSequenceClassification.from_pretrained(model).eval()
    ids = torch.randint(PIECES, (POSITIONS // length, length))
    with torch.inference_mode():
        network(ids)
        begun = time.perf_counter()
        for _ in range(PASSES):
            network(ids)
    return positions, (time.perf_counter() - begun) / (PASSES * ids.numel()) * positions


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--sample", type=int, default=500)
    asked = parser.parse_args()
    print(
        "| scores of importance | sentences | whole command (s) | CPU (s) | peak memory (GiB) |\n|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        model = model_folder(Path(folder, "model"), asked.data_dir)
        for name, scores in (
            ("the usual ones", USUAL),
            ("without leave-one-out", [one for one in USUAL if one != "loo"]),
        ):
            options = [
                "--data-dir",
                asked.data_dir,
                "--sample",
                str(asked.sample),
                "--out",
                str(Path(folder, name.split()[0])),
            ]
            seconds, cpu, memory = audited(
                model, [*options, *(part for score in scores for part in ("--score", score))]
            )
            print(
                f"| {name} | {asked.sample} | {seconds:.0f} | {cpu:.0f} | {memory:.2f} |",
                flush=True,
            )
        positions, alone = passes_alone(model, Path(folder, "the", "trace"))
        print(
            f"| the model alone, {positions:,} positions of leave-one-out | {asked.sample} | {alone:.0f} | | |"
        )


if __name__ == "__main__":
    main()

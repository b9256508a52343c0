"""Measure what a copy with words replaced costs: ``python -m benchmarks.replacement``.

The unit is a forward pass of a text of the same length, in full batches of that length. So a cost
of 1 means that drawing words, padding and keeping predictions take no time. One thread; untrained
models of the usual sizes, and texts about as long as those of SST, or all of 400 words. CPU seconds,
so that other work on the machine does not count.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is loaded

import time
from collections.abc import Callable

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification

from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import Split
from attnaudit.corpora.prepare.vocabulary import Vocabulary
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.gate import check_model
from attnaudit.hf.model import positions_per_pass
from attnaudit.hf.replacement import PieceReplacement, WordDonors
from attnaudit.models.classifier import build_model
from attnaudit.models.presets import model_preset
from attnaudit.tracing.replacement import TextReplacement, copies_of
from attnaudit.tracing.settings import ReplacementSettings
from attnaudit.tracing.texts import BUDGET, Replacement

WORDS, COPIES, REPEATS = 5000, 60, 5
SETTINGS = ReplacementSettings(copies=COPIES)


def cost(replacement: TextReplacement, lengths: np.ndarray, batch: Callable[[int], int]) -> float:
    """Return the cost of a copy in forward passes of its length.

    Args:
        replacement: The texts.
        lengths: Lengths of the texts.
        batch: Runs a full batch of texts of a length, and returns their number.
    """
    replacement.columns(np.arange(2))
    passes = {}
    for length in np.unique(lengths).tolist():
        batch(length)
        seconds = []
        for _ in range(REPEATS):
            begun = time.process_time()
            number = batch(length)
            seconds.append((time.process_time() - begun) / number)
        passes[length] = float(np.median(seconds))
    begun = time.process_time()
    replacement.columns(np.arange(len(lengths)))
    spent = time.process_time() - begun
    copies = copies_of(len(lengths), SETTINGS)
    return spent / (copies * sum(passes[length] for length in lengths.tolist()))


def classifier(encoder: str, lengths: np.ndarray) -> float:
    """Measure a classifier of the usual size."""
    random = np.random.default_rng(0)
    names = np.array([f"w{k}" for k in range(WORDS)])
    vocabulary = Vocabulary.build([names.tolist()], min_df=1)
    settings = model_preset(encoder, "additive")
    vectors = random.normal(size=(len(vocabulary), settings.embedding)).astype(np.float32)
    model = build_model(settings, vocabulary, vectors, ["no", "yes"], 0, False).eval()
    tokens = [names[random.integers(WORDS, size=length)].tolist() for length in lengths]
    split = Split(np.arange(len(lengths)), tokens, np.zeros(len(lengths), np.int32))
    replacement = Replacement.of(model, split, settings=SETTINGS, budget=BUDGET["cpu"])

    def batch(length: int) -> int:
        number = BUDGET["cpu"] // (length + 2)
        row = int(np.flatnonzero(lengths == length)[0])
        with torch.inference_mode():
            model(replacement.inputs.batch(np.full(number, row)))
        return number

    return cost(replacement, lengths, batch)


def transformer(lengths: np.ndarray) -> float:
    """Measure BERT with 4 layers of width 256, every piece a word."""
    random = np.random.default_rng(0)
    config = BertConfig(vocab_size=WORDS, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)  # fmt: skip
    model = BertForSequenceClassification(config).eval()
    ids = Ragged.from_lengths(random.integers(10, WORDS, int(lengths.sum())), lengths)
    texts = Encoded(
        ids=ids,
        word_id=ids.with_values(ids.places),
        tokens=[["w"] * length for length in lengths.tolist()],
        split=["test"] * len(lengths),
        pad=0,
        nothing=0,
        instance=np.arange(len(lengths)),
        label=np.zeros(len(lengths), np.int32),
    )
    replacement = PieceReplacement(
        model=model, gate=check_model(model), budget=4096, keys=(texts.instance,),
        donors=WordDonors(texts), outputs=2, settings=SETTINGS,
    )  # fmt: skip

    def batch(length: int) -> int:
        number = max(positions_per_pass(model, 4096) // length, 1)
        with torch.no_grad():
            model(torch.zeros((number, length), dtype=torch.long))
        return number

    return cost(replacement, lengths, batch)


def main() -> None:
    """Print a line per model and lengths."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sst = np.clip(np.random.default_rng(0).normal(19, 9, 100).astype(np.int64), 4, 50)
    for name, lengths in (("SST", sst), ("400 words", np.full(20, 400))):
        for encoder in ("average", "cnn", "bilstm"):
            print(f"{name}, {encoder}: {classifier(encoder, lengths):.2f}", flush=True)
        print(f"{name}, BERT: {transformer(lengths[:20]):.2f}", flush=True)


if __name__ == "__main__":
    main()

"""One epoch of training: ours against the loop as one would first write it, on the same model, data and batch size.

    python benchmarks/training.py --data-dir ../shared/data/raw

The plain loop shuffles, pads every batch to its longest text, packs it for a bidirectional `nn.LSTM`, and steps Adam with its
default implementation. Both train the same number of epochs and are selected on dev.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import Corpus
from attnaudit.corpora.prepare.vocabulary import Vocabulary, word_vectors
from attnaudit.corpora.read import read_corpus
from attnaudit.models.attention import attend
from attnaudit.models.batch import Batch, Inputs, pad
from attnaudit.models.classifier import build_model
from attnaudit.models.presets import model_preset
from attnaudit.stats.classification import classification_scores
from attnaudit.stats.measures import predicted_class
from attnaudit.training.settings import TrainingSettings
from attnaudit.training.texts import predict, train
from benchmarks.output import print_header, print_row


class PlainClassifier(nn.Module):
    """BiLSTM, additive attention and a linear layer, written directly."""

    def __init__(self, vectors: np.ndarray) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(
            torch.from_numpy(vectors), freeze=False, padding_idx=0
        )
        self.lstm = nn.LSTM(vectors.shape[1], 128, batch_first=True, bidirectional=True)
        self.units, self.score, self.output = (
            nn.Linear(256, 128),
            nn.Linear(128, 1, bias=False),
            nn.Linear(256, 1),
        )

    def forward(self, batch: Batch) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(batch.ids), batch.lengths, batch_first=True, enforce_sorted=False
        )
        hidden, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        alpha = attend(self.score(torch.tanh(self.units(hidden))).squeeze(-1), batch.attended)
        return self.output((alpha[:, :, None] * hidden).sum(dim=1))[:, 0]


def train_plainly(
    corpus: Corpus, ids: dict[str, Ragged], vectors: np.ndarray, epochs: int, seed: int
) -> tuple[list[float], list[tuple]]:
    """Seconds of every epoch, and (dev AUC, test F1, test AUC) after it."""
    torch.manual_seed(seed)
    model, label = PlainClassifier(vectors.copy()), corpus.splits["train"].label
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)
    weight = torch.tensor((label == 0).sum() / (label == 1).sum())
    random, seconds, scores = np.random.default_rng(seed), [], []
    for _ in range(epochs):
        started = time.perf_counter()
        order = random.permutation(len(label))
        for start in range(0, len(order), 32):
            rows = order[start : start + 32]
            target = torch.tensor(label[rows]).float()
            loss = functional.binary_cross_entropy_with_logits(
                model(pad(ids["train"], rows)), target, pos_weight=weight
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        dev = plain_scores(model, ids["dev"], corpus.splits["dev"].label)
        seconds.append(time.perf_counter() - started)
        test = plain_scores(model, ids["test"], corpus.splits["test"].label)
        scores.append((dev.roc_auc, test.f1, test.roc_auc))
    return seconds, scores


def plain_scores(model: PlainClassifier, ids: Ragged, label: np.ndarray):
    with torch.no_grad():
        parts = [
            torch.sigmoid(model(pad(ids, rows)))
            for rows in np.array_split(np.arange(len(ids)), len(ids) // 32 + 1)
        ]
    probability = torch.cat(parts).double().numpy()[:, None]
    return classification_scores(label.astype(np.int64), predicted_class(probability), probability)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default="../shared/data/raw")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    corpus = read_corpus("sst", data_dir=options.data_dir)
    tokens = corpus.splits["train"].tokens
    vocabulary = Vocabulary.build(tokens, corpus.min_df)
    vectors = word_vectors("corpus", vocabulary, tokens, seed=options.seed).matrix
    ids = {name: vocabulary.ids(split.tokens) for name, split in corpus.splits.items()}
    label = corpus.splits["test"].label.astype(np.int64)
    mine = []
    for threads in (1, 2):
        model = build_model(
            model_preset("bilstm", "additive"),
            vocabulary,
            vectors,
            corpus.class_names,
            options.seed,
        )
        ours = train(
            model,
            corpus,
            replace(TrainingSettings(), epochs=options.epochs, threads=threads),
            seed=options.seed,
        )
        probability = predict(model, Inputs(ids["test"]))
        test = classification_scores(label, predicted_class(probability), probability)
        scores = max(epoch.dev for epoch in ours), test.f1, test.roc_auc
        scored = [f"{score:.4f}" for score in scores]
        mine.append((threads, float(np.median([epoch.seconds for epoch in ours])), scored))
    seconds, scores = train_plainly(corpus, ids, vectors, options.epochs, options.seed)
    best, plain = max(scores), float(np.median(seconds))
    columns = ("training, SST, bilstm + additive", "seconds an epoch (median)", "plain / ours")
    print_header((*columns, "dev AUC", "test F1", "test AUC"))
    scored = (f"{score:.4f}" for score in best)
    print_row([f"plain loop, {torch.get_num_threads()} threads", f"{plain:.2f}", "–", *scored])
    for threads, median, scored in mine:
        name = f"attnaudit, `training.threads={threads}`"
        print_row([name, f"{median:.2f}", f"{plain / median:.1f}", *scored])


if __name__ == "__main__":
    main()

"""The copying task: seeds side by side by hand, beside torch's modules and autograd, one seed after another.

    python benchmarks/copying.py [--steps 10] [--threads 2]

Both train the tied model of the study on permutations of 40 symbols with the same batches. The plain loop is `nn.LSTM`, `nn.Linear` and
`torch.optim.Adam` with their defaults, in 32 bits, on as many threads as ours has seeds at a time. Times are of a step of one seed, the
median over steps; what they differ in at the end is rounding.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import get_args

import numpy as np
import torch
from torch import Tensor, nn

from attnaudit.copying.network import Sizes
from attnaudit.copying.side_by_side import SideBySide, as_tensors, shifted, workers
from attnaudit.corpora.planted.sequences import Sequences
from attnaudit.models.product import Precision, products_of

SEQUENCES, BATCH = Sequences("permutations"), 128
SIZES = Sizes(SEQUENCES.vocabulary)


class PlainModel(nn.Module):
    """Encoder, decoder, bilinear attention, output tied to the embedding, written directly."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        m, e = sizes.hidden, sizes.embedding
        self.embedding = nn.Embedding(sizes.vocabulary, e)
        self.encoder, self.decoder = nn.LSTM(e, m), nn.LSTM(e, m)
        self.attention, self.context, self.state = (
            nn.Linear(m, m, bias=False),
            nn.Linear(m, e, bias=False),
            nn.Linear(m, e),
        )
        self.output = nn.Linear(e, sizes.vocabulary)
        self.output.weight = self.embedding.weight

    def forward(self, source: Tensor, given: Tensor) -> Tensor:
        h, last = self.encoder(self.embedding(source))
        d, _ = self.decoder(self.embedding(given), last)
        alpha = torch.einsum("tbm,sbm->bts", self.attention(d), h).softmax(2)
        return self.output(self.context(torch.einsum("bts,sbm->tbm", alpha, h)) + self.state(d))


def batches(seed: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    rows = SEQUENCES.draw(seed, "benchmark", step * BATCH, BATCH)
    return SEQUENCES.pair(rows)


def train_plainly(models: SideBySide, steps: int) -> tuple[float, list[float]]:
    """Seconds of a step of the first seed, from the same weights, and the loss of every step."""
    model = PlainModel(SIZES)
    with torch.no_grad():
        for name, part in model.named_parameters():
            part.copy_(models.of(0)[name])
    optimizer, seconds, losses = torch.optim.Adam(model.parameters(), lr=1e-3), [], []
    for step in range(steps):
        begun = time.perf_counter()
        source, gold = as_tensors(*batches(models.seeds[0], step))
        loss = nn.functional.cross_entropy(
            model(source, shifted(gold, SEQUENCES.begin)).flatten(0, 1), gold.flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begun)
        losses.append(loss.item())
    return statistics.median(seconds), losses


def train_side_by_side(threads: int, steps: int, precision: Precision) -> tuple[float, np.ndarray]:
    """Seconds of a step of one seed, with a seed on each thread, and the first seed's loss of every step."""
    models, seconds, losses = SideBySide.fresh(SIZES, range(threads)), [], []
    with products_of(precision), workers(threads) as pool:
        for step in range(steps):
            begun = time.perf_counter()
            losses.append(models.advance(pool, batches, 1, step, begin=SEQUENCES.begin)[0, 0])
            seconds.append((time.perf_counter() - begun) / threads)
    return statistics.median(seconds), np.array(losses)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    plain, theirs = train_plainly(SideBySide.fresh(SIZES, range(1)), options.steps)
    print(
        "| threads | products of | plain loop (ms) | side by side (ms) | times as fast | largest difference of the losses |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for precision in get_args(Precision):
        hand, ours = train_side_by_side(options.threads, options.steps, precision)
        apart = float(np.abs(ours - theirs).max())
        print(
            f"| {options.threads} | {precision} | {1e3 * plain:.0f} | {1e3 * hand:.0f} | {plain / hand:.1f} | {apart:.1e} |"
        )


if __name__ == "__main__":
    main()

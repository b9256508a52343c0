"""Collect: a trained model and a corpus give a trace, one shard at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from attnaudit.corpora import Corpus, Split
from attnaudit.errors import InputError
from attnaudit.gradient import gradient_importance
from attnaudit.leave_one_out import leave_one_out
from attnaudit.models.batch import Batch, batches_by_length, pad
from attnaudit.models.classifier import Classifier
from attnaudit.progress import Progress
from attnaudit.ragged import Ragged
from attnaudit.trace import Trace, concatenate

SHARD_ROWS = 2048
BUDGET = 4_096  # padded positions of one batch, so that its states stay in the cache; results do not depend on it
PER_POSITION = ("alpha", "gradient", "importance_full_gradient", "loo")


def collect(model: Classifier, corpus: Corpus, split: str = "test", **options: Any) -> Trace:
    """The trace of ``model`` on one split of ``corpus``, whole; `collect_shards` gives it piece by piece. Raises InputError."""
    if split not in corpus.splits:
        raise InputError("collect", f"split {split!r}", f"corpus with {', '.join(corpus.splits)}", "one of its splits")
    if tuple(corpus.class_names) != model.class_names:
        came = f"corpus with classes {', '.join(corpus.class_names)}"
        raise InputError("collect", "classes", came, f"those of the model: {', '.join(model.class_names)}")
    return concatenate(list(collect_shards(model, corpus.splits[split], split, **options)))


def collect_shards(
    model: Classifier, split: Split, name: str = "test", *, metadata: Mapping[str, Any] | None = None,
    shard_rows: int = SHARD_ROWS, budget: int = BUDGET, progress: Progress | None = None,
) -> Iterator[Trace]:  # fmt: skip
    """The trace of a split, ``shard_rows`` rows at a time; ``gradient`` and ``loo`` as Algorithm 1 of Jain & Wallace 2019.

    Besides, ``importance_full_gradient`` is the gradient that flows through the attention too. ``budget`` bounds the padded
    positions of a batch, and with it memory.
    """
    model.eval().requires_grad_(False)
    ids = model.vocabulary.ids(split.tokens)
    for start in range(0, len(ids), shard_rows):
        rows = np.arange(start, min(start + shard_rows, len(ids)))
        done = _Progress(progress, start, len(ids))
        yield _shard(model, split, name, ids.take(rows), rows, dict(metadata or {}), budget, done)


class _Progress:
    def __init__(self, report: Progress | None, done: int, total: int) -> None:
        self.report, self.done, self.total = report, done, total

    def add(self, rows: int) -> None:
        self.done += rows
        if self.report is not None:
            self.report("collect", self.done, self.total)


def _shard(
    model: Classifier, split: Split, name: str, ids: Ragged, rows: np.ndarray, metadata: dict[str, Any], budget: int, progress: _Progress
) -> Trace:
    device = next(model.parameters()).device
    outputs = model.output.out_features
    flat = {column: np.zeros(len(ids.values), np.float32) for column in PER_POSITION}
    readout = np.zeros((len(ids.values), outputs), np.float32)
    prediction = np.zeros((len(ids), outputs), np.float32)
    for chosen in batches_by_length(ids.lengths, budget):
        batch = pad(ids, chosen, device)
        columns = _measure(model, batch)
        places = ids.positions(chosen)
        for column, values in flat.items():
            values[places] = columns[column][batch.attended].float().cpu().numpy()
        readout[places] = columns["readout"][batch.attended].cpu().numpy()
        prediction[chosen] = columns["prediction"].cpu().numpy()
        progress.add(len(chosen))
    rationale = Ragged.from_rows([split.rationale[row] for row in rows], bool) if split.rationale is not None else None
    columns: dict[str, Any] = {column: ids.with_values(values) for column, values in flat.items()}
    return Trace.from_arrays(
        activation=model.activation, class_names=model.class_names, metadata=metadata, origin=f"{name} split",
        instance=split.instance[rows], split=[name] * len(rows), label=split.label[rows],
        tokens=[split.tokens[row] for row in rows],
        readout=ids.with_values(readout), offset=np.repeat(model.output.bias.cpu().numpy()[None, :], len(rows), axis=0),
        prediction=prediction, rationale=rationale, **columns,
    )  # fmt: skip


def _measure(model: Classifier, batch: Batch) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        done = model(batch)
        columns = {
            "alpha": done.alpha,
            "readout": model.readout(done.hidden),
            "prediction": model.probabilities(done.logits),
            "loo": leave_one_out(model, batch, done),
        }
    columns["gradient"] = gradient_importance(model, batch, detach_attention=True)
    columns["importance_full_gradient"] = gradient_importance(model, batch, detach_attention=False)
    return columns

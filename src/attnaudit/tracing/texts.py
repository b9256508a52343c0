"""Collect: a trained model and a corpus give a trace, one shard at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from attnaudit.core.errors import InputError
from attnaudit.core.progress import Progress, silent
from attnaudit.core.ragged import Ragged
from attnaudit.core.threads import cores
from attnaudit.corpora import Corpus, Split
from attnaudit.corpora.corpus import Pairs
from attnaudit.models.batch import Batch, Inputs
from attnaudit.models.classifier import AttentionModel, Forward, TanhHead
from attnaudit.trace import Trace, concatenate, write_shards
from attnaudit.trace.tails import TanhTail
from attnaudit.tracing.importance import gradient_importance, input_falls
from attnaudit.tracing.leave_one_out import leave_one_out
from attnaudit.tracing.settings import CollectSettings, Outputs, Score
from attnaudit.training.loop import StepCallback, evaluating, torch_threads
from attnaudit.training.probe import Probe, step_part

SHARD_ROWS = 2048
BUDGET = {
    "cpu": 4_096,
    "cuda": 262_144,
}  # padded positions of one batch: a CPU's cache holds its states, a GPU has enough to do
T = TypeVar("T")
ERASED_BY = ("alpha", "gradient", "loo")
PER_ROW = ("offset", "prediction")
PER_HEAD = ("alpha", "readout", "offset")


def collect(model: AttentionModel, corpus: Corpus, split: str = "test", **options: Any) -> Trace:
    """The trace of ``model`` on one split of ``corpus``, whole; `collect_shards` gives it piece by piece. Raises InputError."""
    if split not in corpus.splits:
        raise InputError(
            "collect",
            f"split {split!r}",
            f"corpus with {', '.join(corpus.splits)}",
            "one of its splits",
        )
    if tuple(corpus.class_names) != model.class_names:
        got = f"corpus with classes {', '.join(corpus.class_names)}"
        raise InputError(
            "collect", "classes", got, f"those of the model: {', '.join(model.class_names)}"
        )
    if (corpus.splits[split].question is not None) != model.has_question:
        got = "a corpus without questions" if model.has_question else "a corpus with questions"
        raise InputError(
            "collect",
            "questions",
            got,
            f"one {'with' if model.has_question else 'without'}, as the model was trained on",
        )
    if not len(corpus.splits[split]):
        raise InputError("collect", f"split {split!r}", "no rows", "one row or more")
    return concatenate(list(collect_shards(model, corpus.splits[split], split, **options)))


def collect_shards(
    model: AttentionModel,
    split: Split,
    name: str = "test",
    *,
    gradient_of: Outputs | None = None,
    level: Literal["positions", "words"] = "positions",
    erase_input: bool = False,
    scores: tuple[Score, ...] = ("gradient", "loo"),
    metadata: Mapping[str, Any] | None = None,
    shard_rows: int = SHARD_ROWS,
    budget: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Trace]:
    """The trace of a split, ``shard_rows`` rows at a time; ``gradient`` and ``loo`` as Algorithm 1 of Jain & Wallace 2019.

    ``gradient_of`` says of which outputs the gradient is taken: ``all``, summed, or the ``predicted`` one; by default all of a classifier
    and the predicted answer of a model that is asked something. ``importance_full_gradient`` is the same gradient, flowing through the
    attention too. ``level``, ``erase_input`` and ``scores`` are as in `CollectSettings`. ``budget`` bounds the padded positions of a
    batch, and with it memory; results do not depend on it.
    """
    budget = budget or BUDGET.get(next(model.parameters()).device.type, BUDGET["cpu"])
    settings = CollectSettings(
        gradient_of or ("predicted" if model.has_question else "all"), level, erase_input, scores
    )
    if level == "words" and model.sentence is None:
        raise InputError(
            "collect",
            "setting collect.level",
            "words",
            "positions: this model has no sentences",
            "choose --preset han",
        )
    if model.settings.attention == "imposed" and "loo" in scores:
        got = "leave-one-out of a model whose attention is given: nothing says what it were without a token"
        raise InputError("collect", "scores", got, "gradient, or none")
    work = _Work(model, name, settings, dict(metadata or {}), budget)
    with frozen(model):
        for start in range(0, len(split), shard_rows):
            rows = np.arange(start, min(start + shard_rows, len(split)))
            yield work.shard(split.take(rows), progress or silent, start, len(split))


@dataclass(frozen=True)
class _Work:
    """What all shards of a trace share."""

    model: AttentionModel
    name: str
    settings: CollectSettings
    metadata: dict[str, Any]
    budget: int

    def shard(self, split: Split, progress: Progress, done: int, total: int) -> Trace:
        inputs = self.model.inputs(split)
        positions = inputs.positions
        flat: dict[str, np.ndarray] = {}
        per_row: dict[str, np.ndarray] = {}
        for chosen, batch, columns in self._measured(inputs):
            places = positions.positions(chosen)
            for column, values in columns.items():
                whole, size, there = (
                    (per_row, len(split), chosen)
                    if column in PER_ROW
                    else (flat, len(positions.values), places)
                )
                found = (
                    (values if column in PER_ROW else values[batch.attended]).float().cpu().numpy()
                )
                whole.setdefault(column, np.zeros((size, *found.shape[1:]), np.float32))[there] = (
                    found
                )
            done += len(chosen)
            progress("collect", done, total)
        heads = range(per_row["offset"].shape[1]) if per_row["offset"].ndim == 3 else (None,)
        return concatenate(
            [
                self._trace(split, inputs, _of_head(flat, head), _of_head(per_row, head), head)
                for head in heads
            ]
        )

    def _trace(
        self,
        split: Split,
        inputs: Inputs,
        flat: Mapping[str, np.ndarray],
        per_row: Mapping[str, np.ndarray],
        head: int | None,
    ) -> Trace:
        """The rows of one head, or those of a model that has one."""
        model = self.model
        columns = {column: inputs.positions.with_values(values) for column, values in flat.items()}
        erased = {
            "attention" if column == "alpha" else column: columns[column]
            for column in ERASED_BY
            if column in columns
        }
        trace = Trace.from_arrays(
            activation=model.activation,
            class_names=model.class_names,
            metadata=self.metadata,
            origin=f"{self.name} split",
            tail=_tail(model),
            instance=split.instance,
            split=[self.name] * len(split),
            label=split.label,
            tokens=_texts(split, inputs),
            question=split.question,
            candidates=inputs.candidates,
            rationale=_rationale(split, inputs),
            head=None if head is None else np.full(len(split), head, np.int32),
            **per_row,
            **columns,
            **(input_falls(model, inputs, erased) if self.settings.erase_input else {}),
        )
        if self.settings.level == "positions":
            return trace
        return word_level(
            trace, model, inputs, self.budget, tokens=split.tokens, rationale=_known(split)
        )

    def _measured(
        self, inputs: Inputs
    ) -> Iterator[tuple[np.ndarray, Batch, dict[str, torch.Tensor]]]:
        """The batches of a shard with the rows they hold: on a CPU a thread takes a batch to itself, so that none waits for another."""
        device = next(self.model.parameters()).device

        def measure(chosen: np.ndarray) -> tuple[np.ndarray, Batch, dict[str, torch.Tensor]]:
            batch = inputs.batch(chosen, device)
            return chosen, batch, self._measure(batch)

        with (
            torch_threads(1),
            ThreadPoolExecutor(1 if device.type == "cuda" else cores()) as pool,
        ):
            longest_first = list(inputs.batches_by_length(self.budget))[::-1]
            yield from pool.map(measure, longest_first)

    def _measure(self, batch: Batch) -> dict[str, torch.Tensor]:
        model, scores = self.model, self.settings.scores
        gradient = (
            gradient_importance(model, batch, self.settings.gradient_of)
            if "gradient" in scores
            else None
        )
        with torch.no_grad():
            done = gradient.done if gradient else model(batch)
            return {
                **self._read_out(done),
                **(
                    {"gradient": gradient.held, "importance_full_gradient": gradient.full}
                    if gradient
                    else {}
                ),
                **({"loo": leave_one_out(model, batch, done)} if "loo" in scores else {}),
            }

    def _read_out(self, done: Forward) -> dict[str, torch.Tensor]:
        """Of several heads each by itself: what the others add to the output is in its offset."""
        alpha, offset, prediction = (
            done.alpha,
            done.question_terms.offset,
            self.model.probabilities(done.logits),
        )
        if alpha.ndim == 2:
            return {
                "alpha": alpha,
                "readout": self.model.head.readout(done.hidden),
                "offset": offset,
                "prediction": prediction,
            }
        alpha = alpha.movedim(1, 2)
        readout = self.model.readouts(done.hidden, alpha.shape[2])
        pooled = (alpha[..., None] * readout).sum(dim=1)
        others = offset[:, None] + pooled.sum(dim=1, keepdim=True) - pooled
        return {"alpha": alpha, "readout": readout, "offset": others, "prediction": prediction}


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Within it no weight wants a gradient, nothing is dropped out and a GPU computes in full float32; afterwards the model is as it was.

    Training mode is what cuDNN gives gradients of a recurrent layer in.
    """
    expected = [weight.requires_grad for weight in model.parameters()]
    model.requires_grad_(False)
    try:
        with evaluating(model), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            for module in model.modules():
                module.training = isinstance(module, nn.RNNBase)
            yield
    finally:
        for weight, wants in zip(model.parameters(), expected, strict=True):
            weight.requires_grad_(wants)


def _of_head(columns: Mapping[str, np.ndarray], head: int | None) -> dict[str, np.ndarray]:
    """The columns of one head: those that differ from head to head are taken apart."""
    return {
        name: values[:, head] if head is not None and name in PER_HEAD else values
        for name, values in columns.items()
    }


def _texts(split: Split, inputs: Inputs) -> list[list[str]]:
    """The word, or the sentence, of every position."""
    if inputs.sentences is None:
        return split.tokens
    return [
        [" ".join(words) for words in _cut(text, lengths)]
        for text, lengths in zip(split.tokens, inputs.sentences, strict=True)
    ]


def _known(split: Split) -> list[list[bool] | None] | None:
    """Rationales, null where that of a row is not known."""
    return None if split.rationale is None else [marks or None for marks in split.rationale]


def _rationale(split: Split, inputs: Inputs) -> list[list[bool] | None] | None:
    """Rationales of the positions; a sentence is of the rationale if one of its words is."""
    known = _known(split)
    if known is None or inputs.sentences is None:
        return known
    return [
        marks and [any(part) for part in _cut(marks, lengths)]
        for marks, lengths in zip(known, inputs.sentences, strict=True)
    ]


def _cut(row: list[T], lengths: np.ndarray) -> list[list[T]]:
    """A row of words in pieces of so many each."""
    ends = np.cumsum(lengths).tolist()
    return [row[start:stop] for start, stop in zip([0, *ends], ends, strict=False)]


def _tail(model: AttentionModel) -> TanhTail | None:
    """What stands between the attended sum and the logits; None for the identity."""
    if not isinstance(model.head, TanhHead):
        return None
    output = model.head.output
    return TanhTail(output.weight.double().cpu().numpy(), output.bias.double().cpu().numpy())


def word_level(
    sentences: Trace, model: AttentionModel, inputs: Inputs, budget: int, **words: Any
) -> Trace:
    """The trace of the words in place of that of ``sentences``; ``words`` are its columns ``tokens`` and ``rationale``.

    A word's weight is that of its sentence times its own within the sentence; it contributes what its sentence does, so that the output
    is the same sum. How weight lies within a sentence, then, moves the output only through the sentence's vector, which is fixed here.
    Importance by gradient and by leave-one-out is of sentences, and is missing.
    """
    assert inputs.sentences is not None
    lengths = inputs.sentences.values
    within = word_weights(model, inputs, budget)
    alpha = inputs.ids.with_values(np.repeat(sentences.ragged("alpha").values, lengths) * within)
    readout = inputs.ids.with_values(np.repeat(sentences.ragged("readout").values, lengths, axis=0))
    metadata = {**sentences.metadata, "level": "words"}
    return Trace.from_arrays(
        activation=sentences.metadata["activation"],
        class_names=sentences.class_names,
        metadata=metadata,
        tail=sentences.tail,
        instance=sentences.instance,
        split=sentences.array("split").tolist(),
        label=sentences.array("label"),
        offset=sentences.array("offset"),
        prediction=sentences.array("prediction"),
        alpha=alpha,
        readout=readout,
        **words,
    )


def word_weights(model: AttentionModel, inputs: Inputs, budget: int) -> Float[np.ndarray, " W"]:
    """Attention within its sentence of every word, text after text, float32."""
    assert model.sentence is not None
    assert inputs.sentences is not None
    device = next(model.parameters()).device
    words = Ragged.from_lengths(inputs.ids.values, inputs.sentences.values)
    single = Inputs(words)
    out = np.zeros(len(words.values), np.float32)
    with torch.no_grad():
        for rows in single.batches_by_length(budget):
            batch = single.batch(rows, device)
            hidden = model.sentence.encoder(model.embedding(batch.ids), batch.lengths)
            out[words.positions(rows)] = (
                model.sentence.weights(hidden, batch)[batch.attended].cpu().numpy()
            )
    return out


def trace_probe(
    data: Split | Pairs, probe: Probe, folder: Path, shards: Callable[[Any, int], Iterable[Trace]]
) -> StepCallback:
    """A callback for training that writes the trace of the probe's rows of ``data`` to ``folder/steps/<step>`` after each of its steps.

    ``shards`` gives the trace of these rows after a step; every file is written whole or not at all. Raises InputError for no rows.
    """
    if not len(data):
        raise InputError("watch training", "test split", "no rows", "one row or more to trace")
    chosen = data.take(probe.rows(data.instance))
    return StepCallback(
        probe.steps, lambda step: write_shards(folder / step_part(step), shards(chosen, step))
    )

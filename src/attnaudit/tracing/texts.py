"""Collect the trace of a classifier on a corpus, one shard at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from attnaudit.core import InputError, Progress, silent
from attnaudit.core.ragged import Ragged
from attnaudit.core.threads import cores
from attnaudit.corpora.corpus import Corpus, Pairs, Split
from attnaudit.models.batch import Inputs
from attnaudit.models.classifier import AttentionModel, Forward, TanhHead
from attnaudit.trace import TanhTail, Trace, concatenate, write_shards
from attnaudit.tracing.importance import gradient_importance, input_falls
from attnaudit.tracing.leave_one_out import leave_one_out
from attnaudit.tracing.replacement import Donors, Predicted, TextReplacement
from attnaudit.tracing.settings import Outputs, ReplacementSettings, Score
from attnaudit.training.loop import evaluating, torch_threads, without_gradients
from attnaudit.training.probe import Probe, step_part

WORDS = 1 << 18  # words of copies that a thread holds at once


@dataclass(frozen=True, kw_only=True)
class Replacement(TextReplacement):
    """Replacement of words in the texts of a classifier.

    Attributes:
        model: The model, an `AttentionModel` with frozen weights.
        inputs: The texts.
        budget: Padded positions of a batch.
    """

    model: Any
    inputs: Inputs
    budget: int

    @classmethod
    def of(cls, model: Any, split: Split, **options: Any) -> Replacement:
        """Prepare the texts of a split; ``options`` are settings, budget and progress."""
        inputs = model.inputs(split)
        return cls(
            model=model,
            inputs=inputs,
            keys=(split.instance,),
            donors=Donors(inputs.ids, split.instance, inputs.sentences),
            outputs=model.outputs,
            **options,
        )

    @property
    def threads(self) -> int:
        """Number of threads, each with batches of its own on a CPU."""
        return 1 if next(self.model.parameters()).device.type == "cuda" else cores()

    def run(self, rows: Int64[np.ndarray, " b"], copies: int) -> Iterator[Predicted]:
        """Run the model on the copies of several texts in shared batches."""
        if not len(rows):
            return
        words = self.inputs.ids.take(rows)
        first = len(next(words.blocks(self.budget // copies)))
        rest = rows[first:]
        blocks = [rest[block] for block in self.inputs.ids.take(rest).blocks(WORDS // copies)]
        # Each thread computes one block, because many at once cost memory. Order is kept.
        with torch_threads(1), ThreadPoolExecutor(self.threads) as pool:
            # The time of about one batch tells how long all of them take.
            yield self._run(rows[:first], copies)
            yield from pool.map(lambda own: self._run(own, copies), blocks)

    def _run(self, rows: Int64[np.ndarray, " b"], copies: int) -> Predicted:
        """Return the positions that the copies of some rows lose, and their predictions."""
        inputs = self.inputs
        lost, words = zip(*(self.copies(row, copies) for row in rows.tolist()), strict=True)
        many = np.repeat(rows, copies)
        parts: dict[str, Any] = {
            name: part.take(many) if isinstance(part, Ragged) else part[many]
            for name, part in vars(inputs).items()
            if part is not None and name != "ids"
        }
        ids = Ragged.from_lengths(np.concatenate([*map(np.ravel, words)]), inputs.ids.lengths[many])
        return lost, self._predict(Inputs(ids, **parts))

    def _predict(self, inputs: Inputs) -> Float[np.ndarray, "n C"]:
        """Predict in float64, as probabilities near 1 have few digits in float32."""
        model, found = self.model, np.zeros((len(inputs), self.outputs))
        device = next(model.parameters()).device
        with torch.inference_mode():
            for rows in inputs.batches_by_length(self.budget):
                logits = model(inputs.batch(rows, device)).logits.double()
                found[rows] = model.probabilities(logits).cpu().numpy()
        return found


SHARD_ROWS = 2048
# Padded positions of one batch. On a CPU the states of leave-one-out then fit the cache; batches 16
# times as large took 4.7 times as long. A GPU needs more to be busy.
BUDGET = {"cpu": 4_096, "cuda": 262_144}
ERASED_BY = {"alpha": "attention", "gradient": "gradient", "loo": "loo"}
PER_ROW = ("offset", "prediction")
PER_HEAD = ("alpha", "readout", "offset")


@dataclass(frozen=True)
class CollectOptions:
    """Contents of a trace, and options of its computation.

    Attributes:
        gradient_of: Outputs whose gradients are taken: ``all`` of them, summed, or the
            ``predicted`` one. The default is all outputs of a classifier, and the predicted answer
            of a model with a question.
        erase_input: True to delete tokens from the texts by every score, and run the model again.
        scores: Importance scores to compute.
        replacement: Settings of the copies of texts with words replaced; None for no copies.
        part: Rows to trace, ascending; by default all. Replacement words come from all rows.
        metadata: Entries to add to the trace's metadata.
        shard_rows: Rows per shard.
        budget: Padded positions of a batch. It bounds memory; results do not depend on it.
        progress: Receives the number of rows done.
    """

    gradient_of: Outputs | None = None
    erase_input: bool = False
    scores: tuple[Score, ...] = ("gradient", "loo")
    replacement: ReplacementSettings | None = None
    part: np.ndarray | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    shard_rows: int = SHARD_ROWS
    budget: int | None = None
    progress: Progress = silent


def collect(model: AttentionModel, corpus: Corpus, split: str = "test", **options: Any) -> Trace:
    """Collect the trace of a model on one split of a corpus.

    Args:
        model: A trained model.
        corpus: A corpus with the classes of the model.
        split: Name of the split.
        **options: Fields of `CollectOptions`.

    Returns:
        The whole trace. For large splits, `collect_shards` returns it in pieces.

    Raises:
        InputError: The corpus does not fit the model, or the split has no rows.
    """
    if split not in corpus.splits:
        names = ", ".join(corpus.splits)
        raise InputError("collect", f"split {split!r}", f"corpus with {names}", "one of its splits")
    rows = corpus.splits[split]
    if tuple(corpus.class_names) != model.class_names:
        got = f"corpus with classes {', '.join(corpus.class_names)}"
        expected = f"those of the model: {', '.join(model.class_names)}"
        raise InputError("collect", "classes", got, expected)
    if (rows.question is not None) != model.has_question:
        got, expected = ("without", "with") if model.has_question else ("with", "without")
        expected = f"one {expected}, as the model was trained on"
        raise InputError("collect", "questions", f"a corpus {got} questions", expected)
    if not len(rows):
        raise InputError("collect", f"split {split!r}", "no rows", "one row or more")
    return concatenate(list(collect_shards(model, rows, split, **options)))


def collect_shards(
    model: AttentionModel, split: Split, name: str = "test", **options: Any
) -> Iterator[Trace]:
    """Collect the trace of a split shard by shard.

    Args:
        model: A trained model.
        split: The rows.
        name: Name of the split.
        **options: Fields of `CollectOptions`.

    Returns:
        An iterator over shards. ``gradient`` and ``loo`` follow Algorithm 1 of Jain & Wallace 2019;
        ``importance_full_gradient`` is the gradient that also flows through the attention.

    Raises:
        InputError: The model has no leave-one-out, and the options ask for it.
    """
    chosen = CollectOptions(**options)
    if model.settings.attention == "imposed" and "loo" in chosen.scores:
        got = (
            "leave-one-out of a model whose attention is given: nothing says what it were without "
            "a token"
        )
        raise InputError("collect", "scores", got, "gradient, or none")
    collector = _Collector(model, name, chosen)
    with frozen(model):
        replaced, settings = None, chosen.replacement
        if settings is not None and settings.texts:
            options = {"budget": collector.budget, "progress": chosen.progress}
            replaced = Replacement.of(model, split, settings=settings, **options)
        every = np.arange(len(split)) if chosen.part is None else chosen.part
        for start in range(0, len(every), chosen.shard_rows):
            rows = every[start : start + chosen.shard_rows]
            columns = {} if replaced is None else replaced.columns(rows)
            yield collector.shard(split.take(rows), start, len(every), columns)


@dataclass(frozen=True)
class _Collector:
    """Columns and metadata shared by the shards of a trace."""

    model: AttentionModel
    name: str
    options: CollectOptions

    @property
    def budget(self) -> int:
        device = next(self.model.parameters()).device.type
        return self.options.budget or BUDGET.get(device, BUDGET["cpu"])

    def shard(self, split: Split, first: int, total: int, replaced: Mapping[str, Any]) -> Trace:
        """Return the trace of one shard.

        Args:
            split: Rows of the shard.
            first: Number of rows in earlier shards, for progress.
            total: Number of rows of all shards, for progress.
            replaced: Columns about replaced words.

        Returns:
            The trace: all rows of the first head, then all rows of the next.
        """
        inputs, batches, done = self.model.inputs(split), [], first
        for rows, measured in self._batches(inputs):
            batches.append((rows, measured))
            done += len(rows)
            self.options.progress("collect", done, total)
        order = np.concatenate([rows for rows, _ in batches])
        lengths, place = inputs.positions.lengths[order], np.argsort(order)
        columns: dict[str, Any] = dict(replaced)
        for name in batches[0][1]:
            values = np.concatenate([measured[name] for _, measured in batches])
            if name in PER_ROW:
                columns[name] = values[place]
            else:
                columns[name] = Ragged.from_lengths(values, lengths).take(place)
        # With several heads a row has one offset per head, so the array has a third axis.
        offset = columns["offset"]
        assert isinstance(offset, np.ndarray)
        if offset.ndim == 2:
            return self._trace(split, inputs, columns, None)
        traces = []
        for head in range(offset.shape[1]):
            own: dict[str, Any] = {
                name: values.with_values(values.values[:, head])
                if isinstance(values, Ragged)
                else values[:, head]
                for name, values in columns.items()
                if name in PER_HEAD
            }
            traces.append(self._trace(split, inputs, columns | own, head))
        return concatenate(traces)

    def _trace(
        self, split: Split, inputs: Inputs, columns: dict[str, Any], head: int | None
    ) -> Trace:
        """Return the rows of one head; ``head`` is None for a model with a single one."""
        model, options = self.model, self.options
        if options.erase_input:
            scores = {title: columns[name] for name, title in ERASED_BY.items() if name in columns}
            columns = {**columns, **input_falls(model, inputs, scores)}
        # A row without marks has an unknown rationale.
        rationale = split.rationale and [marks or None for marks in split.rationale]
        return Trace.from_arrays(
            activation=model.activation,
            class_names=model.class_names,
            metadata=dict(options.metadata),
            origin=f"{self.name} split",
            tail=_tail(model),
            instance=split.instance,
            split=[self.name] * len(split),
            label=split.label,
            tokens=_by_position(split.tokens, inputs, " ".join),
            question=split.question,
            candidates=inputs.candidates,
            rationale=_by_position(rationale, inputs, any),
            head=None if head is None else np.full(len(split), head, np.int32),
            **columns,
        )

    def _batches(self, inputs: Inputs) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        """Yield row numbers and columns of each batch, a value per row or attended position."""
        device = next(self.model.parameters()).device

        def measure(rows):
            batch = inputs.batch(rows, device)
            with torch.no_grad():
                columns = self._measure(batch)
            return rows, {
                name: (values if name in PER_ROW else values[batch.attended]).float().cpu().numpy()
                for name, values in columns.items()
            }

        # On a CPU each thread computes whole batches: two threads per operation were six times
        # slower next to a busy process. The longest batches come first, so that no thread ends
        # with one while the others wait.
        threads = 1 if device.type == "cuda" else cores()
        with torch_threads(1), ThreadPoolExecutor(threads) as pool:
            yield from pool.map(measure, list(inputs.batches_by_length(self.budget))[::-1])

    def _measure(self, batch: Any) -> dict[str, Tensor]:
        model, scores = self.model, self.options.scores
        importance: dict[str, Tensor] = {}
        if "gradient" in scores:
            usual = "predicted" if model.has_question else "all"
            gradient = gradient_importance(model, batch, self.options.gradient_of or usual)
            importance = {"gradient": gradient.held, "importance_full_gradient": gradient.full}
            done = gradient.done
        else:
            done = model(batch)
        if "loo" in scores:
            importance["loo"] = leave_one_out(model, batch, done)
        return {**self._read_out(done), **importance}

    def _read_out(self, done: Forward) -> dict[str, Tensor]:
        """Return attention, readout, offset and prediction.

        With several heads, the offset of each head includes what the others add to the output.
        """
        model, alpha, offset = self.model, done.alpha, done.offset
        if alpha.ndim == 2:
            readout = model.head.readout(done.hidden)
        else:
            alpha = alpha.movedim(1, 2)
            readout = model.readouts(done.hidden)
            pooled = (alpha[..., None] * readout).sum(dim=1)
            offset = offset[:, None] + pooled.sum(dim=1, keepdim=True) - pooled
        prediction = model.probabilities(done.logits)
        return {"alpha": alpha, "readout": readout, "offset": offset, "prediction": prediction}


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Freeze a model inside the block, and restore it afterwards.

    Weights need no gradients, and nothing is dropped. A GPU computes recurrent layers and
    convolutions in full float32.

    Args:
        model: The model.
    """
    recurrent = [module for module in model.modules() if isinstance(module, nn.RNNBase)]
    dropout = [module.dropout for module in recurrent]
    switches = torch.backends.cudnn.flags(enabled=True, allow_tf32=False)
    try:
        with evaluating(model), without_gradients(model), switches:
            for module in recurrent:
                # cuDNN computes gradients of recurrent layers in training mode only, where they
                # would drop units between their layers.
                module.training, module.dropout = True, 0.0
            yield
    finally:
        for module, share in zip(recurrent, dropout, strict=True):
            module.dropout = share


def _by_position(
    rows: Sequence[list[Any] | None] | None, inputs: Inputs, join: Callable[[list[Any]], Any]
) -> Sequence[list[Any] | None] | None:
    """Join values of words to values of positions; a row without a value stays so."""
    if rows is None or inputs.sentences is None:
        return rows
    spans = [pairwise([0, *np.cumsum(lengths).tolist()]) for lengths in inputs.sentences]
    return [
        row and [join(row[start:stop]) for start, stop in own]
        for row, own in zip(rows, spans, strict=True)
    ]


def _tail(model: AttentionModel) -> TanhTail | None:
    if not isinstance(model.head, TanhHead):
        return None
    output = model.head.output
    return TanhTail(output.weight.double().cpu().numpy(), output.bias.double().cpu().numpy())


def trace_probe(
    data: Split | Pairs, probe: Probe, folder: Path, shards: Callable[[Any, int], Iterable[Trace]]
) -> Callable[[int], None]:
    """Make a callback that traces some rows during training.

    Args:
        data: Rows to choose from.
        probe: Number of rows, and optimizer steps.
        folder: Folder that gets the traces, in ``steps/<step>``. Files are written atomically.
        shards: Maps the chosen rows and a step to their trace.

    Returns:
        A callback for the training loop.

    Raises:
        InputError: There are no rows.
    """
    if not len(data):
        raise InputError("watch training", "test split", "no rows", "one row or more to trace")
    chosen = data.take(probe.rows(data.instance))

    def trace(step):
        if step in probe.steps:
            write_shards(folder / step_part(step), shards(chosen, step))

    return trace

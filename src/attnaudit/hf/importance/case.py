"""A batch of texts with what importance measures need of it: the prediction, the attention, and the query that the prediction reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from attnaudit.core.errors import InputError
from attnaudit.hf.capture import Attention, reading
from attnaudit.hf.encode import kind_of
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.gate import Gate
from attnaudit.hf.importance.backward import Graph, read_logits
from attnaudit.hf.layers import Layer

OPERATION = "measure importance"
LOGITS = 2**27  # at a time
NUMBERS = 2**21  # outputs of the widest layer at a time


@dataclass(frozen=True)
class Case:
    """``texts`` (B rows) that share a batch of a model; T is the number of tokens of the longest.

    ``budget`` bounds the positions of a pass, padding included; ``steps`` is the number of points of a path integral, and ``longest`` the
    most tokens of a text whose flow is computed.
    """

    model: Any
    gate: Gate
    texts: Encoded
    budget: int = 4096
    steps: int = 32
    longest: int = 64

    @cached_property
    def inputs(self) -> dict[str, Tensor]:
        return self.texts.batch(range(len(self.texts)), self.model.device)

    @cached_property
    def mask(self) -> Bool[Tensor, "B T"]:
        """Which tokens are no padding."""
        return self.inputs["attention_mask"].bool()

    @cached_property
    def special(self) -> Bool[Tensor, "B T"]:
        """Which tokens are special ones, or padding."""
        out = torch.ones(self.mask.shape, dtype=torch.bool)
        for row, special in enumerate(self.texts.special):
            out[row, : len(special)] = torch.from_numpy(special.copy())
        return out.to(self.mask.device)

    @cached_property
    def ends(self) -> Int[Tensor, " B"] | None:
        """The position whose next token is predicted, the last of a text or of what a decoder has written; None for a classifier."""
        return ends_of(self.model, self.texts)

    @cached_property
    def graph(self) -> Graph:
        """A pass of the model, ready for backward passes."""
        return Graph(self.model, self.inputs, self.ends, self.decoder_reads_text)

    @cached_property
    def attentions(self) -> tuple[Attention, ...]:
        """The attentions of the model, in the order of the gate's layers."""
        return self.graph.attentions

    @cached_property
    def logits(self) -> Float[Tensor, "B C"]:
        """Those of the prediction: of classes, or of the next token."""
        return self.graph.logits

    @cached_property
    def prediction(self) -> Float[Tensor, "B C"]:
        """Probabilities of classes, or of next tokens."""
        return self.logits.float().softmax(dim=-1)

    @cached_property
    def predicted(self) -> Int[Tensor, " B"]:
        """The most probable output."""
        return self.prediction.argmax(dim=-1)

    def forget_graph(self) -> None:
        """Free what backward passes need; another pass is made where it is asked for again."""
        _ = self.attentions, self.logits
        self.__dict__.pop("graph", None)

    @cached_property
    def query(self) -> Int[Tensor, " B"]:
        """The query of the last attention that the prediction reads. Raises InputError where it reads several."""
        if self.ends is not None or self.gate.reads is None:
            return self.ends if self.ends is not None else queries_read(self.model, self.inputs)
        length = self.mask.sum(dim=1)
        return (
            length + self.gate.reads
            if self.gate.reads < 0
            else torch.full_like(length, self.gate.reads)
        )

    def is_written(self, layer: Layer) -> bool:
        """Whether the queries of a layer are what a decoder next to an encoder has written, and not tokens of the text."""
        return bool(self.model.config.is_encoder_decoder) and layer.stack != "encoder"

    def rows_of(self, index: int, queries: int) -> Float[Tensor, "B Q"]:
        """1 for the query of an attention that the prediction reads; in an encoder that a decoder reads, for all tokens of the text."""
        if self.model.config.is_encoder_decoder and not self.is_written(self.gate.layers[index]):
            return self.mask.float()
        return functional.one_hot(self.query, queries).float()

    def keys_of(self, index: int) -> Bool[Tensor, "B K"]:
        """Which keys of an attention are no padding."""
        layer = self.gate.layers[index]
        if self.texts.written is None or layer.stack == "cross" or not self.is_written(layer):
            return self.mask
        lengths = torch.from_numpy(self.texts.written.lengths).to(self.mask.device)
        return torch.arange(int(lengths.max()), device=lengths.device) < lengths[:, None]

    @property
    def decoder_reads_text(self) -> bool:
        """Whether a decoder is given the text itself, moved on by one, as in a classifier with encoder and decoder."""
        return bool(self.model.config.is_encoder_decoder) and self.ends is None

    def probability(self, logits: Float[Tensor, "B C"]) -> Float[Tensor, " B"]:
        """That of the predicted output, in float32."""
        return logits.float().softmax(dim=-1).gather(1, self.predicted[:, None])[:, 0]

    def repeated(
        self, times: int
    ) -> Iterator[tuple[Int[Tensor, " m"], Int[Tensor, " m"], dict[str, Tensor]]]:
        """All pairs of a row and a number below ``times``, in parts within the budget: both, and the inputs of these rows."""
        rows = torch.arange(len(self.texts), device=self.mask.device).repeat_interleave(times)
        numbers = torch.arange(times, device=self.mask.device).repeat(len(self.texts))
        size = sum(
            self.inputs[name].shape[1]
            for name in ("input_ids", "decoder_input_ids")
            if name in self.inputs
        )
        share = (
            1
            if self.gate.batching == "none"
            else max(1, positions_within(self.model, self.budget) // size)
        )
        for row, number in zip(rows.split(share), numbers.split(share), strict=True):
            yield row, number, {name: value[row] for name, value in self.inputs.items()}

    def end_of(self, rows: Int[Tensor, " m"]) -> Int[Tensor, " m"] | None:
        """`ends` of some rows."""
        return None if self.ends is None else self.ends[rows]


def ends_of(model: Any, texts: Encoded) -> Int[Tensor, " B"] | None:
    """The position of each text whose next token is predicted; None for a classifier."""
    kind = kind_of(model)
    if kind == "classification":
        return None
    read = texts.ids if kind == "causal-lm" or texts.written is None else texts.written
    return torch.from_numpy(read.lengths - 1).to(model.device)


def positions_within(model: Any, budget: int) -> int:
    """The positions of a pass, so that its widest layer, and logits over a large vocabulary, fit into memory and are fast.

    More than `NUMBERS` at a time are new memory for every layer, which takes longer to get than to compute on.
    """
    keeps = (
        kind_of(model) == "classification"
        or "logits_to_keep" in signature(model.forward).parameters
    )
    logits = budget if keeps else LOGITS // model.config.get_text_config().vocab_size
    return max(1, min(budget, logits, NUMBERS // _widest(model)))


def _widest(model: Any) -> int:
    """The outputs of the widest layer, but for that over the vocabulary."""
    vocabulary = {
        id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)
    }
    output = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    skipped = vocabulary | {id(getattr(output, "weight", None))}
    return max(
        (
            max(weight.shape)
            for weight in model.parameters()
            if weight.dim() == 2 and id(weight) not in skipped
        ),
        default=1,
    )


def queries_read(model: Any, inputs: Mapping[str, Tensor]) -> Int[Tensor, " B"]:
    """The query (B,) of the last attention that a classifier's logits depend on. Raises InputError where it reads several.

    A text whose logits do not move at all, by a saturated activation, is taken to be read as the others: at its first or its last token.
    """
    leaves: list[Tensor] = []

    def with_leaf(attention: Attention) -> Tensor:
        leaves.append(torch.zeros_like(attention.weights).requires_grad_())
        return attention.weights + leaves[-1]

    with torch.enable_grad():
        logits = read_logits(model, inputs, None, with_leaf)
        along = torch.rand(logits.shape[1:], generator=torch.Generator().manual_seed(0)).to(
            logits.device
        )
        (slope,) = torch.autograd.grad((logits * along).sum(), leaves[-1])
    read = slope.abs().sum(dim=(1, 3)) > 0
    number, found = read.sum(dim=1), read.int().argmax(dim=1)
    if number.max() != 1:
        got, expected = (
            f"a prediction that reads {int(number.max())} queries of the last attention",
            "one, as that of the first token",
        )
        raise InputError(
            OPERATION, type(model).__name__, got, expected, "choose measures without a query"
        )
    ends = inputs["attention_mask"].sum(dim=1) - 1
    return torch.where(
        number == 1, found, torch.zeros_like(ends) if (found[number == 1] == 0).all() else ends
    )


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Within, the model is in evaluation mode and none of its parameters has a gradient; after it, all is as before."""
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    with reading(model):
        try:
            for parameter, _ in flags:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter, flag in flags:
                parameter.requires_grad_(flag)


def predictions(
    model: Any, texts: Encoded, budget: int, batching: str
) -> Iterator[tuple[np.ndarray, Float[Tensor, "m C"]]]:
    """The rows of each batch of texts, and their probabilities."""
    for rows in texts.batches(positions_within(model, budget), batching):
        part = texts.take(rows)
        with torch.no_grad():
            logits = read_logits(
                model, part.batch(range(len(part)), model.device), ends_of(model, part)
            )
        yield rows, logits.float().softmax(dim=-1)


def moved_back(scores: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Scores of what a decoder is given, at the tokens of the text: one position earlier, its start token removed."""
    return functional.pad(scores[:, 1:], (0, 1))

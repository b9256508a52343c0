"""A batch of texts, with one pass of the model that most measures of importance share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnaudit.core import InputError
from attnaudit.hf.encoded import Encoded, padded
from attnaudit.hf.gate import Gate
from attnaudit.hf.model import positions_per_pass, require_task
from attnaudit.torch.capture import Attention, Exchange, forward

OPERATION = "measure importance"
Change = Callable[[Tensor, nn.Module], Tensor]


@dataclass(frozen=True)
class Case:
    """Texts that share a batch of a model: B rows of up to T tokens.

    Attributes:
        model: The model.
        gate: Its checks.
        texts: The texts.
        budget: Positions of a pass, padding included.
        steps: Points of a path integral.
        seed: Seed of random scores.
    """

    model: Any
    gate: Gate
    texts: Encoded
    budget: int = 4096
    steps: int = 32
    seed: int = 0

    @cached_property
    def inputs(self) -> dict[str, Tensor]:
        """Inputs of the model."""
        return self.texts.batch(range(len(self.texts)), self.model.device)

    @cached_property
    def mask(self) -> Bool[Tensor, "B T"]:
        """Tokens that are no padding."""
        return self.inputs["attention_mask"].bool()

    @cached_property
    def ends(self) -> Ends | None:
        """Positions whose label or next token is predicted, None for a classifier of texts."""
        return ends_of(self.model, self.texts)

    @cached_property
    def graph(self) -> Graph:
        """A pass of the model that is ready for backward passes."""
        return Graph(self)

    @cached_property
    def attentions(self) -> tuple[Attention, ...]:
        """The attentions of the model, in the order of the gate's layers."""
        return self.graph.attentions

    @cached_property
    def logits(self) -> Float[Tensor, "B C"]:
        """Logits of classes, or of next tokens."""
        return self.graph.logits

    @cached_property
    def prediction(self) -> Float[Tensor, "B C"]:
        """Probabilities of classes, or of next tokens."""
        return self.logits.float().softmax(dim=-1)

    def forget_graph(self) -> None:
        """Free the memory of backward passes."""
        _ = self.attentions, self.logits
        self.__dict__.pop("graph", None)

    @property
    def query(self) -> Int[Tensor, " B"]:
        """The query of the last attention that the prediction reads."""
        if isinstance(self.ends, Answer):
            got, expected = "an answer of several tokens", "a measure of several queries"
            raise InputError(OPERATION, type(self.model).__name__, got, expected)
        if self.ends is not None:
            return self.ends
        assert self.gate.reads is not None  # else no layer could be chosen
        lengths, reads = self.mask.sum(dim=1), self.gate.reads
        return lengths + reads if reads < 0 else torch.full_like(lengths, reads)

    def at_query(self, index: int, values: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H K"]:
        """Take values of an attention's weights at the query, 0 on padding."""
        lengths = self.texts.keys_of(self.gate.layers[index].stack).ids.lengths
        inside = torch.arange(values.shape[3]) < torch.from_numpy(lengths)[:, None]
        own = self.over_queries(values.transpose(1, 2))
        return own.float() * inside[:, None].to(own.device)

    def over_queries(self, values: Tensor) -> Tensor:
        """Take values, (B, Q, …), at the query, or their mean over those that predict an answer."""
        if isinstance(self.ends, Answer):
            return self.ends.mean(values)
        return values[torch.arange(len(values)), self.query]

    @property
    def rows_per_pass(self) -> int:
        """Rows of a pass within the budget."""
        if self.gate.batching == "none":
            return 1
        sizes = [ids.shape[1] for name, ids in self.inputs.items() if name.endswith("input_ids")]
        return max(1, positions_per_pass(self.model, self.budget) // sum(sizes))


@dataclass(frozen=True)
class Answer:
    """Answers of up to A tokens.

    Attributes:
        positions: Positions at which the tokens are predicted; −1 for none.
        tokens: The tokens.
    """

    positions: Int[Tensor, "B A"]
    tokens: Int[Tensor, "B A"]

    @classmethod
    def of(cls, texts: Encoded, device: Any) -> Answer:
        """Return the answers of texts."""
        spots, read = texts.answered, texts.read.ids
        assert spots is not None
        places = spots.values + spots.spread(read.lengths)
        following = (read, 1) if texts.written is None else (texts.written.next_ids, 0)
        flat = places + spots.spread(read.offsets[:-1]) + following[1]
        both = (spots.with_values(one) for one in (places, following[0].values[flat]))
        return cls(*(torch.from_numpy(padded(one, -1)).to(device) for one in both))

    def __getitem__(self, rows: Any) -> Answer:
        return Answer(self.positions[rows], self.tokens[rows])

    def at(self, places: Int[Tensor, "B A"]) -> Answer:
        """Return the same answers at other positions."""
        return Answer(places.where(self.positions >= 0, -1), self.tokens)

    def mean(self, values: Tensor) -> Tensor:
        """Average values, (B, Q, …), over the positions of each answer."""
        return self._mean(self._own(values))

    def _own(self, values: Tensor) -> Tensor:
        rows = torch.arange(len(values), device=values.device)[:, None]
        return values[rows, self.positions.clamp(min=0)]

    def _mean(self, own: Tensor) -> Tensor:
        inside = self.positions >= 0
        inside = inside.reshape(*inside.shape, *[1] * (own.dim() - 2))
        return torch.where(inside, own, 0).sum(dim=1) / inside.sum(dim=1)

    def logits(self, logits: Float[Tensor, "B Q V"]) -> Float[Tensor, "B 2"]:
        """Return log-probabilities of another answer and of this one.

        The probability of an answer is the geometric mean of those of its tokens, which does not
        fall with its length.
        """
        own = self._own(logits).double().log_softmax(dim=-1)
        answer = self._mean(own.gather(2, self.tokens.clamp(min=0)[..., None])[..., 0])
        # A certain answer leaves nothing to others, whose logarithm must stay finite.
        other = torch.log((-torch.expm1(answer)).clamp(min=torch.finfo(torch.float64).tiny))
        return torch.stack([other, answer], dim=1)


Ends = Tensor | Answer


def ends_of(model: Any, texts: Encoded) -> Ends | None:
    """Return the positions whose labels or next tokens are predicted, None for a whole text's."""
    if require_task(model) == "classification":
        return None
    if texts.answered is not None:
        return Answer.of(texts, model.device)
    if texts.at is not None:
        return torch.from_numpy(texts.at).to(model.device)
    return torch.from_numpy(texts.read.ids.lengths - 1).to(model.device)


class Graph:
    """A pass of a batch that is ready for backward passes.

    Attributes:
        attentions: The attentions.
        logits: Logits of the prediction.
        embedded: Embeddings (B, T, E) of the text.
    """

    def __init__(self, case: Case, held: bool = False) -> None:
        """Run the model; gradients stop at attention weights if these are ``held``."""
        leaves: list[Tensor] = []
        self._weights: dict[int, Tensor] = {}
        attentions: list[Attention] = []

        def as_leaf(embedded, module):
            leaves.append(embedded.detach().requires_grad_())
            return leaves[0].clone()  # a model may change its own embeddings in place

        def watch(attention):
            weights, values = attention.weights, attention.values
            attentions.append(replace(attention, weights=weights.detach(), values=values.detach()))
            if held or not weights.requires_grad:  # of a decoder, before it reads the text
                weights = weights.detach().requires_grad_()
            self._weights[attention.index] = weights
            return weights

        with torch.enable_grad(), embeddings_as(case.model, case.inputs, as_leaf):
            logits = read_logits(case.model, case.inputs, case.ends, watch)
            self._probabilities = logits.float().softmax(dim=-1)
        if not leaves:
            name, do = type(case.model).__name__, "choose measures without gradients"
            got = "a model that embeds its tokens in a way of its own"
            raise InputError(OPERATION, name, got, "embeddings of input_ids", do)
        (self.embedded,) = leaves
        self.attentions, self.logits = tuple(attentions), logits.detach()

    def times_input(self, output: int | None = None) -> Float[Tensor, "B T"]:
        """Compute ``|e_t · ∂ŷ/∂e_t|`` for the predicted output or another."""
        (slope,) = self._backward([self.embedded], output)
        return (self.embedded.detach() * slope).sum(dim=-1).abs()

    def slopes_of_weights(self, numbers: Iterable[int]) -> dict[int, Float[Tensor, "B H Q K"]]:
        """Return ``∂ŷ/∂alpha`` of some attentions by number, through all that follows them."""
        numbers = list(numbers)
        slopes = self._backward([self._weights[number] for number in numbers])
        return dict(zip(numbers, slopes, strict=True))

    def _backward(self, of: list[Tensor], output: int | None = None) -> tuple[Tensor, ...]:
        chosen = self._probabilities.argmax(dim=-1, keepdim=True)
        chosen = chosen if output is None else torch.full_like(chosen, output)
        with torch.enable_grad():
            probability = self._probabilities.gather(1, chosen).sum()
        return torch.autograd.grad(probability, of, retain_graph=True)


def read_logits(
    model: Any, inputs: Mapping[str, Any], ends: Ends | None, exchange: Exchange | None = None
) -> Float[Tensor, "B C"]:
    """Compute the logits of a text's classes, of those at positions ``ends``, or of answers.

    With gradients if they are enabled. An ``exchange`` replaces attention as in `capture.forward`.
    """
    given = dict(inputs)
    if ends is not None and "logits_to_keep" in signature(model.forward).parameters:
        places = ends.positions.clamp(min=0) if isinstance(ends, Answer) else ends
        given["logits_to_keep"], places = torch.unique(places, return_inverse=True)
        ends = ends.at(places) if isinstance(ends, Answer) else places
    if exchange is None:
        logits = model(**given).logits
    else:
        gradients = torch.is_grad_enabled()
        logits = forward(model, given, exchange, gradients, masks=True).output.logits
    if isinstance(ends, Answer):
        return ends.logits(logits)
    return logits if ends is None else logits[torch.arange(len(ends), device=logits.device), ends]


@contextmanager
def embeddings_as(model: Any, inputs: Mapping[str, Tensor], change: Change) -> Iterator[None]:
    """Change the embeddings (B, T, E) of the text inside the block.

    Args:
        model: The model.
        inputs: Its inputs.
        change: Called once with the embeddings and their module.
    """
    ids, asked = inputs["input_ids"], False

    def changed(module, arguments, output):
        nonlocal asked
        given = arguments[0] if arguments and isinstance(output, Tensor) else None
        if asked or given is None:
            return None
        if given.shape == ids.shape and torch.equal(given, ids):
            asked = True
            return change(output, module)
        if given.shape == ids.T.shape and torch.equal(given, ids.T):
            asked = True
            return change(output.transpose(0, 1), module).transpose(0, 1)
        return None

    stacks = [model]
    if model.config.is_encoder_decoder:
        stacks += [model.get_encoder(), model.get_decoder()]
    own = {id(stack.get_input_embeddings().weight) for stack in stacks}
    with ExitStack() as hooks:
        for module in model.modules():
            # An output layer may have these weights too; it is not called with the text.
            if id(getattr(module, "weight", None)) in own:
                hooks.enter_context(module.register_forward_hook(changed))
        yield

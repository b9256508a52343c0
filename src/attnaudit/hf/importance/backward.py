"""One pass of a batch that all gradients share: by embeddings, with attention held fixed and through it, and by attention weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnaudit.hf.capture import Attention, Exchange, forward
from attnaudit.hf.importance.projection import Follow

Change = Callable[[Tensor, nn.Module], Tensor]


class Graph:
    """A pass of a model, with its ``attentions``, its ``logits`` (B, C), and what backward passes need: from ŷ, the predicted output's
    probability, or from that of another output.

    ``embedded`` are the embeddings (B, T, E) of the text, in the order in which the model asks for them; ``follow`` knows the output
    matrices. Every slope is computed once.
    """

    def __init__(
        self,
        model: Any,
        inputs: Mapping[str, Any],
        ends: Int[Tensor, " B"] | None,
        given_again: bool,
    ) -> None:
        self.embedded: list[Tensor] = []
        self.follow = Follow()
        self._held = [
            False
        ]  # whether a backward pass stops at attention weights; the passes must not know the graph, or it is never freed
        self._weights: dict[int, Tensor] = {}
        self._slopes: dict[tuple[bool, int | None], tuple[Tensor, ...]] = {}
        attentions: list[Attention] = []

        def as_leaf(embedded: Tensor, module: nn.Module) -> Tensor:
            self.embedded.append(embedded.detach().requires_grad_())
            return self.embedded[-1].clone()  # a model may change its own embeddings in place

        def watched(attention: Attention) -> Tensor:
            self.follow.expect(attention)
            attentions.append(
                replace(
                    attention, weights=attention.weights.detach(), values=attention.values.detach()
                )
            )
            own = attention.weights
            own = (
                own if own.requires_grad else own.detach().requires_grad_()
            )  # of a decoder, before it reads the text
            self._weights[attention.index] = _Weights.apply(own, self._held)  # type: ignore[assignment]
            return self._weights[attention.index]

        with torch.enable_grad(), embeddings_as(model, inputs, as_leaf, given_again), self.follow:
            logits = read_logits(model, inputs, ends, watched, masks=True)
            self._probability = logits.float().softmax(dim=-1)
            self._predicted = self._probability.gather(
                1, self._probability.argmax(dim=-1, keepdim=True)
            )
        self.attentions, self.logits = tuple(attentions), logits.detach()

    def of_embeddings(
        self, held: bool, output: int | None = None
    ) -> tuple[Float[Tensor, "B T E"], ...]:
        """``∂ŷ/∂e`` of every one of the embeddings, with attention weights ``held`` fixed or through them; of one ``output``, or of ŷ."""
        if (held, output) not in self._slopes:
            self._slopes[held, output] = self._backward(self.embedded, held, output)
        return self._slopes[held, output]

    def of_weights(self, numbers: Iterable[int]) -> dict[int, Float[Tensor, "B H Q K"]]:
        """``∂ŷ/∂alpha`` of some attentions, by their number; what follows them, later attention included, takes part."""
        numbers = list(numbers)
        found = self._backward(
            [*self.embedded, *(self._weights[number] for number in numbers)], False
        )
        self._slopes[False, None] = found[: len(self.embedded)]
        return dict(zip(numbers, found[len(self.embedded) :], strict=True))

    def _backward(
        self, of: list[Tensor], held: bool, output: int | None = None
    ) -> tuple[Tensor, ...]:
        self._held[0] = held
        probability = self._predicted if output is None else self._probability[:, output]
        return torch.autograd.grad(probability.sum(), of, retain_graph=True)


class _Weights(torch.autograd.Function):
    """Attention weights, through which a backward pass goes unless they are ``held``."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, held: list[bool]) -> Tensor:
        ctx.held = held
        return weights.view_as(weights)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return None if ctx.held[0] else grad_outputs[0], None


def read_logits(
    model: Any, inputs: Mapping[str, Any], ends: Int[Tensor, " B"] | None, exchange: Exchange | None = None, masks: bool = False
) -> Tensor:  # fmt: skip
    """The logits (B, C) of the prediction: of classes, or of the token that follows position ``ends``.

    With gradients where they are enabled. ``exchange`` replaces attention as in `forward`, and knows ``masks`` as there.
    """
    kept = None
    if ends is not None and "logits_to_keep" in signature(model.forward).parameters:
        kept, ends = torch.unique(ends, return_inverse=True)
    given = inputs if kept is None else {**inputs, "logits_to_keep": kept}
    if exchange is None:
        logits = model(**given).logits
    else:
        logits = forward(
            model, given, exchange, gradients=torch.is_grad_enabled(), masks=masks
        ).output.logits
    return logits if ends is None else logits[torch.arange(len(ends), device=logits.device), ends]


@contextmanager
def embeddings_as(
    model: Any, inputs: Mapping[str, Tensor], change: Change, given_again: bool
) -> Iterator[None]:
    """Within, the embeddings (B, T, E) of the text go through ``change``, in the order in which the model asks its modules for them.

    A classifier with encoder and decoder asks twice: the decoder is ``given_again`` the text one position later.
    """
    ids, asked = inputs["input_ids"], [0]

    def changed(module: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> Tensor | None:
        given = arguments[0] if arguments and isinstance(output, Tensor) else ids[:0]
        if given.shape == ids.shape and (torch.equal(given, ids) or (given_again and asked[0])):
            again = asked[0] > 0
            asked[0] += 1
            return None if again and not given_again else change(output, module)
        if given.shape == ids.T.shape and torch.equal(given, ids.T) and not asked[0]:
            asked[0] += 1
            return change(output.transpose(0, 1), module).transpose(0, 1)
        return None

    handles = [module.register_forward_hook(changed) for module in _embeddings(model)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _embeddings(model: Any) -> list[nn.Module]:
    """The modules that embed tokens: that of the model, those of its stacks, and others that share their weights."""
    own = [model.get_input_embeddings()]
    if model.config.is_encoder_decoder:
        own += [
            stack.embed_tokens
            for stack in (model.get_encoder(), model.get_decoder())
            if hasattr(stack, "embed_tokens")
        ]
    weights = [module.weight for module in own]
    others = [
        module
        for module in model.modules()
        if isinstance(module, nn.Embedding) and any(module.weight is one for one in weights)
    ]
    return list({id(module): module for module in (*own, *others)}.values())

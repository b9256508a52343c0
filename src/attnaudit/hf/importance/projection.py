"""The output matrix of an attention, found in a pass of the model: the first matrix that the product of weights and values meets.

A head's part of it turns its value ``v_t`` into the vector ``f(x_t)`` that the token adds to the query (Kobayashi et al. 2020).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attnaudit.hf.capture import Attention

Step = Callable[[Tensor], Tensor]
SHAPING: set[Callable[..., Any]] = {
    Tensor.transpose, torch.transpose, Tensor.permute, torch.permute, Tensor.reshape, torch.reshape, Tensor.view, Tensor.contiguous,
    Tensor.flatten, torch.flatten, Tensor.unflatten, Tensor.swapaxes, Tensor.squeeze, Tensor.unsqueeze, Tensor.to, Tensor.float,
    Tensor.type, Tensor.type_as, Tensor.__getitem__, functional.dropout, torch.dropout,
}  # fmt: skip
MATRIX = {
    functional.linear,
    torch.addmm,
    torch.matmul,
    torch.mm,
    torch.einsum,
    Tensor.matmul,
    Tensor.mm,
    Tensor.__matmul__,
}


@dataclass(frozen=True)
class Projection:
    """The steps from a product (B, H, Q, D) to what its output matrix makes of it, affine and the same at every position."""

    steps: tuple[Step, ...]

    def __call__(self, product: Float[Tensor, "B H Q D"]) -> Tensor:
        for step in self.steps:
            product = step(product)
        return product

    def order(self, attention: Attention) -> Tensor | None:
        """For every row of the output, the number of its text and query, ``b · Q + q``; None where rows are not that of one each."""
        batch, heads, queries, _ = attention.weights.shape
        product = torch.ones(
            batch,
            heads,
            queries,
            attention.values.shape[-1],
            device=attention.values.device,
            dtype=attention.values.dtype,
        )
        nothing = self(torch.zeros_like(product)).flatten(0, -2).double()
        one = self(product).flatten(0, -2).double() - nothing
        if len(one) != batch * queries:
            return None
        text, query = (
            ((self(product * number).flatten(0, -2).double() - nothing) * one).sum(dim=-1)
            / (one * one).sum(dim=-1)
            for number in (_numbers(product, 0), _numbers(product, 2))
        )
        found = (text.round() * queries + query.round()).long()
        exact = max((text - text.round()).abs().max(), (query - query.round()).abs().max()) < 0.01
        return (
            found
            if exact
            and torch.equal(found.sort().values, torch.arange(batch * queries, device=found.device))
            else None
        )


def _numbers(product: Tensor, dim: int) -> Tensor:
    """0, 1, … along one dimension of a product."""
    shape = [size if place == dim else 1 for place, size in enumerate(product.shape)]
    return torch.arange(product.shape[dim], device=product.device, dtype=product.dtype).reshape(
        shape
    )


class Follow(TorchFunctionMode):
    """Sees the functions of torch that the watch of `forward` calls: after `expect`, the first product is that of weights and values."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[
            int, tuple[Tensor, tuple[Step, ...]]
        ] = {}  # by attention: the product, and the steps up to the matrix
        self._expected: int | None = None
        self._followed: dict[int, tuple[weakref.ref[Tensor], int, Tensor, tuple[Step, ...]]] = {}

    def expect(self, attention: Attention) -> None:
        self._expected = attention.index

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if (
            self._expected is not None
            and func in MATRIX
            and sum(isinstance(one, Tensor) for one in args) > 1
        ):
            self._follow(result, self._expected, result, ())
            self._expected = None
            return result
        place, source = next(
            ((k, found) for k, one in enumerate(args) if (found := self._source(one)) is not None),
            (0, None),
        )
        if source is not None and (func in SHAPING or func in MATRIX):
            index, product, steps = source
            steps = (
                *steps,
                lambda tensor: func(*args[:place], tensor, *args[place + 1 :], **(kwargs or {})),
            )
            if func in MATRIX:
                self.found.setdefault(index, (product, steps))
            else:
                self._follow(result, index, product, steps)
        return result

    def projection(self, attention: Attention) -> Projection | None:
        """What becomes of the product of an attention's weights and values; None where no matrix was found, or another form."""
        if attention.index not in self.found:
            return None
        product, steps = self.found[attention.index]
        layout = _layout(attention, product)
        return None if layout is None else Projection((layout, *steps))

    def _follow(self, tensor: Tensor, index: int, product: Tensor, steps: tuple[Step, ...]) -> None:
        self._followed[id(tensor)] = (weakref.ref(tensor), index, product, steps)

    def _source(self, tensor: Any) -> tuple[int, Tensor, tuple[Step, ...]] | None:
        if not isinstance(tensor, Tensor) or id(tensor) not in self._followed:
            return None
        alive, index, product, steps = self._followed[id(tensor)]
        return (index, product, steps) if alive() is tensor else None


def _layout(attention: Attention, product: Tensor) -> Step | None:
    """How (B, H, Q, D) becomes the form in which the model has its product."""
    own = attention.weights.to(attention.values.dtype) @ attention.values
    if product.dim() == 3 and product.shape == own.flatten(0, 1).shape:
        return lambda tensor: tensor.flatten(0, 1)
    for order in permutations(range(4)):
        moved = own.permute(order)
        if moved.shape == product.shape and torch.allclose(moved, product, rtol=1e-3, atol=1e-5):
            return lambda tensor, order=order: tensor.permute(order)
    return None

"""ALTI (Ferrando et al. 2022): mixing of tokens, with residuals, values and norms."""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attnaudit.hf.importance.case import Case
from attnaudit.hf.layers import Probe
from attnaudit.hf.model import frozen
from attnaudit.torch.capture import Attention, forward

EXACT = 1e-4  # of a layer's parts, relative to the largest: float32


def alti(case: Case) -> Float[Tensor, "B T"]:
    """Compute each token's share of the query, through all layers.

    In each layer, token j gives T_i(x_j) to the normalised output y_i of token i: its weighted
    values, with x_i itself if i = j. Its share is in proportion to max(0, ‖y_i‖₁ − ‖y_i −
    T_i(x_j)‖₁). Shares are multiplied over the layers; the other parts of a layer mix no tokens.

    References:
        Ferrando et al. 2022, section 3.
    """
    layers = mixing(case.model, case.inputs)
    return case.over_queries(reduce(lambda below, own: own @ below, layers)) * case.mask


def require_post_norm(model: Any) -> None:
    """Run two short texts.

    Raises:
        ValueError: A layer does not normalise the sum of its attention and its input.
    """
    with frozen(model):
        mixing(model, Probe.of(model).inputs)


def mixing(model: Any, inputs: Mapping[str, Tensor]) -> list[Float[Tensor, "B T T"]]:
    """Return the share of every token (last axis) in every other, for each layer.

    Raises:
        ValueError: A layer does not normalise the sum of its attention and its input.
    """
    watch = _Watch()
    with watch:
        seen = forward(model, inputs, watch.attend)
    if not (watch.exact and watch.shares) or len(watch.shares) != len(seen.attentions):
        raise ValueError("a layer does not normalise the sum of its attention and its input")
    return watch.shares


class _Watch(TorchFunctionMode):
    """Follows an attention through its output projection to the norm of its sum with its input."""

    def __init__(self) -> None:
        super().__init__()
        self.shares, self.exact = list[Tensor](), True
        self._given: Tensor | None = None  # to the last linear function
        self._attention: Attention | None = None
        self._projection: tuple[Tensor, Tensor, Tensor] | None = None

    def attend(self, attention: Attention) -> None:
        """Take an attention. The last linear function made its values."""
        self.exact &= self._attention is None and self._given is not None
        self._attention, self._projection = attention, None

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is functional.linear and self._attention is None:
            self._given = args[0]
        elif func is functional.linear and self._projection is None:
            self._projection = (args[0], args[1], result)
        elif func is functional.layer_norm and self._projection and self.exact:
            self.shares.append(self._mix(args[0], result, *args[1:], **(kwargs or {})))
            self._attention = self._projection = None
        return result

    def _mix(
        self,
        total: Float[Tensor, "B T E"],
        output: Float[Tensor, "B T E"],
        shape: tuple[int, ...],
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Float[Tensor, "B T T"]:
        """Return the shares of a layer; ``total`` is normalised and gives ``output``."""
        attention, own, projection = self._attention, self._given, self._projection
        assert attention is not None and own is not None and projection is not None  # noqa: PT018
        merged, matrix, projected = projection
        sums = attention.sums.transpose(1, 2).flatten(2)
        self.exact &= _same(merged, sums) and _same(total - projected, own)
        if not self.exact:
            return output
        by_head = matrix.unflatten(1, attention.values.shape[1::2])
        scale = (total.var(-1, unbiased=False, keepdim=True) + eps).rsqrt()
        scale = scale if weight is None else scale * weight
        shares = []
        for k in range(len(total)):  # one text at a time, as T² vectors need memory
            vectors = torch.einsum("hkd,ehd->hke", attention.values[k], by_head)
            parts = torch.einsum("hqk,hke->qke", attention.weights[k], vectors)
            parts.diagonal().add_(own[k].T)
            parts = (parts - parts.mean(-1, keepdim=True)) * scale[k, :, None]
            far = (output[k, :, None] - parts).abs().sum(-1)
            near = (output[k].abs().sum(-1, keepdim=True) - far).clamp(min=0)
            shares.append(near / near.sum(-1, keepdim=True).clamp(min=1e-12))
        return torch.stack(shares)


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool((one - other).abs().max() <= EXACT * one.abs().max())

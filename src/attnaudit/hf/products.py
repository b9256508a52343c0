"""Products with the fixed weights of a model by oneDNN, for passes that are made many times.

On processors of AMD the products that torch takes by default use half of the vector unit, and those
of oneDNN take about half their time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

# Weights are held a second time, and a third for gradients: 1 GiB each.
MOST_NUMBERS = 1 << 28


def fast_products(model: nn.Module) -> AbstractContextManager[Any]:
    """Compute linear layers of a float32 model on a CPU by oneDNN inside the block.

    Results differ in rounding. A layer whose own weights have gradients is computed as usual, as is
    everything on other devices or if torch has no oneDNN. The block may be entered again.
    """
    numbers = sum(weight.numel() for weight in model.parameters())
    devices = {weight.device.type for weight in model.parameters()}
    fast = devices == {"cpu"} and numbers <= MOST_NUMBERS and torch.backends.mkldnn.is_available()
    return _OneDnn() if fast else nullcontext()


class _OneDnn(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        # Each weight is laid out once, by its id, which is its own while the weight is held here. A
        # part of a weight is another tensor each time, so it is not laid out.
        self._laid_out: dict[tuple[int, bool], tuple[Tensor, Tensor, int]] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if not kwargs and func in (torch.addmm, functional.linear) and all(map(_is_plain, args)):
            if func is torch.addmm:  # a layer as GPT-2 writes it
                bias, rows, weight = args
                wanted = torch.is_grad_enabled() or bias.dim() != 1
                if isinstance(weight, nn.Parameter) and not wanted:
                    return self.product(rows, weight, bias, turned=True)
            elif isinstance(args[1], nn.Parameter):
                rows, weight, bias = args if len(args) == 3 else (*args, None)
                fixed = [weight] if bias is None else [weight, bias]
                graph = torch.is_grad_enabled()
                if not graph or not any(one.requires_grad for one in (rows, *fixed)):
                    return self.product(rows, weight, bias)
                if not any(one.requires_grad for one in fixed):
                    return _Linear.apply(rows, weight, bias, self)
        return func(*args, **(kwargs or {}))

    def product(
        self, rows: Tensor, weight: Tensor, bias: Tensor | None = None, turned: bool = False
    ) -> Tensor:
        """Return ``rows · weightᵀ + bias``, or ``rows · weight + bias`` if it is turned."""
        key = id(weight), turned
        if key not in self._laid_out or self._laid_out[key][2] != weight._version:
            own = weight.detach().t().contiguous() if turned else weight.detach()
            laid_out = torch.ops.mkldnn._reorder_linear_weight(own)
            self._laid_out[key] = weight, laid_out, weight._version
        laid_out = self._laid_out[key][1]
        return torch.ops.mkldnn._linear_pointwise(rows, laid_out, bias, "none", [], "")


class _Linear(torch.autograd.Function):
    """A linear layer of fixed weights, forwards and backwards."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Any, products: _OneDnn) -> Tensor:
        ctx.weight, ctx.products = weight, products
        return products.product(rows, weight, bias)

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        return (
            ctx.products.product(slopes[0].contiguous(), ctx.weight, turned=True),
            None,
            None,
            None,
        )


def _is_plain(argument: Any) -> bool:
    if argument is None:
        return True
    on_cpu = isinstance(argument, Tensor) and argument.device.type == "cpu"
    return on_cpu and argument.dtype == torch.float32 and argument.layout == torch.strided

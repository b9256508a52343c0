"""Products with the fixed weights of a model by oneDNN, for passes that are made many times.

On processors of AMD the products that torch takes by default use half of the vector unit, and oneDNN's take about half their time. Where
torch has no oneDNN, and on other devices, the model runs as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

MOST_NUMBERS = (
    1 << 28
)  # of the weights, which are held a second time, and a third where there are gradients: 1 GiB each


def fast_products(model: nn.Module) -> AbstractContextManager[Any]:
    """Within, linear layers of a float32 model on a CPU are computed by oneDNN; results differ in rounding. May be entered again and again.

    A layer whose own weights have gradients is computed as it is.
    """
    numbers = sum(weight.numel() for weight in model.parameters())
    devices = {weight.device.type for weight in model.parameters()}
    fast = devices == {"cpu"} and numbers <= MOST_NUMBERS and torch.backends.mkldnn.is_available()
    return _OneDnn() if fast else nullcontext()


class _OneDnn(TorchFunctionMode):
    """Computes ``functional.linear`` with parameters in the layout of oneDNN, each laid out once: a part of one is new each time."""

    def __init__(self) -> None:
        super().__init__()
        self._laid_out: dict[
            tuple[int, bool], tuple[Tensor, Tensor, int]
        ] = {}  # by id, which is its own while the weight is held

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is torch.addmm and not kwargs and _is_layer(*args):
            return self.product(args[1], args[2], args[0], turned=True)
        if (
            func is functional.linear
            and not kwargs
            and isinstance(args[1], nn.Parameter)
            and all(map(_is_plain, args))
        ):
            rows, weight, bias = args if len(args) == 3 else (*args, None)
            if not torch.is_grad_enabled() or not any(
                part is not None and part.requires_grad for part in args
            ):
                return self.product(rows, weight, bias)
            if not weight.requires_grad and (bias is None or not bias.requires_grad):
                return _Linear.apply(rows, weight, bias, self)
        return func(*args, **(kwargs or {}))

    def product(
        self, rows: Tensor, weight: Tensor, bias: Tensor | None = None, turned: bool = False
    ) -> Tensor:
        """``rows · weightᵀ + bias``, or ``rows · weight`` where it is ``turned``."""
        key = id(weight), turned
        if key not in self._laid_out or self._laid_out[key][2] != weight._version:
            own = weight.detach()
            laid_out = torch.ops.mkldnn._reorder_linear_weight(
                own.t().contiguous() if turned else own
            )
            self._laid_out[key] = weight, laid_out, weight._version
        return torch.ops.mkldnn._linear_pointwise(
            rows, self._laid_out[key][1], bias, "none", [], ""
        )


class _Linear(torch.autograd.Function):
    """A linear layer of fixed weights, forwards and backwards."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None, products: _OneDnn
    ) -> Tensor:
        ctx.weight, ctx.products = weight, products
        return products.product(rows, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return (
            ctx.products.product(grad_outputs[0].contiguous(), ctx.weight, turned=True),
            None,
            None,
            None,
        )


def _is_layer(bias: Any, rows: Any, weight: Any) -> bool:
    """Whether ``torch.addmm`` computes a layer of fixed weights, as those of GPT-2 are written."""
    fixed = isinstance(weight, nn.Parameter) and not torch.is_grad_enabled() and bias.dim() == 1
    return fixed and all(map(_is_plain, (bias, rows, weight)))


def _is_plain(argument: Any) -> bool:
    if argument is None:
        return True
    on_cpu = isinstance(argument, Tensor) and argument.device.type == "cpu"
    return on_cpu and argument.dtype == torch.float32 and argument.layout == torch.strided

"""Products with the weights of a model by oneDNN, for passes without gradients that are made many times.

On processors of AMD the products that torch takes by default use half of the vector unit, and oneDNN's take about half their time. Where
torch has no oneDNN, and on other devices, the model runs as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

MOST_NUMBERS = 1 << 28  # of the weights, which are held a second time: 1 GiB


@contextmanager
def fast_products(model: nn.Module) -> Iterator[None]:
    """Within, linear layers of a float32 model on a CPU are computed by oneDNN; results differ in rounding."""
    numbers = sum(weight.numel() for weight in model.parameters())
    devices = {weight.device.type for weight in model.parameters()}
    if devices == {"cpu"} and numbers <= MOST_NUMBERS and torch.backends.mkldnn.is_available():
        with _OneDnn():
            yield
    else:
        yield


class _OneDnn(TorchFunctionMode):
    """Computes ``functional.linear`` with weights in the layout of oneDNN, each laid out once."""

    def __init__(self) -> None:
        super().__init__()
        self._laid_out: dict[int, tuple[Tensor, Tensor]] = {}  # by id; the weight is held, so that its id stays its own

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is functional.linear and not kwargs and not torch.is_grad_enabled() and all(map(_is_plain, args)):
            rows, weight, bias = args if len(args) == 3 else (*args, None)
            return torch.ops.mkldnn._linear_pointwise(rows, self._of(weight), bias, "none", [], "")
        return func(*args, **(kwargs or {}))

    def _of(self, weight: Tensor) -> Tensor:
        """The weight as oneDNN reads it."""
        if id(weight) not in self._laid_out:
            self._laid_out[id(weight)] = weight, torch.ops.mkldnn._reorder_linear_weight(weight.detach())
        return self._laid_out[id(weight)][1]


def _is_plain(argument: Any) -> bool:
    return argument is None or (isinstance(argument, Tensor) and argument.dtype == torch.float32 and argument.layout == torch.strided)

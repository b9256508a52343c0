"""AttnLRP (Achtibat et al. 2024) as input × gradient of a network with other slopes.

Relevance divided by its activation is a gradient, and each rule is a slope of one function:

- linear functions, and softmax, by its Taylor decomposition, have their own;
- an element-wise function f has f(x) / x (identity rule);
- a norm has that of x times a constant, so its standard deviation is held (identity rule);
- either factor of a product of activations has half of its own (uniform rule).

Values stay as they are, to the bit. A function without a rule is refused.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attnaudit.core import InputError
from attnaudit.hf.importance.case import OPERATION, Answer, Case, Ends, embeddings_as, read_logits
from attnaudit.hf.layers import Probe
from attnaudit.hf.model import frozen, require_task
from attnaudit.torch.capture import PRODUCT, flat

ELEMENTWISE = {"relu", "gelu", "silu", "tanh"}
ADDITIVE = {"add", "add_", "__iadd__", "sub", "cat", "stack", "where"}
PRODUCTS = {"mul", "__mul__", "__imul__", "multiply", *(one.__name__ for one in PRODUCT)}
# Linear in one activation; `softmax` has the slope of its rule.
LINEAR = {
    "__get__", "__getitem__", "addmm", "chunk", "clone", "contiguous", "div", "dropout", "expand",
    "flatten", "float", "linear", "masked_fill", "mean", "neg", "permute", "repeat_interleave",
    "reshape", "softmax", "split", "squeeze", "sum", "to", "transpose", "truediv", "type",
    "unbind", "unflatten", "unsqueeze", "view",
}  # fmt: skip


def attnlrp(case: Case) -> Float[Tensor, "B T"]:
    """Compute the absolute relevance of each token for the predicted output's logit.

    References:
        Achtibat et al. 2024, section 3.
    """
    return relevance(case.model, case.inputs, case.ends).abs() * case.mask


def require_rules(model: Any) -> None:
    """Run two short texts.

    Raises:
        ValueError: The model calls a function without a rule.
    """
    inputs = Probe.of(model).inputs
    last = torch.full((len(inputs["input_ids"]),), -1, device=model.device)
    with frozen(model):
        relevance(model, inputs, None if require_task(model) == "classification" else last)


def relevance(model: Any, inputs: Mapping[str, Tensor], ends: Ends | None) -> Float[Tensor, "B T"]:
    """Compute the relevance of each token's embedding for the largest logit.

    Raises:
        InputError: The prediction is of several tokens.
        ValueError: The model calls a function without a rule.
    """
    if isinstance(ends, Answer):
        expected = "another measure than attnlrp"
        raise InputError(OPERATION, type(model).__name__, "an answer of several tokens", expected)
    leaves: list[Tensor] = []

    def as_leaf(embedded, module):
        leaves.append(embedded.detach().requires_grad_())
        return leaves[0].clone()

    with torch.enable_grad(), embeddings_as(model, inputs, as_leaf):
        with _identity(model), _Rules():
            # The capture, which replaces nothing, computes fused attention by its two products.
            logits = read_logits(model, inputs, ends, lambda attention: None)
        (slope,) = torch.autograd.grad(logits.max(dim=-1).values.sum(), leaves)
    return (leaves[0].detach() * slope).sum(dim=-1)


def _sloped(value: Tensor, line: Tensor) -> Tensor:
    """Return a value with the slope of another."""
    return value.detach() + (line - line.detach())


def _times_ratio(value: Tensor, source: Tensor) -> Tensor:
    """Return f(x) with the slope f(x) / x; 0 has no relevance to pass on."""
    ratio = torch.where(source == 0, 0.0, value / source).detach()
    return _sloped(value, source * ratio)


def _normalised(
    value: Tensor,
    source: Tensor,
    shape: tuple[int, ...],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return a layer norm with the slope that it has with its standard deviation held."""
    axes = tuple(range(-len(shape), 0))
    deviation = (source.var(axes, unbiased=False, keepdim=True) + eps).sqrt().detach()
    line = (source - source.mean(axes, keepdim=True)) / deviation
    return _sloped(value, line if weight is None else line * weight)


class _Rules(TorchFunctionMode):
    """Gives functions of activations the slopes of their rules; parameters have no gradient."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs, name = kwargs or {}, func.__name__
        given = [one for one in flat((*args, *kwargs.values())) if isinstance(one, Tensor)]
        sources = sum(one.requires_grad for one in given)
        if name in PRODUCTS and sources == 2:
            halves = [_sloped(one, 0.5 * one) for one in args]
            return func(*halves, **kwargs)
        value = func(*args, **kwargs)
        results = (one for one in flat([value]) if isinstance(one, Tensor))
        if not sources or not any(one.requires_grad for one in results):
            return value
        if name in ELEMENTWISE:
            return _times_ratio(value, args[0])
        if func is functional.layer_norm:
            return _normalised(value, *args, **kwargs)
        if name not in ADDITIVE and (sources > 1 or name not in LINEAR | PRODUCTS):
            raise ValueError(f"{name} of {sources} activations has no rule")
        return value


@contextmanager
def _identity(model: nn.Module) -> Iterator[None]:
    """Apply the identity rule to modules that act on each number: activations and RMS norms."""
    sources: list[Tensor] = []

    def hide(module, args):
        sources.append(args[0])
        return args[0].detach(), *args[1:]

    def reveal(module, args, output):
        return _times_ratio(output, sources.pop())

    with ExitStack() as hooks:
        for module in model.modules():
            kind = type(module)
            is_norm = kind.__name__.endswith("RMSNorm")
            if is_norm or kind.__module__ == "transformers.activations":
                hooks.enter_context(module.register_forward_pre_hook(hide))
                hooks.enter_context(module.register_forward_hook(reveal))
        yield

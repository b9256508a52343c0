"""Attention of any model, read and replaced where it takes effect.

`forward` runs a model once and watches the functions of torch that it calls. The output of a
softmax is followed through functions that do not change it (`PASSING`) until it is multiplied with
another tensor: these are the weights, that is the values, and the rest of the model sees this
attention only through their product. `scaled_dot_product_attention`, which shows no weights, is
computed in these two steps instead. Masks, cache and implementation of attention stay the model's.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

FUSED = functional.scaled_dot_product_attention
SOFTMAX = {functional.softmax, torch.softmax, torch.special.softmax, Tensor.softmax}
PASSING = {
    functional.dropout,
    torch.dropout,
    Tensor.to,
    Tensor.type,
    Tensor.type_as,
    Tensor.float,
    Tensor.contiguous,
    Tensor.view,
    Tensor.reshape,
    Tensor.__getitem__,  # removes the column of a sink
}
# They ask for the form of a tensor, as its properties do, and not for its numbers.
ASKING = {Tensor.size, Tensor.dim, Tensor.ndimension, Tensor.numel}
PRODUCT = {torch.matmul, torch.bmm, Tensor.matmul, Tensor.bmm, Tensor.__matmul__}
# Scores below it belong to masked keys if they are as low in all heads: a mask adds -1e4 or less.
MASKED = -5e3
Exchange = Callable[["Attention"], "Float[Tensor, 'B H Q K'] | Mixture | None"]


@dataclass(frozen=True)
class Attention:
    """One attention of a forward pass of B texts: H heads, Q queries, K keys, values of width D.

    Attributes:
        path: Path of the module that multiplies; empty in a pass with an ``exchange``.
        index: Number of the attention in the pass.
        weights: The weights that the values are multiplied with.
        values: The values.
        sink: True if the softmax was over more than the K keys, so that weights sum to less than 1.
        hidden: Keys that a mask hides from each query, if `forward` was asked for them.
        elsewhere: Functions that read the weights besides this product. A replacement of the
            weights does not reach them.
    """

    path: str
    index: int
    weights: Float[Tensor, "B H Q K"]
    values: Float[Tensor, "B H K D"]
    sink: bool
    hidden: Bool[Tensor, "B Q K"] | None
    elsewhere: list[str]

    @property
    def sums(self) -> Float[Tensor, "B H Q D"]:
        """The attended sums, ``Σ_t alpha_t · v_t``."""
        return self.weights @ self.values


@dataclass(frozen=True)
class Mixture:
    """Attended sums in place of the product of weights and values."""

    values: Float[Tensor, "B H Q D"]


@dataclass(frozen=True)
class Pass:
    """A forward pass.

    Attributes:
        output: Output of the model.
        attentions: Its attentions in order, with the model's own weights.
        unread: Products of weights of another form: their modules, and the weights' shapes.
    """

    output: Any
    attentions: tuple[Attention, ...]
    unread: tuple[tuple[str, tuple[int, ...]], ...]


def forward(
    model: nn.Module,
    inputs: Mapping[str, Any],
    exchange: Exchange | None = None,
    gradients: bool = False,
    masks: bool = False,
) -> Pass:
    """Run ``model(**inputs)`` once, and read its attention or replace it.

    Args:
        model: The model.
        inputs: Its arguments; all tensors have B rows.
        exchange: Called with each attention before it takes effect. It returns weights to use
            instead, shape ``(B, H, Q, K)``, a `Mixture` to use instead of the product, or None.
        gradients: True to make the pass ready for a backward pass.
        masks: True to find the keys that masks hide.
    """
    batch = len(next(value for value in inputs.values() if isinstance(value, Tensor)))
    watch = _Watch(batch, exchange, masks)

    def enter(path):
        return lambda module, arguments: watch.paths.append(path)

    def leave(module, arguments, output):
        watch.paths.pop()

    with ExitStack() as stack:
        # Hooks in all modules take as long as a small layer, and replays are many.
        for path, module in model.named_modules() if exchange is None else ():
            stack.enter_context(module.register_forward_pre_hook(enter(path)))
            stack.enter_context(module.register_forward_hook(leave))
        # A switch that changes nothing would still cut an exported graph into parts.
        if torch.is_grad_enabled() != gradients:
            stack.enter_context(torch.set_grad_enabled(gradients))
        stack.enter_context(watch)
        output = model(**inputs)
    return Pass(output, tuple(watch.attentions), tuple(watch.unread))


def attend_in_two_steps(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the first step of `scaled_dot_product_attention`, by torch's documentation.

    Returns:
        Weights, the values to multiply them with, and masked scores.
    """
    groups = query.shape[-3] // key.shape[-3] if enable_gqa else 1
    key, value = (part.repeat_interleave(groups, dim=-3) for part in (key, value))
    scale = float(query.shape[-1] ** -0.5 if scale is None else scale)
    scores = query @ key.transpose(-2, -1) * scale
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is None:
        weights = scores.softmax(dim=-1)
    else:
        hides = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -torch.inf) if hides else scores + attn_mask
        # A query without any key attends to nothing.
        nothing = (scores == -torch.inf).all(dim=-1, keepdim=True)
        weights = scores.softmax(dim=-1).masked_fill(nothing, 0.0)
    return functional.dropout(weights, dropout_p) if dropout_p else weights, value, scores


def tag_of(tags: WeakIdKeyDictionary, value: Any) -> Any:
    """Return the tag of a tensor, None without one."""
    return tags.get(value) if isinstance(value, Tensor) else None


@dataclass
class _Softmax:
    """A softmax that is followed.

    Attributes:
        width: Number of its weights.
        hidden: Keys that a mask hides.
        multiplied: True after the product with the values.
        elsewhere: Functions that read the weights besides this product.
    """

    width: int
    hidden: Tensor | None
    multiplied: bool = False
    elsewhere: list[str] = field(default_factory=list)


class _Watch(TorchFunctionMode):
    def __init__(self, batch: int, exchange: Exchange | None, masks: bool) -> None:
        super().__init__()
        self.batch, self.exchange, self.masks = batch, exchange, masks
        self.attentions = list[Attention]()
        self.unread = list[tuple[str, tuple[int, ...]]]()
        self.paths = [""]  # of the running modules, the innermost last
        # Tensors with their softmax.
        self._weights, self._values = WeakIdKeyDictionary(), WeakIdKeyDictionary()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is FUSED:
            weights, values, scores = attend_in_two_steps(*args, **kwargs)
            source = _Softmax(weights.shape[-1], self._hidden(scores))
            return self._product(torch.matmul, (weights, values), source)
        operands = (*args[func is torch.einsum :], *kwargs.values())
        source = tag_of(self._weights, operands[0]) if operands else None
        multiplies = (func in PRODUCT or func is torch.einsum) and len(operands) == 2
        if source is not None and multiplies:
            return self._product(func, (*args, *kwargs.values()), source)
        result = func(*args, **kwargs)
        if source is None and func in SOFTMAX and _is_last(result, *args[1:2], **kwargs):
            self._weights[result] = _Softmax(
                result.shape[-1], self._hidden(args[0] if args else kwargs["input"])
            )
        elif source is not None and func in PASSING:
            self._weights[result] = source
        elif func.__name__ == "__get__":
            if source is not None and isinstance(result, Tensor):  # as by `mT`
                source.elsewhere.append(func.__self__.__name__)
        elif func not in ASKING:
            for argument in flat(operands):
                if (read := tag_of(self._weights, argument)) is not None:
                    read.elsewhere.append(func.__name__)
            if multiplies and (multiplied := tag_of(self._values, operands[1])) is not None:
                multiplied.elsewhere.append("another product with the values")
        return result

    def _product(
        self, func: Callable[..., Tensor], args: tuple[Any, ...], source: _Softmax
    ) -> Tensor:
        """Return the product with the weights that are to take effect."""
        *equation, own, own_values = args
        if source.multiplied:
            source.elsewhere.append(func.__name__)
        source.multiplied, self._values[own_values] = True, source
        split: Any = _split_einsum if equation else _split_matmul
        parts: Parts | None = split(*args, self.batch)
        if parts is None:
            self.unread.append((self.paths[-1], tuple(own.shape)))
            return func(*args)
        weights, values, joined = parts
        attention = Attention(
            self.paths[-1],
            len(self.attentions),
            weights,
            values,
            sink=source.width > weights.shape[-1],
            hidden=_hidden_keys(source.hidden, weights) if self.masks else None,
            elsewhere=source.elsewhere,
        )
        self.attentions.append(attention)
        new = self.exchange(attention) if self.exchange else None
        if isinstance(new, Mixture):
            return joined(new.values)
        return joined((weights if new is None else new.to(weights.dtype)) @ values)

    def _hidden(self, scores: Tensor) -> Tensor | None:
        """Find the keys that a mask hides, from scores (B, H, Q, K) or (B · H, Q, K).

        A mask adds a number far below all scores to those of the same keys in all heads.
        """
        if not self.masks or scores.dim() not in (3, 4):
            return None
        low = scores.detach() < MASKED
        low = low if low.dim() == 4 else low.unflatten(0, (self.batch, -1))
        return low.all(dim=1) & (low.all(dim=1) == low.any(dim=1)).all(dim=-1, keepdim=True)


def _hidden_keys(hidden: Tensor | None, weights: Float[Tensor, "B H Q K"]) -> Bool[Tensor, "B Q K"]:
    """Leave out a sink, which comes last; else take the keys to which no head gives any weight."""
    own = (weights.detach() == 0).all(dim=1)
    return own if hidden is None else hidden[..., : own.shape[-1]]


def _is_last(weights: Tensor, dim: int | None = None, **_: Any) -> bool:
    return dim in (-1, weights.dim() - 1)


def flat(arguments: Iterable[Any]) -> Iterator[Any]:
    """Yield values, those within lists and tuples too."""
    for argument in arguments:
        yield from argument if isinstance(argument, (list, tuple)) else (argument,)


Parts = tuple[
    Float[Tensor, "B H Q K"],
    Float[Tensor, "B H K D"],
    Callable[[Float[Tensor, "B H Q D"]], Tensor],
]
"""Weights, values, and how their product is given to the model."""


def _split_matmul(weights: Tensor, values: Tensor, batch: int) -> Parts | None:
    """Split ``weights @ values``, of which texts and heads may stand in one axis; None if not."""
    own = weights.shape[:-1]
    if weights.dim() not in (3, 4) or values.dim() != weights.dim() or len(weights) % batch:
        return None
    if weights.dim() == 3:
        weights, values = (part.unflatten(0, (batch, -1)) for part in (weights, values))
    elif len(weights) != batch:
        return None
    values = values.expand(-1, weights.shape[1], -1, -1)  # all heads may have the same
    return weights, values, lambda sums: sums.reshape(*own, sums.shape[-1])


def _split_einsum(equation: str, weights: Tensor, values: Tensor, batch: int) -> Parts | None:
    """Split a product written as ``torch.einsum``, such as ``bnij,jbnd->ibnd``."""
    operands, _, result = equation.replace(" ", "").partition("->")
    left, _, right = operands.partition(",")
    rows = "".join(letter for letter in left if letter in right and letter in result)
    query = "".join(letter for letter in left if letter not in right)
    key = "".join(letter for letter in left if letter not in result)
    width = "".join(letter for letter in right if letter not in left)
    if [*map(len, (rows, query, key, width))] != [2, 1, 1, 1]:
        return None
    if weights.shape[left.index(rows[0])] != batch:
        return None
    return (
        torch.einsum(f"{left}->{rows}{query}{key}", weights),
        torch.einsum(f"{right}->{rows}{key}{width}", values),
        lambda sums: torch.einsum(f"{rows}{query}{width}->{result}", sums),
    )

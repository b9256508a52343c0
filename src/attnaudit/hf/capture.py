"""Attention of any model, read and replaced where it takes effect.

`forward` runs a model once and watches the functions of torch that it calls. The output of a
softmax is followed through functions that do not change it (`PASSING`) until it is multiplied with
another tensor: these are the weights, that is the values, and the rest of the model sees this
attention only through their product. `scaled_dot_product_attention`, which shows no weights, is
computed in these two steps instead. Masks, cache and implementation of attention stay the model's.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

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
        path: Path of the module that multiplies.
        index: Number of the attention in the pass.
        weights: The weights that the values are multiplied with.
        values: The values.
        sink: True if the softmax was over more than the K keys, so that weights sum to less than 1.
        fused: True if a function of torch computes scores and product at once.
        hidden: Keys that a mask hides from each query, if `forward` was asked for them.
        elsewhere: Functions that read the weights besides this product. A replacement of the
            weights does not reach them.
    """

    path: str
    index: int
    weights: Float[Tensor, "B H Q K"]
    values: Float[Tensor, "B H K D"]
    sink: bool
    fused: bool = False
    hidden: Bool[Tensor, "B Q K"] | None = None
    elsewhere: tuple[str, ...] = ()

    @property
    def sums(self) -> Float[Tensor, "B H Q D"]:
        """The attended sums, ``Σ_t alpha_t · v_t``."""
        return self.weights @ self.values


@dataclass(frozen=True)
class Mixture:
    """Attended sums in place of the product of weights and values."""

    values: Float[Tensor, "B H Q D"]


@dataclass(frozen=True)
class Unread:
    """A product of weights of another form than in `Attention`: its module, and their shape."""

    path: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Pass:
    """The output of a forward pass, and its attentions in order."""

    output: Any
    attentions: tuple[Attention, ...]
    unread: tuple[Unread, ...]


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

    Returns:
        The output, and the attentions with the model's own weights.
    """
    batch = len(next(value for value in inputs.values() if isinstance(value, Tensor)))
    watch = _Watch(batch, exchange, masks)
    with watch.inside(model), _gradients(gradients), watch:
        output = model(**inputs)
    return Pass(output, tuple(watch.attentions()), tuple(watch.unread))


def _gradients(wanted: bool) -> AbstractContextManager[object]:
    # A switch that changes nothing would still cut an exported graph into parts.
    return nullcontext() if torch.is_grad_enabled() == wanted else torch.set_grad_enabled(wanted)


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

    Keys of one text for queries of several are those of `resume.cache_for_rows`: the kept keys,
    then one of each row, which only this row sees.

    Returns:
        Weights, the values to multiply them with, and masked scores.
    """
    groups = query.shape[-3] // key.shape[-3] if enable_gqa else 1
    key, value = (part.repeat_interleave(groups, dim=-3) for part in (key, value))
    scale = float(query.shape[-1] ** -0.5 if scale is None else scale)
    if shared := len(key) < len(query):
        attn_mask = _hide_other_rows(attn_mask, len(query), key)
    scores = (_multiply_rows if shared else torch.matmul)(query, key.transpose(-2, -1)) * scale
    if is_causal and not shared:
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


def _multiply_rows(
    queries: Float[Tensor, "B H Q L"], matrix: Float[Tensor, "1 H L M"]
) -> Float[Tensor, "B H Q M"]:
    """Multiply with one matrix per head for all rows, which repeats nothing."""
    rows, _, each, _ = queries.shape
    product = queries.transpose(0, 1).flatten(1, 2) @ matrix[0]
    return product.unflatten(1, (rows, each)).transpose(0, 1)


def _hide_other_rows(mask: Tensor | None, rows: int, keys: Tensor) -> Tensor:
    """Extend a mask of the kept keys and one more to the own keys of all rows."""
    own = torch.eye(rows, dtype=torch.bool, device=keys.device)[:, None, None]
    if mask is None:
        mask = torch.ones(1, 1, 1, keys.shape[-2] - rows + 1, dtype=torch.bool, device=keys.device)
    mask = mask.expand(rows, -1, -1, -1)
    kept, last = mask[..., :-1], mask[..., -1:]
    last = last & own if mask.dtype == torch.bool else last.masked_fill(~own, -torch.inf)
    return torch.cat([kept, last], dim=-1)


class Tags:
    """Marks on tensors, for as long as these live."""

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[weakref.ref[Tensor], Any]] = {}

    def __setitem__(self, tensor: Tensor, tag: Any) -> None:
        self._by_id[id(tensor)] = weakref.ref(tensor), tag

    def get(self, tensor: Any) -> Any:
        """Return the mark of a tensor, None without one."""
        # Another tensor can have the id of one that is gone: the reference tells them apart.
        alive, tag = self._by_id.get(id(tensor), (None, None))
        return tag if alive is not None and alive() is tensor else None

    def remove(self, tensor: Tensor) -> None:
        """Forget a mark."""
        self._by_id.pop(id(tensor), None)


@dataclass
class _Softmax:
    """A softmax that is followed: its width, the keys that a mask hides, and its readers."""

    width: int
    hidden: Tensor | None
    products: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


class _Watch(TorchFunctionMode):
    def __init__(self, batch: int, exchange: Exchange | None, masks: bool) -> None:
        super().__init__()
        self.batch, self.exchange, self.masks = batch, exchange, masks
        self.unread: list[Unread] = []
        self._found: list[tuple[Attention, _Softmax]] = []
        self._paths: list[str] = []  # of the running modules, the innermost last
        self._weights, self._values = Tags(), Tags()  # both marked with their softmax

    def attentions(self) -> Iterator[Attention]:
        for attention, source in self._found:
            yield replace(attention, elsewhere=(*source.others, *source.products[1:]))

    @contextmanager
    def inside(self, model: nn.Module) -> Iterator[None]:
        """Know the paths of the running modules inside the block."""

        def enter(path: str) -> Callable[..., None]:
            return lambda module, arguments: self._paths.append(path)

        def leave(module: nn.Module, arguments: Any, output: Any) -> None:
            self._paths.pop()

        handles = [
            module.register_forward_pre_hook(enter(path)) for path, module in model.named_modules()
        ]
        handles += [module.register_forward_hook(leave) for module in model.modules()]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is FUSED:
            weights, values, scores = attend_in_two_steps(*args, **kwargs)
            product = (_Shared if len(values) < len(weights) else _Matmul)(weights, values)
            source = _Softmax(weights.shape[-1], self._hidden(scores))
            return self._product(product, source, "scaled_dot_product_attention", fused=True)
        operands = args[1:] if func is torch.einsum else args
        source = self._weights.get(operands[0]) if operands else None
        if source is not None and func is torch.einsum and len(operands) == 2:
            return self._product(_Einsum(*args), source, "einsum")
        if source is not None and func in PRODUCT:
            return self._product(_Matmul(*args, *kwargs.values()), source, func.__name__)
        result = func(*args, **kwargs)
        if source is None and func in SOFTMAX and _is_last(result, *args[1:2], **kwargs):
            scores = operands[0] if operands else kwargs["input"]
            self._weights[result] = _Softmax(result.shape[-1], self._hidden(scores))
        elif source is not None and func in PASSING:
            self._weights[result] = source
        elif func.__name__ == "__get__":
            if source is not None and isinstance(result, Tensor):
                # `data` is the same tensor without its graph; others, as `mT`, are readers.
                if func.__self__.__name__ == "data":
                    self._weights[result] = source
                else:
                    source.others.append(func.__self__.__name__)
        elif func not in ASKING:
            for read in filter(None, map(self._weights.get, _flat(args, kwargs))):
                read.others.append(func.__name__)
            again = len(operands) > 1 and (func in PRODUCT or func is torch.einsum)
            if again and (multiplied := self._values.get(operands[1])) is not None:
                multiplied.others.append("another product with the values")
        return result

    def _product(
        self, product: _Matmul | _Einsum, source: _Softmax, name: str, fused: bool = False
    ) -> Tensor:
        """Return the product with the weights that are to take effect."""
        source.products.append(name)
        self._values[product.values] = source
        path, parts = self._paths[-1], product.parts(self.batch)
        if parts is None:
            self.unread.append(Unread(path, tuple(product.weights.shape)))
            return product.result(product.weights)
        weights, values = parts
        sink = source.width > weights.shape[-1]
        hidden = _hidden_keys(source.hidden, weights) if self.masks else None
        own = Attention(path, len(self._found), weights, values, sink, fused, hidden)
        self._found.append((own, source))
        new = self.exchange(own) if self.exchange else None
        if isinstance(new, Mixture):
            return product.mixed(new.values)
        return product.result(product.weights if new is None else product.restored(new))

    def _hidden(self, scores: Tensor) -> Tensor | None:
        """Find the keys that a mask hides, from scores (B, H, Q, K) or (B · H, Q, K).

        A mask adds a number far below all scores to those of the same keys in all heads, so that
        none lies between them and the others.
        """
        if not self.masks or scores.dim() not in (3, 4):
            return None
        low = scores.detach() < MASKED
        low &= (low | (scores.detach() > MASKED / 2)).all(dim=-1, keepdim=True)
        low = low if low.dim() == 4 else low.unflatten(0, (self.batch, -1))
        return low.all(dim=1) & (low.all(dim=1) == low.any(dim=1)).all(dim=-1, keepdim=True)


def _hidden_keys(hidden: Tensor | None, weights: Float[Tensor, "B H Q K"]) -> Bool[Tensor, "B Q K"]:
    """Leave out a sink, which comes last; else take the keys to which no head gives any weight."""
    keys = None if hidden is None else hidden[..., : weights.shape[-1]]
    known = keys is not None and keys.shape == weights[:, 0].shape
    return keys if known else (weights.detach() == 0).all(dim=1)  # type: ignore[return-value]


def _is_last(weights: Tensor, dim: int | None = None, **_: Any) -> bool:
    return dim in (-1, weights.dim() - 1)


def _flat(args: Iterable[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """Yield all arguments of a call, those within lists too."""
    for argument in (*args, *kwargs.values()):
        yield from argument if isinstance(argument, (list, tuple)) else (argument,)


@dataclass(frozen=True)
class _Matmul:
    """``weights @ values``; texts and heads may stand in one axis."""

    weights: Tensor
    values: Tensor

    def parts(self, batch: int) -> tuple[Tensor, Tensor] | None:
        """Return weights (B, H, Q, K) and values (B, H, K, D), or None for another form."""
        weights, values = self.weights, self.values
        if weights.dim() not in (3, 4) or values.dim() != weights.dim() or len(weights) % batch:
            return None
        if weights.dim() == 3:
            return weights.unflatten(0, (batch, -1)), values.unflatten(0, (batch, -1))
        shared = values.expand(-1, weights.shape[1], -1, -1)  # all heads may have the same
        return (weights, shared) if len(weights) == batch else None

    def restored(self, weights: Float[Tensor, "B H Q K"]) -> Tensor:
        return weights.reshape(self.weights.shape).to(self.weights.dtype)

    def result(self, weights: Tensor) -> Tensor:
        return torch.matmul(weights, self.values)

    def mixed(self, sums: Float[Tensor, "B H Q D"]) -> Tensor:
        return sums.reshape(*self.weights.shape[:-1], sums.shape[-1])


@dataclass(frozen=True)
class _Shared(_Matmul):
    """``weights @ values`` with the values (1, H, K, D) of all rows."""

    def parts(self, batch: int) -> tuple[Tensor, Tensor] | None:
        return self.weights, self.values.expand(*self.weights.shape[:2], -1, -1)

    def result(self, weights: Tensor) -> Tensor:
        return _multiply_rows(weights, self.values)


@dataclass(frozen=True)
class _Einsum:
    """A product written as ``torch.einsum``, such as ``bnij,jbnd->ibnd``."""

    equation: str
    weights: Tensor
    values: Tensor

    def _letters(self) -> tuple[str, str, str, str, str, str, str]:
        """Return the terms, and the letters of rows, query, key and width."""
        operands, _, result = self.equation.replace(" ", "").partition("->")
        left, _, right = operands.partition(",")
        rows = "".join(letter for letter in left if letter in right and letter in result)
        query = "".join(letter for letter in left if letter not in right)
        key = "".join(letter for letter in left if letter not in result)
        width = "".join(letter for letter in right if letter not in left)
        return left, right, result, rows, query, key, width

    def parts(self, batch: int) -> tuple[Tensor, Tensor] | None:
        left, right, _, rows, query, key, width = self._letters()
        if [*map(len, (rows, query, key, width))] != [2, 1, 1, 1]:
            return None
        if self.weights.shape[left.index(rows[0])] != batch:
            return None
        weights = torch.einsum(f"{left}->{rows}{query}{key}", self.weights)
        return weights, torch.einsum(f"{right}->{rows}{key}{width}", self.values)

    def restored(self, weights: Float[Tensor, "B H Q K"]) -> Tensor:
        left, _, _, rows, query, key, _ = self._letters()
        return torch.einsum(f"{rows}{query}{key}->{left}", weights).to(self.weights.dtype)

    def result(self, weights: Tensor) -> Tensor:
        return torch.einsum(self.equation, weights, self.values)

    def mixed(self, sums: Float[Tensor, "B H Q D"]) -> Tensor:
        _, _, result, rows, query, _, width = self._letters()
        return torch.einsum(f"{rows}{query}{width}->{result}", sums)

"""Attention of any model, read and replaced where it takes effect: in the product of the weights with the values.

`forward` runs a model once and watches the functions of torch that it calls. The output of a softmax is followed through functions that do
not change it (`PASSING`) until it is multiplied with another tensor: these are the weights, that are the values, and the rest of the model
sees this attention through their product alone. `scaled_dot_product_attention`, which shows no weights, is computed in these two steps
instead. The model itself is not changed: its masks, cache and implementation of attention stay what they are.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attnaudit.training.loop import evaluating

SOFTMAX = {functional.softmax, torch.softmax, torch.special.softmax, Tensor.softmax}
PASSING = {
    functional.dropout, torch.dropout, Tensor.to, Tensor.type, Tensor.type_as, Tensor.float, Tensor.contiguous, Tensor.view, Tensor.reshape,
    Tensor.__getitem__,
}  # fmt: skip  # __getitem__ takes away the column of a sink
ASKING = {
    Tensor.size,
    Tensor.dim,
    Tensor.ndimension,
    Tensor.numel,
}  # of a tensor's form, as its properties do, not of its numbers
PRODUCT = {torch.matmul, torch.bmm, Tensor.matmul, Tensor.bmm, Tensor.__matmul__}
NO_TOKEN = -1  # the number of a padding token that no text has
MASKED = (
    -5e3
)  # scores below it are of masked keys, where they are so in all heads: a mask adds -1e4 or less
Exchange = Callable[["Attention"], "Float[Tensor, 'B H Q K'] | Mixture | None"]


@contextmanager
def reading(model: Any) -> Iterator[None]:
    """Within, the model is in evaluation mode, and keeps no keys and values unless a call asks for them; after it, it is as before.

    A pass over all positions needs none, and the decoder of FSMT sees later tokens in a pass that keeps them. A decoder that classifies
    and has no padding token refuses batches: within, it reads the last token of each text of a batch, as of one text.
    """
    config = getattr(model, "config", None)
    changes: dict[str, Any] = {"use_cache": False} if getattr(config, "use_cache", None) else {}
    if (
        type(model).__name__.endswith("ForSequenceClassification")
        and getattr(config, "pad_token_id", 0) is None
    ):
        changes["pad_token_id"] = NO_TOKEN
    before = {name: getattr(config, name) for name in changes}
    with evaluating(model):
        try:
            _set(config, changes)
            yield
        finally:
            _set(config, before)


@contextmanager
def without_padding(model: Any) -> Iterator[None]:
    """Within, no token is padding to a classifier, which so reads the last of each text of a batch of one length."""
    config = model.config.get_text_config()
    before = config.pad_token_id
    try:
        config.pad_token_id = NO_TOKEN
        yield
    finally:
        config.pad_token_id = before


def _set(config: Any, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        setattr(config, name, value)


@dataclass(frozen=True)
class Keys:
    """What the queries of one text are scored with, the values that they mix, and the mask of the scores as torch's function takes it.

    Of one query (`of_query`) the last column of the mask is that of its own key, which is not among the keys.
    """

    keys: Float[Tensor, "1 H K E"]
    values: Float[Tensor, "1 H K D"]
    mask: Tensor | None

    def of_query(self, position: int) -> Keys:
        """Those of one query, without the key at its own position; its column of the mask comes last."""
        keys, values = (
            torch.cat([one[:, :, :position], one[:, :, position + 1 :]], dim=2)
            for one in (self.keys, self.values)
        )
        if self.mask is None:
            return Keys(keys, values, None)
        row = self.mask if self.mask.shape[-2] == 1 else self.mask[..., position : position + 1, :]
        return Keys(
            keys,
            values,
            torch.cat(
                [row[..., :position], row[..., position + 1 :], row[..., position : position + 1]],
                dim=-1,
            ),
        )

    def with_own(self, keys: Tensor, values: Tensor) -> Keys:
        """With the own keys and values (B, H, 1, ·) of queries of a batch, as `attnaudit.hf.shared` has them."""
        own = keys.transpose(0, 2), values.transpose(0, 2)
        return Keys(
            torch.cat([self.keys, own[0]], dim=2),
            torch.cat([self.values, own[1]], dim=2),
            self.mask,
        )


@dataclass(frozen=True)
class Attention:
    """One attention of a forward pass, of B texts, H heads, Q queries and K keys, with values of width D.

    ``path`` is the module that multiplies, ``index`` the number of the attention in the pass. ``weights`` are those that the ``values`` are
    multiplied with; where ``sink`` is true their softmax was over more than the K keys, so that they sum to less than 1. ``elsewhere``
    names the functions that read the weights besides this product: what these do is not changed when the weights are replaced. ``keys`` are
    given to `Exchange` alone, where torch's function computes the scores; else None. ``hidden`` says which keys a mask hides from each
    query, where `forward` was asked for it.
    """

    path: str
    index: int
    weights: Float[Tensor, "B H Q K"]
    values: Float[Tensor, "B H K D"]
    sink: bool
    elsewhere: tuple[str, ...] = ()
    keys: Keys | None = None
    hidden: Bool[Tensor, "B Q K"] | None = None


@dataclass(frozen=True)
class Mixture:
    """What takes the place of the product of weights and values: of B texts and H heads, a vector of width D for each query."""

    values: Float[Tensor, "B H Q D"]


@dataclass(frozen=True)
class Unread:
    """A product of weights with values in another form than that of an `Attention`: the module and the shape of the weights."""

    path: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Pass:
    """What a model returned in one forward pass, and the attentions of it in their order."""

    output: Any
    attentions: tuple[Attention, ...]
    unread: tuple[Unread, ...]


def forward(
    model: nn.Module,
    inputs: Mapping[str, Any],
    exchange: Exchange | None = None,
    gradients: bool = False,
    others: Mapping[int, Keys] | None = None,
    masks: bool = False,
) -> Pass:
    """Run ``model(**inputs)`` once and return its output and its attentions; with ``gradients``, ready for a backward pass.

    All tensors of ``inputs`` have B rows. ``exchange`` is called with every attention before it takes effect, and the weights (B, H, Q, K)
    that it returns are used instead, or the `Mixture` in place of their product with the values; with None the model's own weights are.
    `Pass.attentions` always has the model's own. In a pass of one position, ``others`` are the keys of the other positions of the text
    (`Keys.of_query`), by the number of the attention. With ``masks`` every attention says which keys are ``hidden``.
    """
    watch = _Watch(
        len(next(value for value in inputs.values() if isinstance(value, Tensor))),
        exchange,
        others or {},
        masks,
    )
    with watch.inside(model), _gradients(gradients), watch:
        output = model(**inputs)
    return Pass(output, tuple(watch.seen()), tuple(watch.unread))


def _gradients(wanted: bool) -> AbstractContextManager[object]:
    """Within, gradients are ``wanted``, or not. A switch that changes nothing would still cut a graph that is exported into parts."""
    return nullcontext() if torch.is_grad_enabled() == wanted else torch.set_grad_enabled(wanted)


@dataclass
class _Softmax:
    """A softmax whose output is followed: the ``width`` that it was over, by name the functions that read it, and what a mask hides."""

    width: int
    products: list[str]
    others: list[str]
    hidden: Tensor | None = None


class _Watch(TorchFunctionMode):
    """Sees every function of torch that is called while it is active."""

    def __init__(
        self, batch: int, exchange: Exchange | None, others: Mapping[int, Keys], masks: bool
    ) -> None:
        super().__init__()
        self.batch, self.exchange, self.others, self.masks = batch, exchange, others, masks
        self.unread: list[Unread] = []
        self._found: list[tuple[Attention, _Softmax]] = []
        self._paths: list[str] = []  # of the modules that are running, the innermost last
        self._followed: dict[
            int, tuple[weakref.ref[Tensor], _Softmax]
        ] = {}  # by id: a tensor of weights, and where it comes from
        self._multiplied: dict[
            int, tuple[weakref.ref[Tensor], _Softmax]
        ] = {}  # by id: a tensor of values, and the weights of its product

    def seen(self) -> Iterator[Attention]:
        """The attentions of the pass, in order."""
        for attention, source in self._found:
            yield replace(attention, elsewhere=(*source.others, *source.products[1:]))

    @contextmanager
    def inside(self, model: nn.Module) -> Iterator[None]:
        """Within, the paths of the running modules are known."""
        handles = [
            module.register_forward_pre_hook(self._entered(path))
            for path, module in model.named_modules()
        ]
        handles += [module.register_forward_hook(self._left) for module in model.modules()]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _entered(self, path: str) -> Callable[..., None]:
        return lambda module, arguments: self._paths.append(path)

    def _left(self, module: nn.Module, arguments: Any, output: Any) -> None:
        self._paths.pop()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            return self._scaled_dot_product(*args, **kwargs)
        operands = args[1:] if func is torch.einsum else args
        source = self._source(operands[0]) if operands else None
        if source is not None and func is torch.einsum and len(operands) == 2:
            return self._product(_Einsum(*args), source, "einsum")
        if source is not None and func in PRODUCT:
            return self._product(_Matmul(*args, *kwargs.values()), source, func.__name__)
        result = func(*args, **kwargs)
        if (
            source is None
            and func in SOFTMAX
            and _dimension(*args, **kwargs) in (-1, result.dim() - 1)
        ):
            self._follow(
                result,
                _Softmax(
                    result.shape[-1],
                    [],
                    [],
                    self._hidden(operands[0] if operands else kwargs["input"]),
                ),
            )
        elif source is not None and func in PASSING:
            self._follow(result, source)
        elif func.__name__ == "__get__":
            self._note_property(source, func.__self__.__name__, result)
        elif func not in ASKING:
            for read in filter(None, map(self._source, _tensors(args, kwargs))):
                read.others.append(func.__name__)
            if len(operands) > 1 and (func in PRODUCT or func is torch.einsum):
                self._note_product(operands[1])
        return result

    def _note_product(self, values: Any) -> None:
        """Of something that is no softmax followed, with ``values`` that weights were multiplied with."""
        alive, source = self._multiplied.get(id(values), (None, None))
        if source is not None and alive is not None and alive() is values:
            source.others.append("another product with the values")

    def _note_property(self, source: _Softmax | None, name: str, value: Any) -> None:
        """Of a tensor of weights, where it is one: the same without its graph is followed, another tensor reads it, as a transposed one."""
        if source is not None and isinstance(value, Tensor):
            if name == "data":
                self._follow(value, source)
            else:
                source.others.append(name)

    def _follow(self, weights: Tensor, source: _Softmax) -> None:
        self._followed[id(weights)] = (weakref.ref(weights), source)

    def _source(self, tensor: Any) -> _Softmax | None:
        """The softmax that a tensor of weights comes from; None for all other tensors."""
        alive, source = self._followed.get(id(tensor), (None, None))
        return source if alive is not None and alive() is tensor else None

    def _product(
        self, product: _Matmul | _Einsum, source: _Softmax, name: str, keys: Keys | None = None
    ) -> Tensor:
        """The product, with the weights that are to take effect."""
        source.products.append(name)
        self._multiplied[id(product.values)] = weakref.ref(product.values), source
        path, parts = self._paths[-1], product.parts(self.batch)
        if parts is None:
            self.unread.append(Unread(path, tuple(product.weights.shape)))
            return product.result(product.weights)
        own = Attention(
            path, len(self._found), *parts, sink=source.width > product.weights.shape[-1]
        )
        if self.masks:
            own = replace(own, hidden=_of_keys(source.hidden, own.weights))
        self._found.append((own, source))
        new = self.exchange(replace(own, keys=keys)) if self.exchange else None
        if isinstance(new, Mixture):
            return product.mixed(new.values)
        return product.result(product.weights if new is None else product.restored(new))

    def _scaled_dot_product(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False,
        scale: float | None = None, enable_gqa: bool = False,
    ) -> Tensor:  # fmt: skip
        """What the function of torch computes, by its documentation, in two steps.

        Keys of one text for queries of several are those of `attnaudit.hf.shared`: kept ones, then one for each row, which it alone sees.
        """
        groups = query.shape[-3] // key.shape[-3] if enable_gqa else 1
        key, value = (part.repeat_interleave(groups, dim=-3) for part in (key, value))
        scale = float(query.shape[-1] ** -0.5 if scale is None else scale)
        if (others := self.others.get(len(self._found))) is not None:
            together = others.with_own(key, value)
            key, value, attn_mask, is_causal = together.keys, together.values, together.mask, False
        shared = len(key) < len(query)
        scores = (
            _by_rows(query, key.transpose(-2, -1)) if shared else query @ key.transpose(-2, -1)
        ) * scale
        if shared:
            attn_mask = _own_only(attn_mask, len(query), key)
        elif is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        weights, hidden = (
            softmax_within(scores, attn_mask),
            self._hidden(masked(scores, attn_mask)) if self.masks else None,
        )
        weights = (
            functional.dropout(weights, dropout_p) if dropout_p else weights
        )  # of a model that trains
        product = (_Shared if shared else _Matmul)(weights, value)
        found = Keys(key, value, attn_mask)
        return self._product(
            product,
            _Softmax(weights.shape[-1], [], [], hidden),
            "scaled_dot_product_attention",
            found,
        )

    def _hidden(self, scores: Tensor) -> Tensor | None:
        """Of scores (B, H, Q, K), or with texts and heads in one axis, which keys a mask hides.

        A mask adds a number far below all scores to those of the same keys in all heads, so that none lies between them and the others.
        """
        if not self.masks or scores.dim() not in (3, 4):
            return None
        low = scores.detach() < MASKED
        low &= (low | (scores.detach() > MASKED / 2)).all(dim=-1, keepdim=True)
        low = low if low.dim() == 4 else low.unflatten(0, (self.batch, -1))
        return low.all(dim=1) & (low.all(dim=1) == low.any(dim=1)).all(dim=-1, keepdim=True)


def _of_keys(hidden: Tensor | None, weights: Float[Tensor, "B H Q K"]) -> Bool[Tensor, "B Q K"]:
    """``hidden`` without a sink, which comes last. Where scores come in another form, keys to which no head gives any weight."""
    of_keys = None if hidden is None else hidden[..., : weights.shape[-1]]
    return (
        of_keys
        if of_keys is not None and of_keys.shape == weights[:, 0].shape
        else (weights.detach() == 0).all(dim=1)
    )


def masked(scores: Float[Tensor, "*B Q K"], mask: Tensor | None) -> Float[Tensor, "*B Q K"]:
    """Scores with a mask as `scaled_dot_product_attention` takes it: true where a key is seen, or numbers that are added."""
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask


def softmax_within(scores: Float[Tensor, "*B Q K"], mask: Tensor | None) -> Float[Tensor, "*B Q K"]:
    """The weights of `masked` scores. A query without any key attends to nothing."""
    if mask is None:
        return scores.softmax(dim=-1)
    scores = masked(scores, mask)
    return scores.softmax(dim=-1).masked_fill((scores == -torch.inf).all(dim=-1, keepdim=True), 0.0)


@dataclass(frozen=True)
class _Matmul:
    """``weights @ values``, of (B, H, Q, K) with (B, H, K, D), or of both with texts and heads in one axis."""

    weights: Tensor
    values: Tensor

    def parts(self, batch: int) -> tuple[Tensor, Tensor] | None:
        """Weights (B, H, Q, K) and values (B, H, K, D), of which all heads may have the same; None in another form."""
        if (
            self.weights.dim() not in (3, 4)
            or self.values.dim() != self.weights.dim()
            or len(self.weights) % batch
        ):
            return None
        if self.weights.dim() == 4:
            return (
                (self.weights, self.values.expand(-1, self.weights.shape[1], -1, -1))
                if len(self.weights) == batch
                else None
            )
        return self.weights.unflatten(0, (batch, -1)), self.values.unflatten(0, (batch, -1))

    def restored(self, weights: Tensor) -> Tensor:
        """Weights (B, H, Q, K) in the form of the product."""
        return weights.reshape(self.weights.shape).to(self.weights.dtype)

    def result(self, weights: Tensor) -> Tensor:
        return torch.matmul(weights, self.values)

    def mixed(self, values: Tensor) -> Tensor:
        """A mixture (B, H, Q, D) in the form of the product's result; heads that share keys may stand as queries of one head."""
        return values.reshape(*self.weights.shape[:-1], values.shape[-1])


@dataclass(frozen=True)
class _Shared(_Matmul):
    """``weights @ values`` of weights (B, H, Q, K) with the values (1, H, K, D) of all rows."""

    def parts(self, batch: int) -> tuple[Tensor, Tensor] | None:
        return self.weights, self.values.expand(*self.weights.shape[:2], -1, -1)

    def result(self, weights: Tensor) -> Tensor:
        return _by_rows(weights, self.values)


def _by_rows(
    queries: Float[Tensor, "B H Q L"], matrix: Float[Tensor, "1 H L M"]
) -> Float[Tensor, "B H Q M"]:
    """Their product, which repeats nothing."""
    number, _, each, _ = queries.shape
    return (
        (queries.transpose(0, 1).flatten(1, 2) @ matrix[0])
        .unflatten(1, (number, each))
        .transpose(0, 1)
    )


def _own_only(mask: Tensor | None, rows: int, keys: Tensor) -> Tensor:
    """A mask of the kept keys and of one more as one of all ``keys``, the last of which belong to one of the ``rows`` each."""
    own = torch.eye(rows, dtype=torch.bool, device=keys.device)[:, None, None]
    if mask is None:
        mask = torch.ones(1, 1, 1, keys.shape[-2] - rows + 1, dtype=torch.bool, device=keys.device)
    mask = mask.expand(rows, -1, -1, -1)
    last = (
        mask[..., -1:] & own
        if mask.dtype == torch.bool
        else mask[..., -1:].masked_fill(~own, -torch.inf)
    )
    return torch.cat([mask[..., :-1], last], dim=-1)


@dataclass(frozen=True)
class _Einsum:
    """A product written as ``torch.einsum``, such as ``bnij,jbnd->ibnd``."""

    equation: str
    weights: Tensor
    values: Tensor

    def parts(self, batch: int) -> tuple[Tensor, Tensor] | None:
        """Weights (B, H, Q, K) and values (B, H, K, D); None in another form."""
        left, right, result = self._letters()
        rows, key = (
            [letter for letter in left if letter in right and letter in result],
            [letter for letter in left if letter not in result],
        )
        query, width = (
            [letter for letter in left if letter not in right],
            [letter for letter in right if letter not in left],
        )
        if [*map(len, (rows, query, key, width))] != [2, 1, 1, 1] or self.weights.shape[
            left.index(rows[0])
        ] != batch:
            return None
        expected = "".join(rows + query + key)
        return (
            torch.einsum(f"{left}->{expected}", self.weights),
            torch.einsum(f"{right}->{''.join(rows + key + width)}", self.values),
        )

    def restored(self, weights: Tensor) -> Tensor:
        """Weights (B, H, Q, K) in the form of the product."""
        left, right, result = self._letters()
        ordered = sorted(
            left, key=lambda letter: (letter not in right or letter not in result, letter in right)
        )
        return torch.einsum(f"{''.join(ordered)}->{left}", weights).to(self.weights.dtype)

    def result(self, weights: Tensor) -> Tensor:
        return torch.einsum(self.equation, weights, self.values)

    def mixed(self, values: Tensor) -> Tensor:
        """A mixture (B, H, Q, D) in the form of the product's result."""
        left, right, result = self._letters()
        rows, query = (
            [letter for letter in left if letter in right and letter in result],
            [letter for letter in left if letter not in right],
        )
        width = [letter for letter in right if letter not in left]
        return torch.einsum(f"{''.join(rows + query + width)}->{result}", values)

    def _letters(self) -> tuple[str, str, str]:
        operands, _, result = self.equation.replace(" ", "").partition("->")
        left, _, right = operands.partition(",")
        return left, right, result


def _tensors(args: Iterable[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """All arguments of a call, those within lists too."""
    for argument in (*args, *kwargs.values()):
        yield from argument if isinstance(argument, (list, tuple)) else (argument,)


def _dimension(input: Tensor, dim: int | None = None, *rest: Any, **more: Any) -> int | None:
    """The dimension of a softmax, as its caller gives it."""
    return dim

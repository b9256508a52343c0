"""A torch module with a pooling submodule, run again with other weights or another pooled vector: the tail of its trace."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import polars as pl
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attnaudit.core.errors import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.hf.capture import PASSING, SOFTMAX, softmax_within
from attnaudit.hf.multihead import MULTIHEAD, run
from attnaudit.models.weights import Fingerprinted, weights_fingerprint
from attnaudit.training.loop import evaluating

OPERATION = "collect"
SIGMOID = {
    torch.sigmoid,
    torch.sigmoid_,
    torch.special.expit,
    Tensor.sigmoid,
    Tensor.sigmoid_,
}  # functional.sigmoid calls one of them
PROBABILITIES: dict[Any, str] = {
    **dict.fromkeys(SIGMOID, "sigmoid"), **dict.fromkeys(SOFTMAX, "softmax"), functional.hardsigmoid: "hardsigmoid",
    functional.logsigmoid: "logsigmoid",
    **dict.fromkeys((functional.log_softmax, torch.log_softmax, torch.special.log_softmax, Tensor.log_softmax), "log_softmax"),
}  # fmt: skip
LOGARITHM = {torch.log, torch.log_, Tensor.log, Tensor.log_}
IN_FORM = PASSING | {
    torch.flatten, torch.reshape, torch.squeeze, torch.unsqueeze, torch.detach, torch.select, torch.narrow, torch.transpose, torch.clamp,
    torch.clip, torch.chunk, torch.split, torch.unbind, Tensor.clone, Tensor.double, Tensor.flatten, Tensor.squeeze, Tensor.unsqueeze,
    Tensor.detach, Tensor.select, Tensor.narrow, Tensor.transpose, Tensor.permute, Tensor.t, Tensor.clamp, Tensor.clamp_, Tensor.clip,
    Tensor.chunk, Tensor.split, Tensor.unbind, *(getattr(Tensor, name).__get__ for name in ("T", "mT", "data")),
}  # fmt: skip  # functions that give the same numbers, or some of them
COMPLEMENT = {torch.rsub, Tensor.__rsub__}  # of probabilities, subtracted from 1
FUSED = functional.scaled_dot_product_attention


class Texts(Protocol):
    """A batch that was collected: the arguments of the module, and the pooled vectors (B, P), in the form of the submodule's output."""

    @property
    def inputs(self) -> Any: ...

    @property
    def pooled(self) -> Float[Tensor, "B P"]: ...

    def in_form(self, pooled: Float[Tensor, "B P"]) -> Tensor: ...


@dataclass(frozen=True)
class Ran:
    """What a module gave, on the CPU: its ``output``, the function that this is the ``result_of`` where it gives probabilities or their
    logarithms, the ``pooled`` output of the submodule, and the ``weights`` (B, H, T) of every softmax in it; whether these are known to be
    ``of_heads``, as those of `torch.nn.MultiheadAttention`, and not of queries."""

    output: Any
    result_of: str
    pooled: Tensor
    weights: tuple[Tensor, ...]
    of_heads: bool = False


class _Weights(TorchFunctionMode):
    """Sees the softmax of a module while it runs, and puts other weights in its place; knows which tensors are probabilities."""

    def __init__(self, new: Tensor | None) -> None:
        super().__init__()
        self.new, self.inside, self.seen, self.of_heads = new, False, list[Tensor](), False
        self._probabilities: dict[int, tuple[weakref.ref[Tensor], str]] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if self.inside and func is MULTIHEAD:
            result, own = run(func, args, kwargs or {}, self.new)
            self.seen.append(own)
            self.of_heads = True
            return result
        if self.inside and func is FUSED:
            return self._unfused(*args, **(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        self._note(func, args, result)
        if not self.inside or func not in SOFTMAX:
            return result
        tokens = _axis(result, *args[1:2], **(kwargs or {}))
        self.seen.append(_by_head(result, tokens))
        return result if self.new is None else _shaped(self.new, result, tokens)

    def _unfused(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False,
        scale: float | None = None, enable_gqa: bool = False,
    ) -> Tensor:  # fmt: skip
        """Attention that torch computes at once, in two steps."""
        result = FUSED(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        groups = query.shape[-3] // key.shape[-3] if enable_gqa else 1
        key, value = (
            part.repeat_interleave(groups, dim=-3) if groups > 1 else part for part in (key, value)
        )
        scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        weights = softmax_within(scores, attn_mask)
        self.seen.append(_by_head(weights, weights.dim() - 1))
        self.of_heads = weights.dim() == 4
        return result if self.new is None else _shaped(self.new, weights, weights.dim() - 1) @ value

    def gave(self, tensor: Any) -> str:
        """The function that a tensor of probabilities, or of their logarithms, is the result of; empty for all other values."""
        alive, name = self._probabilities.get(id(tensor), (None, ""))
        return name if alive is not None and alive() is tensor else ""

    def _note(self, func: Callable[..., Any], args: Any, result: Any) -> None:
        """Know a result that is probabilities. One that another function gives is none; it may have changed them in place."""
        name = PROBABILITIES.get(func) or self._handed_on(func, args)
        for one in result if isinstance(result, tuple | list) else (result,):
            if isinstance(one, Tensor):
                self._probabilities.pop(id(one), None)
                if name:
                    self._probabilities[id(one)] = (weakref.ref(one), name)

    def _handed_on(self, func: Callable[..., Any], args: Any) -> str:
        """What a function makes of probabilities in its first argument, where it leaves them probabilities, or takes their logarithm."""
        given = self.gave(args[0]) if args else ""
        if func in IN_FORM or (
            func in COMPLEMENT and isinstance(args[-1], int | float) and args[-1] == 1
        ):
            return given
        return f"log of a {given}" if func in LOGARITHM and given else ""


def _axis(weights: Tensor, dim: int | None = None, **_: Any) -> int:
    """The axis that a softmax was over, which is that of the tokens; without one, the axis that torch takes."""
    if dim is None:
        return 0 if weights.dim() in (0, 1, 3) else 1
    return dim % max(weights.dim(), 1)


def _by_head(own: Tensor, tokens: int) -> Tensor:
    """Weights (B, H, T) of a softmax (B, T), (B, T, 1), (B, 1, T), (B, H, T) or (B, H, 1, T) over the axis ``tokens``; others in another
    form."""
    last = own.movedim(tokens, -1) if own.dim() else own
    size = last.shape[-1] if own.dim() else 0
    if last.dim() == 4 and last.shape[2] == 1:
        return last[:, :, 0]
    return (
        last.reshape(len(last), 1, size)
        if own.dim() > 1 and own.numel() == len(last) * size
        else last
    )


def _shaped(new: Float[Tensor, "B H T"], own: Tensor, tokens: int) -> Tensor:
    """Weights in the form of the module's own, padded to as many tokens."""
    last = own.movedim(tokens, -1)
    padded = functional.pad(new, (0, last.shape[-1] - new.shape[2])).to(own)
    return padded.reshape(last.shape).movedim(-1, tokens)


@dataclass
class PoolingNetwork(Fingerprinted):
    """A module with its pooling submodule, as the tail of a trace in this process: it is run again from the pooled vector on."""

    net: nn.Module
    pool: nn.Module
    texts: dict[int, tuple[Texts, int]] = field(default_factory=dict)

    @property
    def model(self) -> nn.Module:
        """The whole module."""
        return self.net

    def current_fingerprint(self) -> str:
        """sha256 of the weights as they are."""
        return weights_fingerprint(self.net)

    def current_logits(self, table: pl.DataFrame) -> Float[np.ndarray, "n C"]:
        """The logits of the rows' texts, by passes of the whole module as it is."""
        places = [self.texts[instance] for instance in table["instance"].to_list()]
        return np.stack(
            [self.run(part.inputs).output[number].double().numpy() for part, number in places]
        )

    def add(self, start: int, part: Texts) -> None:
        """Texts that rows are of, numbered from ``start``."""
        self.texts |= {start + row: (part, row) for row in range(len(part.pooled))}

    def of_rows(self, table: pl.DataFrame) -> _Rows:
        """The tail of the rows of a trace."""
        return _Rows(self, table["instance"].to_numpy())

    def run(self, inputs: Any, weights: Tensor | None = None, pooled: Tensor | None = None) -> Ran:
        """What the module gives, with other ``weights`` (B, H, T) or another ``pooled`` vector.

        Raises InputError where the submodule is not called, or returns no tensor.
        """
        mode, outputs = _Weights(weights), list[Any]()

        def enters(module: nn.Module, args: Any) -> None:
            mode.inside = True

        def leaves(module: nn.Module, args: Any, output: Any) -> Any:
            mode.inside = False
            own = output[0] if isinstance(output, tuple | list) and len(output) else output
            outputs.append(own)
            if pooled is None or not isinstance(own, Tensor):
                return None
            new = pooled.reshape(own.shape).to(own)
            return new if own is output else _with_first(output, new)

        handles = [
            self.pool.register_forward_pre_hook(enters),
            self.pool.register_forward_hook(leaves),
        ]
        try:
            with torch.no_grad(), evaluating(self.net), mode:
                output = self.net(**inputs) if isinstance(inputs, Mapping) else self.net(*inputs)
                result_of = mode.gave(output)
        finally:
            for handle in handles:
                handle.remove()
        name = f"attention: {type(self.pool).__name__}"
        if not outputs:
            raise InputError(
                OPERATION,
                name,
                f"not called by {type(self.net).__name__}",
                "a module that pools the tokens",
            )
        if not isinstance(outputs[0], Tensor):
            got, do = (
                f"an output of class {type(outputs[0]).__name__}",
                "wrap it in one that returns this",
            )
            raise InputError(
                OPERATION,
                name,
                got,
                "the pooled vectors, a tensor, or a tuple that they come first in",
                do,
            )
        return Ran(
            _here(output), result_of, _here(outputs[0]), tuple(map(_here, mode.seen)), mode.of_heads
        )


def _with_first(output: Any, new: Tensor) -> Any:
    """A tuple, also one with names, or a list, with another first value."""
    if hasattr(output, "_fields"):
        return type(output)(new, *output[1:])
    return type(output)([new, *output[1:]])


def _here(given: Any) -> Any:
    """A tensor without its graph, on the CPU; all else as it is."""
    return given.detach().cpu() if isinstance(given, Tensor) else given


@dataclass(frozen=True)
class _Rows:
    network: PoolingNetwork
    instance: Int64[np.ndarray, " n"]

    def __call__(
        self, pooled: Float[np.ndarray, "n P"], rows: Int64[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n C"]:
        found = []
        for vector, row in zip(pooled, rows, strict=True):
            part, number = self.network.texts[int(self.instance[row])]
            everything = part.pooled.clone()
            everything[number] = torch.from_numpy(vector)
            found.append(
                self.network.run(part.inputs, pooled=part.in_form(everything))
                .output[number]
                .double()
                .numpy()
            )
        return np.stack(found)

    def together(self, pooled: Float[np.ndarray, "M P"], rows: Ragged) -> Float[np.ndarray, "m C"]:
        """The rows of a group are the heads of a text, each of whose sums holds the others': their changes add up."""
        first = rows.values[rows.offsets[:-1]]
        places = [self.network.texts[int(self.instance[row])] for row in first]
        own = np.stack([part.pooled[number].double().numpy() for part, number in places])
        return self(own + rows.with_values(pooled - rows.spread(own)).sum(), first)

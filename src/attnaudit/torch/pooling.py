"""A torch module with a pooling submodule, run with other weights or another pooled vector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import BoundArguments, signature
from types import FunctionType
from typing import Any

import numpy as np
import polars as pl
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attnaudit.core.errors import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.models.weights import Fingerprinted, weights_fingerprint
from attnaudit.torch.capture import FUSED, SOFTMAX, attend_in_two_steps
from attnaudit.training.loop import evaluating

OPERATION = "collect"
MULTIHEAD = functional.multi_head_attention_forward
OWN_KEYS = ("bias_k", "bias_v", "add_zero_attn", "static_k", "static_v")
PROBABILITIES = ("hardsigmoid", "sigmoid", "softmax", "special_expit", "special_softmax")


@dataclass(frozen=True)
class Ran:
    """A run of a module, on the CPU.

    Attributes:
        output: Output of the module.
        result_of: Function that returned it, if that gives probabilities.
        pooled: Output of the submodule.
        weights: Weights (B, H, T) of every softmax in the submodule.
        of_heads: True if their rows are known to be heads and not queries.
    """

    output: Any
    result_of: str
    pooled: Tensor
    weights: tuple[Tensor, ...]
    of_heads: bool = False


# The function behind `torch.nn.MultiheadAttention`, which hands itself to a watching mode before
# anything else. This copy runs at once, so that the mode sees the functions that it calls.
_MULTIHEAD_BODY = FunctionType(
    MULTIHEAD.__code__, {**vars(functional), "has_torch_function": lambda tensors: False}
)


class _Watch(TorchFunctionMode):
    """Replaces the softmax of a submodule, and knows which tensors are probabilities.

    Attributes:
        inside: True while the submodule runs.
        seen: Own weights of every softmax in it.
        of_heads: True if their rows are known to be heads.
        probabilities: Results of functions that give probabilities, their versions, and the
            functions' names.
    """

    def __init__(self, new: Float[Tensor, "B H T"] | None) -> None:
        super().__init__()
        self.new, self.inside, self.of_heads, self._heads = new, False, False, 0
        self.seen, self.probabilities = list[Tensor](), list[tuple[Tensor, int, str]]()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.inside and func is MULTIHEAD:
            return self._multihead(signature(MULTIHEAD).bind(*args, **kwargs))
        if self.inside and func is FUSED:
            weights, values, _ = attend_in_two_steps(*args, **kwargs)
            self.of_heads = weights.dim() == 4
            return self._exchanged(weights, weights.dim() - 1) @ values
        result: Any = func(*args, **kwargs)
        name = func.__name__.removesuffix("_")
        if name in PROBABILITIES:
            self.probabilities.append((result, result._version, name))
        if not self.inside or func not in SOFTMAX:
            return result
        return self._exchanged(result, _axis(result, *args[1:2], **kwargs))

    def source_of(self, output: Any) -> str:
        """Return the function whose probabilities an output is, or is a view of; else nothing."""

        def storage(tensor: Any) -> Any:
            return tensor.untyped_storage().data_ptr() if isinstance(tensor, Tensor) else None

        for given, version, name in self.probabilities:
            # A later version has other numbers, by a function that works in place.
            if storage(given) == storage(output) and given._version == version:
                return name
        return ""

    def _exchanged(self, own: Tensor, axis: int) -> Tensor:
        """Keep the weights of a softmax over an axis, and return those that are to take effect."""
        weights = own.movedim(axis, -1) if own.dim() else own
        size = weights.shape[-1] if own.dim() else 0
        by_head = weights
        if self._heads:
            by_head = weights.reshape(-1, self._heads, size)
        elif weights.dim() == 4 and weights.shape[2] == 1:
            by_head = weights[:, :, 0]
        elif weights.dim() > 1 and weights.numel() == len(weights) * size:
            by_head = weights.reshape(len(weights), 1, size)
        self.seen.append(by_head)
        if self.new is None:
            return own
        padded = functional.pad(self.new, (0, size - self.new.shape[2])).to(own)
        return padded.reshape(weights.shape).movedim(-1, axis)

    def _multihead(self, call: BoundArguments) -> tuple[Tensor, Tensor | None]:
        """Run `torch.nn.MultiheadAttention`, with its softmax seen.

        Raises:
            InputError: It has several queries for each text, or keys of its own.
        """
        call.apply_defaults()
        given, query = call.arguments, call.arguments["query"]
        where, expected = "MultiheadAttention", "one query for each text, which pools its tokens"
        if query.dim() != 3 or query.shape[0] != 1:
            got = f"{query.shape[0]} queries for each text"
            got = got if query.dim() == 3 else "texts without a dimension of the batch"
            raise InputError(OPERATION, where, got, expected)
        own = [name for name in OWN_KEYS if given[name] is not None and given[name] is not False]
        if own:
            expected = "weights over the tokens of the text alone"
            raise InputError(OPERATION, where, f"keys of its own ({', '.join(own)})", expected)
        self.of_heads, self._heads = True, given["num_heads"]
        asked = {"need_weights": True, "average_attn_weights": False}
        with self:
            output, weights = _MULTIHEAD_BODY(**{**given, **asked})
        self._heads = 0
        weights = weights.mean(dim=1) if given["average_attn_weights"] else weights
        return output, weights if given["need_weights"] else None


def _axis(weights: Tensor, dim: int | None = None, **_: Any) -> int:
    """Return the axis of a softmax; without one, the axis that torch takes."""
    if dim is None:
        return 0 if weights.dim() in (0, 1, 3) else 1
    return dim % max(weights.dim(), 1)


@dataclass
class PoolingNetwork(Fingerprinted):
    """A module with its pooling submodule, as the tail of a trace in this process.

    Attributes:
        net: The module.
        pool: The submodule.
        texts: Batch, and place in it, of every instance.
    """

    net: nn.Module
    pool: nn.Module
    texts: dict[int, tuple[Any, int]] = field(default_factory=dict)

    @property
    def model(self) -> nn.Module:
        """The module."""
        return self.net

    def current_fingerprint(self) -> str:
        """Compute the sha256 of the weights as they are."""
        return weights_fingerprint(self.net)

    def current_logits(self, table: pl.DataFrame) -> Float[np.ndarray, "n C"]:
        """Run the whole module as it is on the rows' texts."""
        places = [self.texts[instance] for instance in table["instance"].to_list()]
        return np.stack(
            [self.run(part.batch.inputs).output[number].double().numpy() for part, number in places]
        )

    def of_rows(self, table: pl.DataFrame) -> _Rows:
        """Return the tail of the rows of a trace."""
        return _Rows(self, table["instance"].to_numpy())

    def run(self, inputs: Any, weights: Tensor | None = None, pooled: Tensor | None = None) -> Ran:
        """Run the module.

        Args:
            inputs: Its arguments.
            weights: Other weights (B, H, T).
            pooled: Another pooled vector.

        Raises:
            InputError: The submodule is not called, or returns no tensor.
        """
        watch, outputs = _Watch(weights), list[Any]()

        def enter(module: nn.Module, args: Any) -> None:
            watch.inside = True

        def leave(module: nn.Module, args: Any, output: Any) -> Any:
            watch.inside = False
            several = isinstance(output, tuple | list) and bool(output)
            outputs.append(next(iter(output)) if several else output)
            if pooled is None or not isinstance(outputs[-1], Tensor):
                return None
            new = pooled.reshape(outputs[-1].shape).to(outputs[-1])
            if not several:
                return new
            rest = [new, *output[1:]]
            return type(output)(*rest) if hasattr(output, "_fields") else type(output)(rest)

        hooks = self.pool.register_forward_pre_hook(enter), self.pool.register_forward_hook(leave)
        with hooks[0], hooks[1], torch.no_grad(), evaluating(self.net), watch:
            output = self.net(**inputs) if isinstance(inputs, Mapping) else self.net(*inputs)
        where, do = f"attention: {type(self.pool).__name__}", "wrap it in one that returns this"
        if not outputs:
            got, expected = (
                f"not called by {type(self.net).__name__}",
                "a module that pools the tokens",
            )
            raise InputError(OPERATION, where, got, expected)
        if not isinstance(outputs[0], Tensor):
            got = f"an output of class {type(outputs[0]).__name__}"
            expected = "the pooled vectors, a tensor, or a tuple that they come first in"
            raise InputError(OPERATION, where, got, expected, do)
        plain = [_plain(one) for one in (output, outputs[0], *watch.seen)]
        return Ran(plain[0], watch.source_of(output), plain[1], tuple(plain[2:]), watch.of_heads)


def _plain(given: Any) -> Any:
    return given.detach().cpu() if isinstance(given, Tensor) else given


@dataclass(frozen=True)
class _Rows:
    network: PoolingNetwork
    instance: Int64[np.ndarray, " n"]

    def __call__(
        self, pooled: Float[np.ndarray, "n P"], rows: Int64[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n C"]:
        logits = []
        for vector, row in zip(pooled, rows, strict=True):
            part, number = self.network.texts[int(self.instance[row])]
            every = part.pooled.clone()
            every[number] = torch.from_numpy(vector)
            output = self.network.run(part.batch.inputs, pooled=every).output
            logits.append(output[number].double().numpy())
        return np.stack(logits)

    def together(self, pooled: Float[np.ndarray, "M P"], rows: Ragged) -> Float[np.ndarray, "m C"]:
        """Return the logits of groups of rows, the heads of a text.

        The sum of each holds the sums of the others, so that their changes add up.
        """
        first = rows.values[rows.offsets[:-1]]
        places = [self.network.texts[int(self.instance[row])] for row in first]
        own = np.stack([part.pooled[number].double().numpy() for part, number in places])
        return self(own + rows.with_values(pooled - rows.spread(own)).sum(), first)

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
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from attnaudit.core import InputError
from attnaudit.core.progress import ignore
from attnaudit.core.ragged import Ragged
from attnaudit.models.weights import Fingerprinted, weights_fingerprint
from attnaudit.torch.capture import FUSED, SOFTMAX, attend_in_two_steps, flat, tag_of
from attnaudit.training.loop import evaluating, without_gradients

OPERATION = "collect"
# Difference from the weighted sum of what the tokens give, relative to the largest of these.
LINEAR = 1e-5
MULTIHEAD = functional.multi_head_attention_forward
OWN_KEYS = ("bias_k", "bias_v", "add_zero_attn", "static_k", "static_v")
MULTIPLIED = ("__mul__", "__rmul__", "mul", "multiply")
PRODUCTS = ("__matmul__", "__rmatmul__", "bmm", "einsum", "matmul")
OWN_MODULE = (
    "move the softmax and the weighted sum into a small nn.Module, as in docs/model.md: class "
    "Pool(nn.Module): def forward(self, scores, values): return (scores.softmax(dim=1)[..., None] "
    "* values).sum(dim=1)"
)
PROBABILITIES = ("hardsigmoid", "sigmoid", "softmax", "special_expit", "special_softmax")


@dataclass(frozen=True)
class Ran:
    """A run of a module, on the CPU.

    Attributes:
        output: Logits of the module.
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
    """Replaces the softmax of a submodule and its output.

    In a whole network (``inlined``) the first product that the weights enter stands for the output.
    Later checks find out whether the network reads them elsewhere.

    Attributes:
        inside: True while the submodule runs.
        seen: Own weights of every softmax in it.
        sums: Its outputs.
        of_heads: True if rows of weights are known to be heads.
        probabilities: Results of functions that give probabilities, their versions, and the
            functions' names.
        ids: Ids of tokens by name; if given, weights are held fixed.
        embedded: Their embeddings, made ready for gradients.
    """

    def __init__(
        self,
        new: Float[Tensor, "B H T"] | None = None,
        pooled: Tensor | None = None,
        inlined: bool = False,
        ids: Mapping[str, Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.new, self.pooled, self.inlined, self.ids = new, pooled, inlined, ids
        self.inside, self.of_heads, self._heads = False, False, 0
        self.seen, self.probabilities = list[Tensor](), list[tuple[Tensor, int, str]]()
        self.sums, self.embedded = list[Any](), dict[str, list[Tensor]]()
        self._multiplied = WeakIdKeyDictionary()  # tensors made from weights

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.inside and func is MULTIHEAD:
            return self._multihead(signature(MULTIHEAD).bind(*args, **kwargs))
        if self.inside and func is FUSED:
            weights, values, _ = attend_in_two_steps(*args, **kwargs)
            self.of_heads = weights.dim() == 4
            sums = self._exchanged(weights, weights.dim() - 1) @ values
            return self.summed(sums) if self.inlined else sums
        result: Any = func(*args, **kwargs)
        name = func.__name__.removesuffix("_")
        if name in PROBABILITIES:
            self.probabilities.append((result, result._version, name))
        if self.ids is not None and func is functional.embedding:
            result = self._embedded(args[0], result)
        if not self.inside:
            return result
        if func in SOFTMAX:
            result = self._exchanged(result, _axis(result, *args[1:2], **kwargs))
            self._multiplied[result] = False
            return result
        return self._followed(name, (*args, *kwargs.values()), result) if self.inlined else result

    def summed(self, output: Any) -> Any:
        """Keep the output of the submodule, and return the one that is to take effect."""
        several = isinstance(output, tuple | list) and bool(output)
        own = next(iter(output)) if several else output
        self.sums.append(own)
        if self.pooled is None or not isinstance(own, Tensor):
            return output
        new = self.pooled.reshape(own.shape).to(own)
        if not several:
            return new
        rest = [new, *output[1:]]
        return type(output)(*rest) if hasattr(output, "_fields") else type(output)(rest)

    def _followed(self, name: str, operands: tuple[Any, ...], result: Any) -> Any:
        """Follow weights to their first product or weighted sum."""
        tags = [tag_of(self._multiplied, operand) for operand in flat(operands)]
        known = [tag for tag in tags if tag is not None]
        if not known or not isinstance(result, Tensor) or self.sums:
            return result
        if name in PRODUCTS or (name == "sum" and any(known)):
            return self.summed(result)
        self._multiplied[result] = any(known) or name in MULTIPLIED
        return result

    def _embedded(self, given: Tensor, vectors: Tensor) -> Tensor:
        """Make the embeddings of the tokens' ids ready for gradients."""
        names = [name for name, ids in (self.ids or {}).items() if torch.equal(ids, given)]
        if names:
            vectors = vectors.detach().requires_grad_()
            self.embedded.setdefault(names[0], []).append(vectors)
        return vectors

    def source_of(self, output: Any) -> str:
        """Return the function whose probabilities an output is, or is a view of; else nothing."""

        def storage(tensor):
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
            return own if self.ids is None else own.detach()
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
        pool: The submodule, or the module itself.
        output: Name or position of the logits in its output; None if it returns them.
        texts: Batch, and place in it, of every instance.
        replays: Called with the number of outputs just computed, for progress.
    """

    net: nn.Module
    pool: nn.Module
    output: str | int | None = None
    texts: dict[int, tuple[Any, int]] = field(default_factory=dict)
    replays: Callable[[int], None] = ignore

    @property
    def inlined(self) -> bool:
        """True if the module itself pools."""
        return self.pool is self.net

    def advice(self, otherwise: str) -> str:
        """Return what to do if this is no pooling."""
        return OWN_MODULE if self.inlined else otherwise

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
        watch = _Watch(weights, pooled, self.inlined)
        with torch.no_grad():
            logits = self._call(inputs, watch)
        where = f"attention: {type(self.pool).__name__}"
        if not watch.sums and watch.inlined:
            got = "no sum of what its weights multiply"
            raise InputError(OPERATION, where, got, "one sum, weighted by a softmax", OWN_MODULE)
        if not watch.sums:
            got = f"not called by {type(self.net).__name__}"
            raise InputError(OPERATION, where, got, "a module that pools the tokens")
        if not isinstance(watch.sums[0], Tensor):
            got = f"an output of class {type(watch.sums[0]).__name__}"
            expected = "the pooled vectors, a tensor, or a tuple that they come first in"
            raise InputError(OPERATION, where, got, expected, "wrap it in one that returns this")
        plain = [
            (one.detach().cpu() if isinstance(one, Tensor) else one)
            for one in (logits, watch.sums[0], *watch.seen)
        ]
        return Ran(plain[0], watch.source_of(logits), plain[1], tuple(plain[2:]), watch.of_heads)

    def run_held(
        self, inputs: Mapping[str, Any], ids: Mapping[str, Tensor]
    ) -> tuple[Float[Tensor, "B C"], dict[str, list[Tensor]]]:
        """Run the module for gradients, with its attention held fixed.

        Args:
            inputs: Its arguments by name.
            ids: Those that are ids of tokens.

        Returns:
            The logits, and every embedding of these ids.
        """
        watch = _Watch(ids=ids)
        # cuDNN has no gradients of recurrent layers outside training.
        cudnn = torch.backends.cudnn.flags(enabled=False)
        with torch.enable_grad(), without_gradients(self.net), cudnn:
            return self._call(inputs, watch), watch.embedded

    def _call(self, inputs: Any, watch: _Watch) -> Any:
        """Run the module under a watch, and return its logits."""

        def enter(module, args):
            watch.inside = True

        def leave(module, args, output):
            watch.inside = False
            return None if watch.inlined else watch.summed(output)

        hooks = self.pool.register_forward_pre_hook(enter), self.pool.register_forward_hook(leave)
        with hooks[0], hooks[1], evaluating(self.net), watch:
            output = self.net(**inputs) if isinstance(inputs, Mapping) else self.net(*inputs)
        return self._logits(output)

    def _logits(self, output: Any) -> Any:
        """Pick the logits from what the module returns.

        Raises:
            InputError: It returns several things, and no or an unknown one is named.
        """
        entries: dict[Any, Any] = {}
        if isinstance(output, tuple | list):
            entries = dict(enumerate(output))
            entries |= dict(zip(getattr(output, "_fields", ()), output, strict=False))
        elif isinstance(output, Mapping):
            entries = dict(output)
        if self.output in entries:
            return entries[self.output]
        if self.output is None and not entries:
            return output
        where, got = f"output of {type(self.net).__name__}", f"a {type(output).__name__}"
        if self.output is not None:
            got += f" without {self.output!r}"
        expected, do = "a tensor of logits", "leave output= out"
        if entries:
            do = "give the name or position of the logits as output="
            expected = f"the logits, one of {', '.join(map(repr, entries))}"
        raise InputError(OPERATION, where, got, expected, do)


def inside(lengths: Int64[Tensor, " B"], size: int) -> Bool[Tensor, "B T"]:
    """Mark the tokens of texts among ``size`` positions."""
    return torch.arange(size) < lengths[:, None]


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

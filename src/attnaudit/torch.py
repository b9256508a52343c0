"""The trace of any torch module with a pooling attention: weights over the tokens of a text, whose weighted sum the rest of it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attnaudit.core.errors import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.hf.capture import SOFTMAX
from attnaudit.models.fingerprint import weights_fingerprint
from attnaudit.trace import Trace, concatenate
from attnaudit.training.loop import evaluating

OPERATION = "collect"
LINEAR = 1e-5  # of a sum over tokens of what each gives alone, relative to the largest number
TRIALS = 3


@dataclass(frozen=True)
class Batch:
    """B texts: the arguments of the module (a tuple, or a mapping by name), the tokens of each, and their labels where they are known."""

    inputs: Any
    tokens: Sequence[Sequence[str]]
    label: Sequence[int] | None = None


def collect(
    net: nn.Module, batches: Iterable[Batch | tuple[Any, ...]], *, attention: str, class_names: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Trace:  # fmt: skip
    """The trace of ``net``, a classifier of texts, whose submodule at the path ``attention`` pools the tokens of each text.

    ``batches`` are `Batch` or tuples of its fields. The submodule computes one softmax over the tokens of every text; its output is the
    weighted sum of what the tokens give. That it is this and nothing else is checked: with all weight on one token at a time the submodule
    gives what each token contributes, and the weighted sum of these must be what it gives under the model's own and under random weights.
    The module returns logits (B, C); one column is the logit of class 1.

    Where the logits themselves are such a sum, the trace stores what each token contributes to them, and an audit needs nothing else.
    Otherwise the trace keeps ``net`` as its tail, in this process. Raises InputError for a path that is no module, for a submodule with no
    softmax or several, and for one whose output is no weighted sum, such as of squared weights.
    """
    pool = _submodule(net, attention)
    network = PoolingNetwork(net, pool)
    parts = []
    for number, given in enumerate(batches):
        batch = given if isinstance(given, Batch) else Batch(*given)
        parts.append(_Collected.of(network, batch, f"batch {number}"))
    if not parts:
        raise InputError(OPERATION, "batches", "none", "one batch or more")
    affine = all(part.affine for part in parts)
    start = 0
    traces = []
    for part in parts:
        network.add(start, part)
        traces.append(part.trace(start, affine, network, class_names, dict(metadata or {})))
        start += len(part.batch.tokens)
    return concatenate(traces)


def _submodule(net: nn.Module, path: str) -> nn.Module:
    try:
        return net.get_submodule(path)
    except AttributeError as error:
        known = ", ".join(name for name, _ in net.named_modules() if name)
        raise InputError(OPERATION, f"attention {path!r}", "no such submodule", f"one of {known}") from error


class _Weights(TorchFunctionMode):
    """Sees the softmax of a module while it runs, and puts other weights in its place."""

    def __init__(self, new: Tensor | None) -> None:
        super().__init__()
        self.new, self.inside, self.seen = new, False, list[Tensor]()

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self.inside or func not in SOFTMAX:
            return result
        self.seen.append(result)
        return result if self.new is None else self._shaped(result)

    def _shaped(self, own: Tensor) -> Tensor:
        """The new weights (B, T) in the form of the module's own: (B, T), (B, 1, T) or (B, T, 1), T padded."""
        assert self.new is not None
        size = max(own.shape[1:])
        padded = nn.functional.pad(self.new, (0, size - self.new.shape[1])).to(own)
        return padded.reshape(own.shape)


@dataclass
class PoolingNetwork:
    """A module with its pooling submodule, as the tail of a trace in this process: it is run again from the pooled vector on."""

    net: nn.Module
    pool: nn.Module
    texts: dict[int, tuple[_Collected, int]] = field(default_factory=dict)

    @property
    def model(self) -> nn.Module:
        """The whole module."""
        return self.net

    @property
    def fingerprint(self) -> str:
        """sha256 of the weights, as they were when it was first asked for."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        return self.current_fingerprint()

    def current_fingerprint(self) -> str:
        """sha256 of the weights as they are."""
        return weights_fingerprint(self.net)

    def add(self, start: int, part: _Collected) -> None:
        """Texts that rows are of, numbered from ``start``."""
        self.texts |= {start + row: (part, row) for row in range(len(part.batch.tokens))}

    def of_rows(self, table: pa.Table) -> _Rows:
        """The tail of the rows of a trace."""
        return _Rows(self, table.column("instance").to_numpy())

    def run(self, inputs: Any, weights: Tensor | None = None, pooled: Tensor | None = None) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Logits (B, C), the output of the pooling (B, …) and its softmaxes, with other ``weights`` or another ``pooled`` vector."""
        mode, outputs = _Weights(weights), list[Tensor]()

        def enters(module: nn.Module, args: Any) -> None:
            mode.inside = True

        def leaves(module: nn.Module, args: Any, output: Any) -> Any:
            mode.inside = False
            own = output[0] if isinstance(output, tuple) else output
            outputs.append(own)
            if pooled is None:
                return None
            new = pooled.reshape(own.shape).to(own)
            return (new, *output[1:]) if isinstance(output, tuple) else new

        handles = [self.pool.register_forward_pre_hook(enters), self.pool.register_forward_hook(leaves)]
        try:
            with torch.no_grad(), evaluating(self.net), mode:
                logits = self.net(**inputs) if isinstance(inputs, Mapping) else self.net(*inputs)
        finally:
            for handle in handles:
                handle.remove()
        return logits, outputs[0], mode.seen


@dataclass(frozen=True)
class _Rows:
    network: PoolingNetwork
    instance: Int64[np.ndarray, " n"]

    def __call__(self, pooled: Float[np.ndarray, "n P"], rows: Int64[np.ndarray, " n"]) -> Float[np.ndarray, "n C"]:
        found = []
        for vector, row in zip(pooled, rows, strict=True):
            part, number = self.network.texts[int(self.instance[row])]
            everything = part.pooled.reshape(len(part.pooled), -1).clone()
            everything[number] = torch.from_numpy(vector)
            found.append(self.network.run(part.batch.inputs, pooled=everything)[0][number].double().numpy())
        return np.stack(found)

    def together(self, pooled: Float[np.ndarray, "M P"], rows: Ragged) -> Float[np.ndarray, "m C"]:
        """A pooling has one row for each text."""
        return self(pooled, rows.values)


@dataclass(frozen=True)
class _Collected:
    """A batch with its own weights (B, T), logits (B, C), pooled vectors, and what each token gives alone to both, (T, B, …)."""

    batch: Batch
    alpha: Float[Tensor, "B T"]
    logits: Float[Tensor, "B C"]
    pooled: Tensor
    logits_of_token: Float[Tensor, "T B C"]
    pooled_of_token: Float[Tensor, "T B P"]
    affine: bool

    @classmethod
    def of(cls, network: PoolingNetwork, batch: Batch, where: str) -> _Collected:
        logits, pooled, seen = network.run(batch.inputs)
        lengths = [len(tokens) for tokens in batch.tokens]
        size = max(lengths, default=0)
        if len(seen) != 1:
            got = f"{len(seen)} softmaxes in {type(network.pool).__name__}"
            raise InputError(OPERATION, where, got, "one, of the weights over the tokens", "name the module that pools, not one around it")
        own = seen[0]
        if own.numel() != len(lengths) * max(own.shape[1:]) or max(own.shape[1:]) < size or logits.dim() != 2:
            got = f"weights {tuple(own.shape)} and logits {tuple(logits.shape)} for {len(lengths)} texts of up to {size} tokens"
            raise InputError(OPERATION, where, got, "a weight for every token of a text, and logits (B, C)")
        alpha = own.reshape(len(lengths), -1)
        outside = torch.arange(alpha.shape[1])[None] >= torch.tensor(lengths)[:, None]
        if (alpha * outside).max() > LINEAR:
            raise InputError(OPERATION, where, f"weight {(alpha * outside).max():.2g} behind the tokens", "none on padding", "mask it")
        alone = [network.run(batch.inputs, nn.functional.one_hot(torch.tensor([t] * len(lengths)), size).float()) for t in range(size)]
        part = cls(
            batch, alpha[:, :size], logits, pooled, torch.stack([one[0] for one in alone]),
            torch.stack([one[1].reshape(len(lengths), -1) for one in alone]), True,
        )  # fmt: skip
        return part._checked(network, where)

    def _checked(self, network: PoolingNetwork, where: str) -> _Collected:
        """Raise InputError where the pooling is no weighted sum; whether the logits are one is kept."""
        affine = True
        for drawn in self._drawn():
            logits, pooled, _ = network.run(self.batch.inputs, drawn)
            gap = _gap(torch.einsum("bt,tbp->bp", drawn, self.pooled_of_token), pooled.reshape(len(drawn), -1))
            if gap > LINEAR:
                got = f"an output that differs by {gap:.2g} from the weighted sum of what its tokens give"
                do = "such a module, as one that squares its weights, cannot be audited"
                raise InputError(OPERATION, f"{where}: {type(network.pool).__name__}", got, f"at most {LINEAR:g}", do)
            affine &= _gap(torch.einsum("bt,tbc->bc", drawn, self.logits_of_token), logits) <= LINEAR
        return _Collected(self.batch, self.alpha, self.logits, self.pooled, self.logits_of_token, self.pooled_of_token, affine)

    def _drawn(self) -> Iterator[Float[Tensor, "B T"]]:
        """The model's own weights, and random ones over the tokens of every text."""
        yield self.alpha
        random = torch.Generator().manual_seed(0)
        inside = torch.tensor([[t < len(tokens) for t in range(self.alpha.shape[1])] for tokens in self.batch.tokens])
        for _ in range(TRIALS):
            drawn = torch.rand(self.alpha.shape, generator=random) * inside
            yield drawn / drawn.sum(dim=1, keepdim=True)

    def trace(
        self, start: int, affine: bool, network: PoolingNetwork, class_names: Sequence[str] | None, metadata: dict[str, Any]
    ) -> Trace:  # fmt: skip
        """The rows of the batch, numbered from ``start``."""
        outputs, number = self.logits.shape[1], len(self.batch.tokens)
        names = class_names or [str(k) for k in range(max(outputs, 2))]
        given = self.logits_of_token if affine else self.pooled_of_token
        lengths = [len(tokens) for tokens in self.batch.tokens]
        logits = self.logits.double()
        model = {"name": type(network.net).__name__, **metadata.get("model", {}), "fingerprint": network.fingerprint}
        return Trace.from_arrays(
            activation="sigmoid" if outputs == 1 else "softmax", class_names=names, metadata={**metadata, "model": model},
            tail=None if affine else network, instance=np.arange(start, start + number), label=self.batch.label,
            tokens=[list(tokens) for tokens in self.batch.tokens], alpha=[self.alpha[k, :size].numpy() for k, size in enumerate(lengths)],
            readout=[given[:size, k].numpy() for k, size in enumerate(lengths)], offset=np.zeros((number, given.shape[2]), np.float32),
            prediction=(logits.sigmoid() if outputs == 1 else logits.softmax(dim=1)).numpy(),
        )  # fmt: skip


def _gap(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30))

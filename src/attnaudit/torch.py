"""The trace of any torch module with a pooling attention: weights over the tokens of a text, whose weighted sum the rest of it reads."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from attnaudit.hf.capture import PASSING, SOFTMAX
from attnaudit.hf.multihead import MULTIHEAD, run
from attnaudit.models.fingerprint import weights_fingerprint
from attnaudit.trace import Trace, concatenate
from attnaudit.training.loop import evaluating

OPERATION = "collect"
LINEAR = 1e-5  # of a sum over tokens of what each gives alone, relative to the largest number
READ_ELSEWHERE = 1e-4  # of the logits, that follow from the output alone, relative to the largest: rounding of what is above
TRIALS = 3
SUMS_TO_1 = 1e-4
SIGMOID = {torch.sigmoid, torch.sigmoid_, torch.special.expit, Tensor.sigmoid, Tensor.sigmoid_}  # functional.sigmoid calls one of them
PROBABILITIES: dict[Any, str] = {**dict.fromkeys(SIGMOID, "sigmoid"), **dict.fromkeys(SOFTMAX, "softmax")}
IN_FORM = PASSING | {
    torch.flatten, torch.reshape, torch.squeeze, torch.unsqueeze, Tensor.clone, Tensor.double, Tensor.flatten, Tensor.squeeze,
    Tensor.unsqueeze,
}  # fmt: skip  # functions that give the same numbers, or some of them


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
    The module returns logits (B, C); one column is the logit of class 1. A `torch.nn.MultiheadAttention` with one query for each text has a
    row for each of its heads, whose readout holds what the other heads give under their own weights.

    Where the logits themselves are such a sum, the trace stores what each token contributes to them, and an audit needs nothing else.
    Otherwise the trace keeps ``net`` as its tail, in this process. Raises InputError for a path that is no module, for a submodule with no
    softmax or several, for one whose output is no weighted sum, such as of squared weights, and for a module that returns probabilities.
    """
    pool = _submodule(net, attention)
    network = PoolingNetwork(net, pool)
    parts = []
    for number, given in enumerate(batches):
        parts.append(_Collected.of(network, _batch(given, f"batch {number}"), f"batch {number}"))
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


def _batch(given: Batch | tuple[Any, ...], where: str) -> Batch:
    """A batch whose parts fit each other. Raises InputError."""
    expected = "Batch(inputs, tokens), with labels where they are known, or a tuple of these"
    if isinstance(given, tuple) and 2 <= len(given) <= 3:
        given = Batch(*given)
    if not isinstance(given, Batch):
        got = f"a tuple of {len(given)}" if isinstance(given, tuple) else type(given).__name__
        raise InputError(OPERATION, where, got, expected)
    if not isinstance(given.inputs, tuple | list | Mapping):
        raise InputError(OPERATION, f"{where}: inputs", type(given.inputs).__name__, "the arguments of the module, as a tuple or by name")
    if any(isinstance(tokens, str) for tokens in given.tokens):
        raise InputError(OPERATION, f"{where}: tokens", "a text that is one string", "the tokens of each text, as a list", "split it")
    if len(given.tokens) == 0:
        raise InputError(OPERATION, f"{where}: tokens", "no text", "one text or more")
    if given.label is not None and len(given.label) != len(given.tokens):
        raise InputError(OPERATION, f"{where}: label", f"{len(given.label)} labels of {len(given.tokens)} texts", "one of each text")
    return given


def _check_logits(logits: Any, result_of: str, where: str) -> None:
    """Raise InputError for what is no tensor, for half precision, and for probabilities, which would pass for logits.

    ``result_of`` names the function that they are the result of, where it is one that gives probabilities.
    """
    if not isinstance(logits, Tensor):
        raise InputError(
            OPERATION, f"{where}: output", type(logits).__name__, "logits (B, C), a tensor", "wrap the module in one that returns them"
        )
    if logits.dtype not in (torch.float32, torch.float64):
        raise InputError(OPERATION, f"{where}: logits", str(logits.dtype), "float32 or float64", "net.float()")
    rows = logits.reshape(len(logits), -1)
    if rows.shape[1] > 1 and bool((rows >= 0).all()) and float((rows.sum(dim=1) - 1).abs().max()) < SUMS_TO_1:
        do = "collect from a module that returns what goes into the softmax"
        raise InputError(OPERATION, f"{where}: output", "numbers of at least 0 that sum to 1 for every text: probabilities", "logits", do)
    if result_of:
        do = f"collect from a module that returns what goes into the {result_of}"
        raise InputError(OPERATION, f"{where}: output", f"the result of a {result_of}: probabilities", "logits", do)


def _submodule(net: nn.Module, path: str) -> nn.Module:
    try:
        return net.get_submodule(path)
    except AttributeError as error:
        known = ", ".join(name for name, _ in net.named_modules() if name)
        raise InputError(OPERATION, f"attention {path!r}", "no such submodule", f"one of {known}") from error


class _Weights(TorchFunctionMode):
    """Sees the softmax of a module while it runs, and puts other weights in its place; knows which tensors are probabilities."""

    def __init__(self, new: Tensor | None) -> None:
        super().__init__()
        self.new, self.inside, self.seen = new, False, list[Tensor]()
        self._probabilities: dict[int, tuple[weakref.ref[Tensor], str]] = {}

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.inside and func is MULTIHEAD:
            result, own = run(func, args, kwargs or {}, self.new)
            self.seen.append(own)
            return result
        result = func(*args, **(kwargs or {}))
        self._note(func, args, result)
        if not self.inside or func not in SOFTMAX:
            return result
        self.seen.append(_of_one_head(result))
        return result if self.new is None else self._shaped(result)

    def gave(self, tensor: Any) -> str:
        """The function that a tensor of probabilities is the result of; empty for all other values."""
        alive, name = self._probabilities.get(id(tensor), (None, ""))
        return name if alive is not None and alive() is tensor else ""

    def _note(self, func: Callable[..., Any], args: Any, result: Any) -> None:
        """Know a result that is probabilities. One that another function gives is none; it may have changed them in place."""
        if isinstance(result, Tensor):
            name = PROBABILITIES.get(func) or (self.gave(args[0]) if func in IN_FORM and args else "")
            self._probabilities.pop(id(result), None)
            if name:
                self._probabilities[id(result)] = (weakref.ref(result), name)

    def _shaped(self, own: Tensor) -> Tensor:
        """The new weights (B, 1, T) in the form of the module's own: (B, T), (B, 1, T) or (B, T, 1), T padded."""
        assert self.new is not None
        size = max(own.shape[1:])
        padded = nn.functional.pad(self.new, (0, size - self.new.shape[2])).to(own)
        return padded.reshape(own.shape)


def _of_one_head(own: Tensor) -> Tensor:
    """Weights (B, 1, T) of a softmax over the tokens of a text; others as they are."""
    size = max(own.shape[1:], default=0)
    return own.reshape(len(own), 1, size) if own.dim() > 1 and own.numel() == len(own) * size else own


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

    def current_logits(self, table: pa.Table) -> Float[np.ndarray, "n C"]:
        """The logits of the rows' texts, by passes of the whole module as it is."""
        places = [self.texts[instance] for instance in table.column("instance").to_pylist()]
        return np.stack([self.run(part.batch.inputs)[0][number].double().numpy() for part, number in places])

    def add(self, start: int, part: _Collected) -> None:
        """Texts that rows are of, numbered from ``start``."""
        self.texts |= {start + row: (part, row) for row in range(len(part.batch.tokens))}

    def of_rows(self, table: pa.Table) -> _Rows:
        """The tail of the rows of a trace."""
        return _Rows(self, table.column("instance").to_numpy())

    def run(self, inputs: Any, weights: Tensor | None = None, pooled: Tensor | None = None) -> tuple[Any, Tensor, _Weights]:
        """Logits (B, C), the output of the pooling and what was seen, with other ``weights`` (B, H, T) or another ``pooled`` vector."""
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
        if not outputs:
            pool = type(self.pool).__name__
            raise InputError(OPERATION, f"attention: {pool}", f"not called by {type(self.net).__name__}", "a module that pools the tokens")
        return logits, outputs[0], mode


@dataclass(frozen=True)
class _Rows:
    network: PoolingNetwork
    instance: Int64[np.ndarray, " n"]

    def __call__(self, pooled: Float[np.ndarray, "n P"], rows: Int64[np.ndarray, " n"]) -> Float[np.ndarray, "n C"]:
        found = []
        for vector, row in zip(pooled, rows, strict=True):
            part, number = self.network.texts[int(self.instance[row])]
            everything = part.pooled.clone()
            everything[number] = torch.from_numpy(vector)
            found.append(self.network.run(part.batch.inputs, pooled=part.in_form(everything))[0][number].double().numpy())
        return np.stack(found)

    def together(self, pooled: Float[np.ndarray, "M P"], rows: Ragged) -> Float[np.ndarray, "m C"]:
        """The rows of a group are the heads of a text, each of whose sums holds the others': their changes add up."""
        first = rows.values[rows.offsets[:-1]]
        places = [self.network.texts[int(self.instance[row])] for row in first]
        own = np.stack([part.pooled[number].double().numpy() for part, number in places])
        return self(own + rows.with_values(pooled - rows.spread(own)).sum(), first)


@dataclass(frozen=True)
class _Collected:
    """A batch with its own weights, logits, pooled vectors (of ``form`` for a text), and what each token gives alone to both.

    A token gives that with all weight of a head on it, and the other heads' weights as they are.
    """

    batch: Batch
    alpha: Float[Tensor, "B H T"]
    logits: Float[Tensor, "B C"]
    pooled: Float[Tensor, "B P"]
    form: tuple[int, ...]
    logits_of_token: Float[Tensor, "H T B C"]
    pooled_of_token: Float[Tensor, "H T B P"]
    affine: bool

    def in_form(self, pooled: Float[Tensor, "B P"]) -> Tensor:
        """As the submodule returns it."""
        return pooled.reshape(self.form)

    @classmethod
    def of(cls, network: PoolingNetwork, batch: Batch, where: str) -> _Collected:
        logits, pooled, mode = network.run(batch.inputs)
        seen = mode.seen
        _check_logits(logits, mode.gave(logits), where)
        lengths = [len(tokens) for tokens in batch.tokens]
        size = max(lengths, default=0)
        if len(seen) != 1:
            got = f"{len(seen)} softmaxes in {type(network.pool).__name__}"
            raise InputError(OPERATION, where, got, "one, of the weights over the tokens", "name the module that pools, not one around it")
        own = seen[0]
        if own.dim() != 3 or len(own) != len(lengths) or own.shape[2] < size or logits.dim() != 2:
            got = f"weights {tuple(own.shape)} and logits {tuple(logits.shape)} for {len(lengths)} texts of up to {size} tokens"
            raise InputError(OPERATION, where, got, "a weight for every token of a text, and logits (B, C)")
        behind = float((own * (torch.arange(own.shape[2]) >= torch.tensor(lengths)[:, None, None])).max())
        if behind > LINEAR:
            raise InputError(OPERATION, where, f"weight {behind:.2g} behind the tokens", "none on padding", "mask it")
        alpha = own[:, :, :size]
        alone = [[network.run(batch.inputs, _on_one(alpha, head, t)) for t in range(size)] for head in range(alpha.shape[1])]
        logits_alone, pooled_alone = (
            torch.stack([torch.stack([one.reshape(len(lengths), -1) for one in ones]) for ones in of_heads])
            for of_heads in ([[one[0] for one in ones] for ones in alone], [[one[1] for one in ones] for ones in alone])
        )
        part = cls(batch, alpha, logits, pooled.reshape(len(lengths), -1), tuple(pooled.shape), logits_alone, pooled_alone, True)
        return part._checked(network, where)

    def _checked(self, network: PoolingNetwork, where: str) -> _Collected:
        """Raise InputError where the pooling is no weighted sum; whether the logits are one is kept."""
        affine = True
        for drawn in self._drawn():
            logits, pooled, _ = network.run(self.batch.inputs, drawn)
            expected = self._sum(drawn, self.pooled_of_token, self.pooled)
            gap = _gap(expected, pooled.reshape(len(drawn), -1))
            if gap > LINEAR:
                got = f"an output that differs by {gap:.2g} from the weighted sum of what its tokens give"
                do = "such a module, as one that squares its weights, cannot be audited"
                raise InputError(OPERATION, f"{where}: {type(network.pool).__name__}", got, f"at most {LINEAR:g}", do)
            elsewhere = _gap(network.run(self.batch.inputs, pooled=self.in_form(expected))[0], logits)
            if elsewhere > READ_ELSEWHERE:
                got = f"logits that differ by {elsewhere:.2g} from those that follow from its output"
                do = "a module whose weights are read elsewhere too cannot be audited"
                raise InputError(OPERATION, f"{where}: {type(network.pool).__name__}", got, f"at most {READ_ELSEWHERE:g}", do)
            affine &= _gap(self._sum(drawn, self.logits_of_token, self.logits), logits) <= LINEAR
        self._check_apart(network, where)
        return replace(self, affine=affine)

    def _check_apart(self, network: PoolingNetwork, where: str) -> None:
        """Raise InputError where other weights of the longest text change the logits of the other texts."""
        longest = int(np.argmax([len(tokens) for tokens in self.batch.tokens]))
        _, drawn, *_ = self._drawn()
        weights, others = self.alpha.clone(), torch.arange(len(self.alpha)) != longest
        weights[longest] = drawn[longest]
        gap = _gap(network.run(self.batch.inputs, weights)[0][others], self.logits[others]) if others.any() else 0.0
        if gap > READ_ELSEWHERE:
            got = f"logits of a text that differ by {gap:.2g} under other attention of another text"
            do = "a module that normalises over a batch cannot be audited"
            raise InputError(OPERATION, where, got, "texts that do not influence each other", do)

    def _sum(self, alpha: Float[Tensor, "B H T"], of_token: Float[Tensor, "H T B p"], own: Float[Tensor, "B p"]) -> Float[Tensor, "B p"]:
        """What is given under ``alpha``: what is the model's ``own``, and by how much each head changes it."""
        return own + (torch.einsum("bht,htbp->bhp", alpha, of_token) - own[:, None]).sum(dim=1)

    def _drawn(self) -> Iterator[Float[Tensor, "B H T"]]:
        """The model's own weights, and random ones over the tokens of every text."""
        yield self.alpha
        random = torch.Generator().manual_seed(0)
        inside = torch.tensor([[t < len(tokens) for t in range(self.alpha.shape[2])] for tokens in self.batch.tokens])
        for _ in range(TRIALS):
            drawn = torch.rand(self.alpha.shape, generator=random).to(self.alpha) * inside[:, None]
            yield drawn / drawn.sum(dim=2, keepdim=True)

    def trace(
        self, start: int, affine: bool, network: PoolingNetwork, class_names: Sequence[str] | None, metadata: dict[str, Any]
    ) -> Trace:  # fmt: skip
        """The rows of the batch, its texts numbered from ``start``; of several heads one for each."""
        outputs, heads = self.logits.shape[1], self.alpha.shape[1]
        names = class_names or [str(k) for k in range(max(outputs, 2))]
        given = self.logits_of_token if affine else self.pooled_of_token
        rows = [(text, head, len(tokens)) for text, tokens in enumerate(self.batch.tokens) for head in range(heads)]
        text, head = (np.array([row[k] for row in rows], np.int32) for k in (0, 1))
        logits = self.logits.double()
        prediction = (logits.sigmoid() if outputs == 1 else logits.softmax(dim=1)).numpy()
        model = {"name": type(network.net).__name__, **metadata.get("model", {}), "fingerprint": network.fingerprint}
        places = {} if heads == 1 else {"layer": np.zeros(len(rows), np.int32), "head": head}
        return Trace.from_arrays(
            activation="sigmoid" if outputs == 1 else "softmax", class_names=names, metadata={**metadata, "model": model},
            tail=None if affine else network, instance=start + text.astype(np.int64),
            label=None if self.batch.label is None else [self.batch.label[k] for k in text],
            tokens=[list(self.batch.tokens[k]) for k in text], alpha=[self.alpha[k, h, :size].numpy() for k, h, size in rows],
            readout=[given[h, :size, k].numpy() for k, h, size in rows], offset=np.zeros((len(rows), given.shape[3]), np.float32),
            prediction=prediction[text], **places,
        )  # fmt: skip


def _on_one(alpha: Float[Tensor, "B H T"], head: int, token: int) -> Float[Tensor, "B H T"]:
    """The weights with all of one head's on a token."""
    made = alpha.clone()
    made[:, head] = 0.0
    made[:, head, token] = 1.0
    return made


def _gap(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30))

"""The trace of any torch module with a pooling attention: weights over the tokens of a text, whose weighted sum the rest of it reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnaudit.core.errors import InputError
from attnaudit.hf.pooling import OPERATION, PoolingNetwork, Ran
from attnaudit.trace import Trace, concatenate

PRECISE = (torch.float32, torch.float64)
LINEAR = 1e-5  # difference from the weighted sum of what the tokens give, relative to the largest of these
READ_ELSEWHERE = 1e-4  # difference of the logits from those that follow from the output alone, relative as well: rounding of what is above
TRIALS = 3
SUMS_TO_1 = 1e-4


@dataclass(frozen=True)
class Batch:
    """B texts: the arguments of the module (a tuple, or a mapping by name), the tokens of each, and their labels where they are known."""

    inputs: Any
    tokens: Sequence[Sequence[str]]
    label: Sequence[int | None] | None = None


def collect(
    net: nn.Module, batches: Batch | Iterable[Batch | tuple[Any, ...]], *, attention: str, class_names: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Trace:  # fmt: skip
    """The trace of ``net``, a classifier of texts, whose submodule at the path ``attention`` pools the tokens of each text.

    ``batches`` are `Batch` or tuples of its fields; one `Batch` may stand alone. The submodule computes one softmax over the tokens of each
    text; its output is the weighted sum of what the tokens give. That it is this and nothing else is checked: with all weight on one token
    at a time the submodule gives what each token contributes, and the weighted sum of these must be what it gives under the model's own and
    under random weights. The module returns logits (B, C); one column is the logit of class 1. A `torch.nn.MultiheadAttention` with one
    query for each text has a row for each of its heads, whose readout holds what the other heads give under their own weights.

    Where the logits themselves are such a sum, the trace stores what each token contributes to them, and an audit needs nothing else.
    Otherwise the trace keeps ``net`` as its tail, in this process. Raises InputError for a path that is no module, for a submodule with no
    softmax or several, for one whose output is no weighted sum, such as of squared weights, for weights that may be those of queries, as
    a self-attention's are, and for a module that returns probabilities by a function of torch, such as a sigmoid.
    """
    pool = _submodule(net, attention)
    network = PoolingNetwork(net, pool)
    parts: list[_Collected] = []
    for number, given in enumerate([batches] if isinstance(batches, Batch) else batches):
        part = _Collected.of(network, _batch(given, f"batch {number}"), f"batch {number}")
        parts.append(part)
        outputs, known = part.logits.shape[1], parts[0].logits.shape[1]
        if outputs != known:
            raise InputError(
                OPERATION,
                f"batch {number}: output",
                f"logits of {outputs} classes",
                f"of {known}, as in batch 0",
            )
    if not parts:
        raise InputError(OPERATION, "batches", "none", "one batch or more")
    _check_heads(parts)
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
        raise InputError(
            OPERATION,
            f"{where}: inputs",
            type(given.inputs).__name__,
            "the arguments of the module, as a tuple or by name",
        )
    if isinstance(given.tokens, str) or not isinstance(given.tokens, Iterable):
        raise InputError(
            OPERATION,
            f"{where}: tokens",
            type(given.tokens).__name__,
            "the tokens of each text, as a list of lists",
        )
    texts = list(given.tokens)
    if any(isinstance(tokens, str) for tokens in texts):
        raise InputError(
            OPERATION,
            f"{where}: tokens",
            "a text that is one string",
            "the tokens of each text, as a list",
            "split it",
        )
    if not texts:
        raise InputError(OPERATION, f"{where}: tokens", "no text", "one text or more")
    empty = next((row for row, tokens in enumerate(texts) if len(tokens) == 0), None)
    if empty is not None:
        raise InputError(
            OPERATION,
            f"{where}: tokens",
            f"no token in text {empty}",
            "one token or more of each text",
            "drop such texts",
        )
    return Batch(
        given.inputs,
        texts,
        None if given.label is None else _labels(given.label, len(texts), where),
    )


def _labels(given: Sequence[Any], texts: int, where: str) -> list[int | None]:
    """A label of each text, None where it is not known. Raises InputError."""
    if len(given) != texts:
        raise InputError(
            OPERATION,
            f"{where}: label",
            f"{len(given)} labels of {texts} texts",
            "one of each text",
        )
    for row, label in enumerate(given):
        try:
            whole = label is None or float(label).is_integer()
        except (TypeError, ValueError):
            whole = False
        if not whole:
            expected = "the number of a class, from 0, or None where it is not known"
            raise InputError(OPERATION, f"{where}: label", f"{label!r} of text {row}", expected)
    return [None if label is None else int(label) for label in given]


def _check_logits(logits: Any, result_of: str, texts: int, where: str) -> None:
    """Raise InputError for what is no tensor (B, C), for half precision, and for probabilities, which would pass for logits.

    ``result_of`` names the function that they are the result of, where it is one that gives probabilities.
    """
    if not isinstance(logits, Tensor):
        raise InputError(
            OPERATION,
            f"{where}: output",
            type(logits).__name__,
            "logits (B, C), a tensor",
            "wrap the module in one that returns them",
        )
    if logits.dtype not in PRECISE:
        raise InputError(
            OPERATION, f"{where}: logits", str(logits.dtype), "float32 or float64", "net.float()"
        )
    sums = logits.sum(dim=1) if logits.dim() == 2 and logits.shape[1] > 1 else torch.zeros(1)
    if bool((logits >= 0).all()) and float((sums - 1).abs().max()) < SUMS_TO_1:
        do = "collect from a module that returns what goes into the softmax"
        raise InputError(
            OPERATION,
            f"{where}: output",
            "numbers of at least 0 that sum to 1 for every text: probabilities",
            "logits",
            do,
        )
    if result_of.startswith("log"):  # of several columns logarithms are logits
        if logits.dim() == 2 and logits.shape[1] == 1:
            got, do = (
                f"one column, the result of a {result_of}: a log-probability",
                "collect from a module that returns the logit",
            )
            raise InputError(OPERATION, f"{where}: output", got, "the logit of class 1", do)
    elif result_of:
        do = f"collect from a module that returns what goes into the {result_of}"
        raise InputError(
            OPERATION,
            f"{where}: output",
            f"the result of a {result_of}: probabilities",
            "logits",
            do,
        )
    if not bool((logits < torch.inf).all()):
        raise InputError(
            OPERATION,
            f"{where}: output",
            "NaN or an infinite logit",
            "numbers; -inf alone may stand for a masked class",
        )
    if logits.dim() != 2 or len(logits) != texts:
        got = f"a tensor {tuple(logits.shape)} for {texts} texts"
        raise InputError(OPERATION, f"{where}: output", got, "logits (B, C), a row for each text")


def _check_heads(parts: Sequence[_Collected]) -> None:
    """Raise InputError where the weights may be a self-attention's, which has a row of weights for each token and not for each head."""
    heads = [part.alpha.shape[1] for part in parts]
    do = "audit a module that pools each text by one query"
    if len(set(heads)) > 1:
        other = next(number for number, some in enumerate(heads) if some != heads[0])
        got = f"{heads[other]} rows of weights for each text, {heads[0]} in batch 0"
        raise InputError(
            OPERATION, f"batch {other}", got, "a row for each head, as many in every batch", do
        )
    if heads[0] > 1 and not parts[0].of_heads and {part.width for part in parts} == {heads[0]}:
        got = f"as many rows of weights as tokens, {heads[0]}, in every batch: they may be those of queries, and not of heads"
        raise InputError(
            OPERATION,
            "weights",
            got,
            "a row for each head",
            f"add a batch of longer texts, or {do}",
        )


def _submodule(net: nn.Module, path: str) -> nn.Module:
    try:
        return net.get_submodule(path)
    except AttributeError as error:
        known = ", ".join(name for name, _ in net.named_modules() if name)
        raise InputError(
            OPERATION, f"attention {path!r}", "no such submodule", f"one of {known}"
        ) from error


@dataclass(frozen=True)
class _Collected:
    """A batch with its own weights, logits, pooled vectors (of ``form`` for a text), and what each token gives alone to both.

    A token gives that with all weight of a head on it, and the other heads' weights as they are; padding gives nothing. ``width`` counts
    the positions of the module's own weights, padding included; ``of_heads`` is that of `Ran`.
    """

    batch: Batch
    alpha: Float[Tensor, "B H T"]
    logits: Float[Tensor, "B C"]
    pooled: Float[Tensor, "B P"]
    form: tuple[int, ...]
    logits_of_token: Float[Tensor, "H T B C"]
    pooled_of_token: Float[Tensor, "H T B P"]
    affine: bool
    of_heads: bool
    width: int

    @property
    def inputs(self) -> Any:
        """The arguments of the module."""
        return self.batch.inputs

    def in_form(self, pooled: Float[Tensor, "B P"]) -> Tensor:
        """As the submodule returns it."""
        return pooled.reshape(self.form)

    @classmethod
    def of(cls, network: PoolingNetwork, batch: Batch, where: str) -> _Collected:
        ran, lengths = (
            network.run(batch.inputs),
            torch.tensor([len(tokens) for tokens in batch.tokens]),
        )
        _check_logits(ran.output, ran.result_of, len(lengths), where)
        size = int(lengths.max())
        own = _weights_of(ran, network, lengths, where)
        alpha = own[:, :, :size]
        alone = [
            [network.run(batch.inputs, _on_one(alpha, head, t)) for t in range(size)]
            for head in range(alpha.shape[1])
        ]
        inside = (torch.arange(size)[:, None] < lengths)[..., None]
        logits_alone, pooled_alone = (
            torch.where(
                inside,
                torch.stack(
                    [
                        torch.stack([one.reshape(len(lengths), -1) for one in ones])
                        for ones in of_heads
                    ]
                ),
                0.0,
            )
            for of_heads in (
                [[one.output for one in ones] for ones in alone],
                [[one.pooled for one in ones] for ones in alone],
            )
        )
        pooled = ran.pooled.reshape(len(lengths), -1)
        form, width = tuple(ran.pooled.shape), own.shape[2]
        found = cls(
            batch,
            alpha,
            ran.output,
            pooled,
            form,
            logits_alone,
            pooled_alone,
            True,
            ran.of_heads,
            width,
        )
        return found._checked(network, where)

    def _checked(self, network: PoolingNetwork, where: str) -> _Collected:
        """Raise InputError where the pooling is no weighted sum; whether the logits are one is kept."""
        affine, name = (
            bool(self.logits_of_token.isfinite().all()),
            f"{where}: {type(network.pool).__name__}",
        )
        scale, of_logits = _scale_of_pooled(self.pooled_of_token), self._scale_of_logits
        for drawn in self._drawn():
            ran = network.run(self.batch.inputs, drawn)
            expected = self._sum(drawn, self.pooled_of_token, self.pooled)
            gap = _gap(expected, ran.pooled.reshape(len(drawn), -1), scale)
            if gap > LINEAR:
                got = f"an output that differs by {gap:.2g} from the weighted sum of what its tokens give"
                do = "such a module, as one that squares its weights, cannot be audited"
                raise InputError(OPERATION, name, got, f"at most {LINEAR:g}", do)
            elsewhere = _gap(
                network.run(self.batch.inputs, pooled=self.in_form(expected)).output,
                ran.output,
                of_logits,
            )
            if elsewhere > READ_ELSEWHERE:
                got = (
                    f"logits that differ by {elsewhere:.2g} from those that follow from its output"
                )
                do = "a module whose weights are read elsewhere too cannot be audited"
                raise InputError(OPERATION, name, got, f"at most {READ_ELSEWHERE:g}", do)
            affine = (
                affine
                and _gap(self._sum(drawn, self.logits_of_token, self.logits), ran.output, of_logits)
                <= LINEAR
            )
        self._check_apart(network, where)
        return replace(self, affine=affine)

    def _check_apart(self, network: PoolingNetwork, where: str) -> None:
        """Raise InputError where other weights of the longest text change the logits of the other texts."""
        longest = int(np.argmax([len(tokens) for tokens in self.batch.tokens]))
        _, drawn, *_ = self._drawn()
        weights, others = self.alpha.clone(), torch.arange(len(self.alpha)) != longest
        weights[longest] = drawn[longest]
        changed = network.run(self.batch.inputs, weights).output[others]
        gap = _gap(changed, self.logits[others], self._scale_of_logits[others])
        if gap > READ_ELSEWHERE:
            got = f"logits of a text that differ by {gap:.2g} under other attention of another text"
            do = "a module that normalises over a batch cannot be audited"
            raise InputError(OPERATION, where, got, "texts that do not influence each other", do)

    @property
    def _scale_of_logits(self) -> Float[Tensor, "B C"]:
        """Of every text and class the largest logit of a token, at least 1: less than that of a logit changes no probability by more."""
        return _largest(self.logits_of_token).clamp(min=1.0)

    def _sum(
        self,
        alpha: Float[Tensor, "B H T"],
        of_token: Float[Tensor, "H T B p"],
        own: Float[Tensor, "B p"],
    ) -> Float[Tensor, "B p"]:
        """What is given under ``alpha``: what is the model's ``own``, and by how much each head changes it."""
        return own + (
            torch.einsum("bht,htbp->bhp", alpha.to(of_token), of_token) - own[:, None]
        ).sum(dim=1)

    def _drawn(self) -> Iterator[Float[Tensor, "B H T"]]:
        """The model's own weights, and random ones over the tokens of every text."""
        yield self.alpha
        random = torch.Generator().manual_seed(0)
        inside = torch.tensor(
            [[t < len(tokens) for t in range(self.alpha.shape[2])] for tokens in self.batch.tokens]
        )
        for _ in range(TRIALS):
            drawn = torch.rand(self.alpha.shape, generator=random).to(self.alpha) * inside[:, None]
            yield drawn / drawn.sum(dim=2, keepdim=True)

    def trace(
        self, start: int, affine: bool, network: PoolingNetwork, class_names: Sequence[str] | None, metadata: dict[str, Any]
    ) -> Trace:  # fmt: skip
        """The rows of the batch, its texts numbered from ``start``; of several heads one for each."""
        outputs, heads = self.logits.shape[1], self.alpha.shape[1]
        names = (
            [str(k) for k in range(max(outputs, 2))] if class_names is None else list(class_names)
        )
        given = self.logits_of_token if affine else self.pooled_of_token
        rows = [
            (text, head, len(tokens))
            for text, tokens in enumerate(self.batch.tokens)
            for head in range(heads)
        ]
        text, head = (np.array([row[k] for row in rows], np.int32) for k in (0, 1))
        logits = self.logits.double()
        prediction = (logits.sigmoid() if outputs == 1 else logits.softmax(dim=1)).numpy()
        known = metadata.get("model", {})
        known = known if isinstance(known, Mapping) else {"name": str(known)}
        model = {"name": type(network.net).__name__, **known, "fingerprint": network.fingerprint}
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


def _weights_of(
    ran: Ran, network: PoolingNetwork, lengths: Tensor, where: str
) -> Float[Tensor, "B H T"]:
    """The weights of the one softmax in the submodule, none of it behind the tokens of a text. Raises InputError."""
    if len(ran.weights) != 1:
        got = f"{len(ran.weights)} softmaxes in {type(network.pool).__name__}"
        do = (
            "name the module that pools, not one around it"
            if ran.weights
            else "name the module that pools, and write its weights by softmax"
        )
        raise InputError(OPERATION, where, got, "one, of the weights over the tokens", do)
    (own,) = ran.weights
    size = int(lengths.max())
    if own.dim() != 3 or len(own) != len(lengths) or own.shape[2] < size:
        got = f"weights {tuple(own.shape)} for {len(lengths)} texts of up to {size} tokens"
        raise InputError(OPERATION, where, got, "a weight for every token of a text")
    for name, given in (("weights", own), ("pooled vectors", ran.pooled)):
        if given.dtype not in PRECISE:
            raise InputError(
                OPERATION,
                f"{where}: {name}",
                str(given.dtype),
                "float32 or float64",
                "net.float(), without autocast",
            )
    behind = float((own * (torch.arange(own.shape[2]) >= lengths[:, None, None])).max())
    if behind > LINEAR:
        raise InputError(
            OPERATION, where, f"weight {behind:.2g} behind the tokens", "none on padding", "mask it"
        )
    return own


def _largest(of_token: Float[Tensor, "H T B p"]) -> Float[Tensor, "B p"]:
    """The largest finite number that a token gives a text, in each column."""
    return torch.where(of_token.isfinite(), of_token.abs(), 0.0).amax(dim=(0, 1))


def _scale_of_pooled(of_token: Float[Tensor, "H T B P"]) -> Float[Tensor, "B P"]:
    """Of every text and column the largest number of a token, at least that of half the columns: one may vanish by cancellation."""
    largest = _largest(of_token)
    return torch.maximum(largest, largest.median(dim=1, keepdim=True).values).clamp(min=1e-30)


def _gap(
    found: Float[Tensor, "B p"], expected: Float[Tensor, "B p"], scale: Float[Tensor, "B p"]
) -> float:
    """The largest difference, relative to ``scale``: infinite for NaN, and where one of two is infinite; equal infinities are alike."""
    gap = torch.where(found == expected, 0.0, (found - expected).abs() / scale)
    return float(gap.nan_to_num(nan=torch.inf, posinf=torch.inf).max()) if gap.numel() else 0.0

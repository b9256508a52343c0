"""The trace of any torch module with a pooling attention.

The module weights the tokens of each text and reads on from their weighted sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from attnaudit.core import InputError, count
from attnaudit.core.given import is_whole, known, listed, named_outputs, plain_metadata, whole
from attnaudit.models.classifier import probabilities
from attnaudit.stats.measures import Activation
from attnaudit.torch.arguments import TokenArguments, named
from attnaudit.torch.importance import measure_importance
from attnaudit.torch.pooling import LINEAR, OPERATION, PoolingNetwork, Ran, inside
from attnaudit.trace import Trace, concatenate
from attnaudit.tracing.replacement import Donors, Predicted, TextReplacement
from attnaudit.tracing.settings import ReplacementSettings

PRECISE = (torch.float32, torch.float64)
# Difference of logits, relative as well: rounding of what is above the pooling adds to it.
READ_ELSEWHERE = 1e-4
TRIALS = 3
SUMS_TO_1 = 1e-4


@dataclass(frozen=True)
class CollectOptions:
    """Further options of `collect`.

    Attributes:
        metadata: Entries to add to the trace's metadata.
        replacement: Settings of the copies of texts with words replaced; None for no copies.
    """

    metadata: Mapping[str, Any] = field(default_factory=dict)
    replacement: ReplacementSettings | None = field(default_factory=ReplacementSettings)


@dataclass(frozen=True)
class Batch:
    """B texts.

    Attributes:
        inputs: Arguments of the module, a tuple or a mapping by name.
        tokens: Tokens of each text.
        label: Class of each text, None if it is unknown.
    """

    inputs: Any
    tokens: Sequence[Sequence[str]]
    label: Sequence[int | None] | None = None

    @property
    def lengths(self) -> Int64[Tensor, " B"]:
        """Number of tokens of each text."""
        return torch.tensor([len(text) for text in self.tokens])


def collect(
    net: nn.Module,
    batches: Batch | Iterable[Batch | tuple[Any, ...]],
    *,
    attention: str | nn.Module,
    output: str | int | None = None,
    activation: Activation | None = None,
    class_names: Sequence[str] | None = None,
    name: str = "",
    **options: Any,
) -> Trace:
    """Collect the trace of a classifier whose submodule pools the tokens of each text.

    The submodule computes one softmax over the tokens of each text; its output is the weighted sum
    of what the tokens give. This is checked: with all weight on one token at a time the submodule
    shows what each token contributes, and the weighted sum of these must be its output under the
    model's own and under random weights. A `torch.nn.MultiheadAttention` with one query for each
    text has a row for each of its heads, whose readout holds what the other heads give under their
    own weights. If ``forward`` of ``net`` pools by itself, the attention is ``net``.

    If the logits themselves are such a sum, the trace stores what each token contributes to them,
    and an audit needs nothing else. Otherwise the trace keeps ``net`` as its tail, in this process.

    The columns ``gradient``, ``loo`` and ``replaced`` need arguments that say what the tokens are,
    such as ids or word vectors. If one of them is left out, a note in the metadata says why.

    Args:
        net: The module. It returns logits (B, C); a single column is the logit of class 1.
        batches: A `Batch`, or several, or tuples of its fields.
        attention: The submodule, or its path.
        output: Name or position of the logits, if ``net`` returns a mapping or several things.
        activation: ``sigmoid`` if each of C outputs is a label of its own. By default, one output
            is a sigmoid and several are a softmax.
        class_names: Names of the classes.
        name: Name of the model in reports; by default that of its class.
        **options: Fields of `CollectOptions`.

    Raises:
        InputError: The submodule is unknown, has no softmax or several, its output is no weighted
            sum, its weights may be those of queries as in a self-attention, or the module returns
            probabilities.
    """
    chosen = CollectOptions(**options)
    given_metadata = plain_metadata(OPERATION, chosen.metadata)
    if output is not None and not isinstance(output, str):
        output = whole(OPERATION, "output", output)
    network = PoolingNetwork(net, _submodule(net, attention), output)
    parts: list[_Collected] = []
    for number, given in enumerate([batches] if isinstance(batches, Batch) else batches):
        where = f"batch {number}"
        parts.append(_collected(network, _batch(given, where), where))
        outputs, known = (part.ran.output.shape[1] for part in (parts[-1], parts[0]))
        if outputs != known:
            got = f"logits of {outputs} classes"
            raise _error(f"{where}: output", got, f"of {known}, as in batch 0")
    if not parts:
        raise _error("batches", "none", "one batch or more")
    _check_heads(parts)
    if activation not in (None, "softmax", "sigmoid"):
        raise _error("activation", repr(activation), "softmax or sigmoid", "leave activation= out")
    if activation == "softmax" and outputs == 1:
        raise _error("activation", "softmax of one output", "sigmoid, or a logit for each class")
    activation = activation or ("sigmoid" if outputs == 1 else "softmax")
    classes = max(outputs, 2)
    names = [str(k) for k in range(classes)]
    if class_names is not None:
        names = named_outputs(OPERATION, "class_names", class_names, classes)
    tail = None if all(part.affine for part in parts) else network
    arguments = TokenArguments.of(net, [part.batch for part in parts])
    columns, notes = measure_importance(network, parts, arguments, activation)
    if masked := sum(part.masked for part in parts):
        notes = [*notes, f"{count(masked, 'token')} that the module masks, as padding, left out"]
    metadata = _metadata(network, name, given_metadata, notes)
    copied, wanted = None, chosen.replacement
    # Copies are judged by a single decision, which independent probabilities do not make.
    if wanted and wanted.texts and arguments.tables and (activation == "softmax" or outputs == 1):
        copied = TokenReplacement.of(network, arguments, wanted, outputs)
    traces, start = [], 0
    for part, scores in zip(parts, columns, strict=True):
        rows = range(len(part.batch.tokens))
        network.texts |= {start + row: (part, row) for row in rows}
        replaced = copied.columns(start + np.arange(len(rows))) if copied else {}
        settings = {"activation": activation, "metadata": metadata, "tail": tail}
        settings["class_names"] = names
        traces.append(part.trace(start, settings, scores, replaced))
        start += len(rows)
    return concatenate(traces)


def _submodule(net: nn.Module, attention: str | nn.Module) -> nn.Module:
    """Return the submodule that is, or has the path, ``attention``."""
    modules = dict(net.named_modules())
    for path, module in modules.items():
        if attention is module or attention == path:
            return module
    known = ", ".join(filter(None, modules))
    got = repr(attention) if isinstance(attention, str) else type(attention).__name__
    do = "if the attention is inlined in forward, give the network itself"
    raise _error(f"attention {got}", "no such submodule", f"one of {known}", do)


def _metadata(
    network: PoolingNetwork, name: str, given: Mapping[str, Any], notes: Sequence[str]
) -> dict[str, Any]:
    """Return the metadata of the trace, with the name of the model and its notes."""
    model, known = given.get("model", {}), given.get("notes", [])
    model = dict(model) if isinstance(model, Mapping) else {"name": str(model)}
    model["name"] = name or model.get("name") or type(network.net).__name__
    model["fingerprint"] = network.fingerprint
    every = [*([known] if isinstance(known, str) else known), *notes]
    return {**given, "model": model, **({"notes": every} if every else {})}


def _error(where: str, got: str, expected: str, do: str = "") -> InputError:
    return InputError(OPERATION, where, got, expected, do)


def _batch(given: Any, where: str) -> Batch:
    """Return a batch whose parts fit each other."""
    if isinstance(given, tuple) and 2 <= len(given) <= 3:
        given = Batch(*given)
    if not isinstance(given, Batch):
        expected = "Batch(inputs, tokens), with labels where they are known, or a tuple of these"
        raise _error(where, f"{given!r:.60}", expected)
    if not isinstance(given.inputs, tuple | list | Mapping):
        expected = "the arguments of the module, as a tuple or by name"
        raise _error(f"{where}: inputs", type(given.inputs).__name__, expected)
    texts = listed(given.tokens)
    if not texts or not all(isinstance(text, list | tuple) and text for text in texts):
        expected = "one token or more of each text, in lists"
        raise _error(f"{where}: tokens", f"{texts!r:.60}", expected)
    label = listed(given.label)
    if given.label is not None and (label is None or len(label) != len(texts)):
        number = type(given.label).__name__ if label is None else f"{len(label)} labels"
        got = f"{number} of {len(texts)} texts"
        raise _error(f"{where}: label", got, "one of each text")
    return Batch(given.inputs, texts, label and [_label(known(one), where) for one in label])


def _label(given: Any, where: str) -> int | None:
    if given is None:
        return None
    if is_whole(given):
        return int(given)
    expected = "the number of a class, from 0, or None where it is not known"
    raise _error(f"{where}: label", repr(given), expected)


def _check_logits(ran: Ran, texts: int, where: str) -> None:
    """Refuse an output that is no tensor (B, C), half precision, and probabilities."""
    logits, expected, do = ran.output, "logits (B, C), a row for each text", ""
    if not isinstance(logits, Tensor):
        got, do = type(logits).__name__, "name them by output="
    elif logits.dtype not in PRECISE:
        got, expected, do = str(logits.dtype), "float32 or float64", "net.float()"
    elif logits.dim() != 2 or len(logits) != texts:
        got = f"a tensor {tuple(logits.shape)} for {texts} texts"
    elif not bool((logits < torch.inf).all()):
        got = "NaN or an infinite logit"
        expected = "numbers; -inf alone may stand for a masked class"
    elif ran.result_of or (
        logits.shape[1] > 1
        and bool((logits >= 0).all())
        and float((logits.sum(dim=1) - 1).abs().max()) < SUMS_TO_1
    ):
        function = ran.result_of or "softmax"
        got = f"probabilities, as of a {function}"
        do = f"collect from a module that returns what goes into the {function}"
    else:
        return
    raise _error(f"{where}: output", got, expected, do)


def _check_heads(parts: Sequence[_Collected]) -> None:
    """Refuse a self-attention, which has a row of weights for each token and not for each head."""
    heads = [part.alpha.shape[1] for part in parts]
    other = next((number for number, own in enumerate(heads) if own != heads[0]), 0)
    widths = {part.ran.weights[0].shape[2] for part in parts}
    if other or (heads[0] > 1 and not parts[0].ran.of_heads and widths == {heads[0]}):
        got = f"{heads[other]} rows of weights for each text, {heads[0]} in batch 0"
        if not other:
            got = f"as many rows of weights as tokens, {heads[0]}: they may be those of queries"
        do = "audit a module that pools each text by one query, or add a batch of longer texts"
        raise _error(f"batch {other}: weights", got, "a row for each head", do)


@dataclass(frozen=True)
class _Collected:
    """A batch with what each token gives when it has all weight of a head; padding gives nothing.

    The other heads' weights are then as they are. ``affine`` says whether logits are a weighted
    sum, ``masked`` how many masked tokens were left out.
    """

    batch: Batch
    ran: Ran
    alpha: Float[Tensor, "B H T"]
    pooled: Float[Tensor, "B P"]
    logits_of_token: Float[Tensor, "H T B C"]
    pooled_of_token: Float[Tensor, "H T B P"]
    affine: bool = True
    masked: int = 0

    def checked(self, network: PoolingNetwork, where: str) -> _Collected:
        """Refuse a pooling that is no weighted sum, and find whether the logits are one."""
        inputs, name = self.batch.inputs, f"{where}: {type(network.pool).__name__}"
        affine = bool(self.logits_of_token.isfinite().all())
        # Columns of pooled vectors may vanish by cancellation; then the median column counts.
        largest = _largest(self.pooled_of_token)
        scale = torch.maximum(largest, largest.median(dim=1, keepdim=True).values).clamp(min=1e-30)
        # A difference of logits below 1 changes no probability by more.
        of_logits = _largest(self.logits_of_token).clamp(min=1.0)
        every = list(self._drawn())
        for drawn in every:
            ran = network.run(inputs, drawn)
            expected = self._sum(drawn, self.pooled_of_token, self.pooled)
            gap = _gap(expected, ran.pooled.reshape(len(drawn), -1), scale)
            if gap > LINEAR:
                got = f"an output that differs by {gap:.2g} from the weighted sum of its tokens"
                do = network.advice(
                    "such a module, as one that squares its weights, cannot be audited"
                )
                raise _error(name, got, f"at most {LINEAR:g}", do)
            gap = _gap(network.run(inputs, pooled=expected).output, ran.output, of_logits)
            if gap > READ_ELSEWHERE:
                got = f"logits that differ by {gap:.2g} from those that follow from its output"
                do = network.advice(
                    "a module whose weights are read elsewhere too cannot be audited"
                )
                raise _error(name, got, f"at most {READ_ELSEWHERE:g}", do)
            logits = self._sum(drawn, self.logits_of_token, self.ran.output)
            affine = affine and _gap(logits, ran.output, of_logits) <= LINEAR
        # Other weights of the longest text must not change the logits of the other texts.
        longest = int(np.argmax([len(tokens) for tokens in self.batch.tokens]))
        weights, others = self.alpha.clone(), torch.arange(len(self.alpha)) != longest
        weights[longest] = every[1][longest]
        changed = network.run(inputs, weights).output[others]
        gap = _gap(changed, self.ran.output[others], of_logits[others])
        if gap > READ_ELSEWHERE:
            got = f"logits of a text that differ by {gap:.2g} under other attention of another text"
            do = "a module that normalises over a batch cannot be audited"
            raise _error(where, got, "texts that do not influence each other", do)
        return replace(self, affine=affine)

    def _sum(self, alpha: Tensor, of_token: Tensor, own: Tensor) -> Tensor:
        """Add to what is the model's own how much each head changes it under ``alpha``."""
        changed = torch.einsum("bht,htbp->bhp", alpha.to(of_token), of_token)
        return own + (changed - own[:, None]).sum(dim=1)

    def _drawn(self) -> Iterator[Float[Tensor, "B H T"]]:
        """Yield the model's own weights, and random ones over the tokens of every text."""
        yield self.alpha
        random, size = torch.Generator().manual_seed(0), self.alpha.shape[2]
        for _ in range(TRIALS):
            drawn = torch.rand(self.alpha.shape, generator=random).to(self.alpha)
            drawn = drawn * inside(self.batch.lengths, size)[:, None]
            yield drawn / drawn.sum(dim=2, keepdim=True)

    def trace(
        self,
        start: int,
        settings: Mapping[str, Any],
        scores: Mapping[str, Float[Tensor, "B T"]],
        replaced: Mapping[str, pl.Series],
    ) -> Trace:
        """Return the rows of the batch, its texts numbered from ``start``.

        Args:
            start: Number of the first text.
            settings: Activation, names of classes, metadata and tail of the trace.
            scores: Importance of every token.
            replaced: Columns about replaced words, one value per text.
        """
        tokens, label, heads = self.batch.tokens, self.batch.label, self.alpha.shape[1]
        given = self.pooled_of_token if settings["tail"] else self.logits_of_token
        rows = [(k, head, len(text)) for k, text in enumerate(tokens) for head in range(heads)]
        text, head, _ = (np.array(column, np.int32) for column in zip(*rows, strict=True))
        prediction = probabilities(self.ran.output.double(), settings["activation"])
        of_rows: dict[str, Any] = {name: one.gather(text) for name, one in replaced.items()}
        for name, values in scores.items():
            of_rows[name] = [values[k, :size].numpy() for k, _, size in rows]
        return Trace.from_arrays(
            **settings,
            instance=start + text.astype(np.int64),
            label=None if label is None else [label[k] for k in text],
            tokens=[list(tokens[k]) for k in text],
            alpha=[self.alpha[k, h, :size].numpy() for k, h, size in rows],
            readout=[given[h, :size, k].numpy() for k, h, size in rows],
            offset=np.zeros((len(rows), given.shape[3]), np.float32),
            prediction=prediction.numpy()[text],
            layer=None if heads == 1 else np.zeros(len(rows), np.int32),
            head=None if heads == 1 else head,
            **of_rows,
        )


def _collected(network: PoolingNetwork, batch: Batch, where: str) -> _Collected:
    ran, texts = network.run(batch.inputs), len(batch.tokens)
    _check_logits(ran, texts, where)
    alpha = _weights_of(ran, network, batch, where)
    batch, masked = _without_masked(batch, alpha, where)
    alpha = alpha[:, :, : int(batch.lengths.max())]
    tokens = inside(batch.lengths, alpha.shape[2]).T[..., None]
    logits, pooled = list[Tensor](), list[Tensor]()
    for head in range(alpha.shape[1]):
        alone = []
        for token in range(alpha.shape[2]):
            weights = alpha.clone()
            weights[:, head] = 0.0
            weights[:, head, token] = 1.0
            alone.append(network.run(batch.inputs, weights))
        for parts, given in (
            (logits, [one.output for one in alone]),
            (pooled, [one.pooled.reshape(texts, -1) for one in alone]),
        ):
            parts.append(torch.where(tokens, torch.stack(given), 0.0))
    of_token = torch.stack(logits), torch.stack(pooled)
    found = _Collected(batch, ran, alpha, ran.pooled.reshape(texts, -1), *of_token, masked=masked)
    return found.checked(network, where)


def _without_masked(batch: Batch, alpha: Float[Tensor, "B H T"], where: str) -> tuple[Batch, int]:
    """Leave out the padding at the end of texts, whose weight is 0; return how much there was.

    Raises:
        InputError: For a masked token before others, which no other attention may weight either.
    """
    # Without a mask, a softmax gives 0 only to logits that are a hundred below the largest.
    seen = (alpha > 0).any(dim=1)
    kept = []
    for row, tokens in enumerate(batch.tokens):
        own = seen[row, : len(tokens)].nonzero()[:, 0].tolist()
        masked = next((t for t in range(own[-1]) if t not in own), None)
        if masked is not None:
            got = f"weight 0 for token {masked} of text {row}, {tokens[masked]!r}, as of a mask"
            raise _error(where, got, "tokens that attention may weight", "leave it out of tokens")
        kept.append(tokens[: own[-1] + 1])
    masked = sum(map(len, batch.tokens)) - sum(map(len, kept))
    return (replace(batch, tokens=kept) if masked else batch), masked


def _weights_of(
    ran: Ran, network: PoolingNetwork, batch: Batch, where: str
) -> Float[Tensor, "B H T"]:
    """Return the weights of the one softmax in the submodule, none of it behind a text's tokens."""
    if len(ran.weights) != 1:
        got = f"{len(ran.weights)} softmaxes in {type(network.pool).__name__}"
        do = "not one around it" if ran.weights else "and write its weights by softmax"
        do = network.advice(f"name the module that pools, {do}")
        raise _error(where, got, "one, of the weights over the tokens", do)
    (own,), texts = ran.weights, len(batch.tokens)
    size = max(len(text) for text in batch.tokens)
    if own.dim() != 3 or len(own) != texts or own.shape[2] < size:
        got = f"weights {tuple(own.shape)} for {texts} texts of up to {size} tokens"
        raise _error(where, got, "a weight for every token of a text")
    for name, given in (("weights", own), ("pooled vectors", ran.pooled)):
        if given.dtype not in PRECISE:
            do = "net.float(), without autocast"
            raise _error(f"{where}: {name}", str(given.dtype), "float32 or float64", do)
    behind = float((own * ~inside(batch.lengths, own.shape[2])[:, None]).max())
    if behind > LINEAR:
        raise _error(where, f"weight {behind:.2g} behind the tokens", "none on padding", "mask it")
    return own[:, :, :size]


def _largest(of_token: Float[Tensor, "H T B p"]) -> Float[Tensor, "B p"]:
    """Return the largest finite number that a token gives a text, in each column."""
    return torch.where(of_token.isfinite(), of_token.abs(), 0.0).amax(dim=(0, 1))


def _gap(found: Tensor, expected: Tensor, scale: Float[Tensor, "B p"]) -> float:
    """Return the largest relative difference.

    It is infinite for NaN, and if one of two numbers is infinite; equal infinities are alike.
    """
    gap = torch.where(found == expected, 0.0, (found - expected).abs() / scale)
    return float(gap.nan_to_num(nan=torch.inf, posinf=torch.inf).max()) if gap.numel() else 0.0


@dataclass(frozen=True, kw_only=True)
class TokenReplacement(TextReplacement):
    """Replacement of tokens in the batches of a module.

    Attributes:
        network: The module with its batches.
        arguments: The arguments that say what their tokens are. Others, such as masks and
            positions, stay as they are.
    """

    network: PoolingNetwork
    arguments: TokenArguments

    @classmethod
    def of(
        cls,
        network: PoolingNetwork,
        arguments: TokenArguments,
        settings: ReplacementSettings,
        outputs: int,
    ) -> TokenReplacement:
        """Prepare texts."""
        words, instance = arguments.words, np.arange(len(arguments.words))
        return cls(
            keys=(instance,),
            donors=Donors(words, instance),
            outputs=outputs,
            settings=settings,
            network=network,
            arguments=arguments,
        )

    def run(self, rows: Int64[np.ndarray, " b"], copies: int) -> Iterator[Predicted]:
        """Run the whole batch of some texts, with one copy of each at a time."""
        if not len(rows):
            return
        part, first = self.network.texts[int(rows[0])]
        places, logits = rows - rows[0] + first, []
        lost, words = zip(*(self.copies(row, copies) for row in rows.tolist()), strict=True)
        for copy in zip(*words, strict=True):
            inputs = named(self.network.net, part.batch.inputs)
            for name, table in self.arguments.tables.items():
                inputs[name] = inputs[name].clone()
                for place, own in zip(places, copy, strict=True):
                    inputs[name][place, : len(own)] = table[own].to(inputs[name].device)
            logits.append(self.network.run(inputs).output[places])
        activation = "sigmoid" if self.outputs == 1 else "softmax"
        found = probabilities(torch.stack(logits, dim=1).double(), activation)
        yield lost, found.flatten(0, 1).numpy()

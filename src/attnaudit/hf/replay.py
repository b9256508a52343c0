"""What a model predicts when the attention of one query is replaced, by the shortest pass that gives what the whole one gives.

The query is the position that the prediction reads: what a classifier pools, or the last position of a model that writes. Ways to get
there, from the shortest to the whole pass (`WAYS`):

- ``position``: one position of the last layer and what comes after it.
- ``last two``: one position of the last two layers of an encoder, with keys and values of the other positions in the last one kept.
- ``step``: the last position of a decoder, from the layer on, with keys and values of the earlier ones kept and shared.
- ``copied step``: that step with keys and values repeated, for attention that cannot share them.
- ``whole step``: that step from the first layer on, for models whose layers hand on more than their hidden states.
- ``upper``: all positions, from the layer on.
- ``full``: everything.

A replay replaces the attended sums of the query, ``Σ_t alpha_t · v_t`` of every head, or its attention weights; with weights, the values
are those that the pass computes. Which of the ways a layer allows is tried on the model itself (`ways`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from attnaudit.hf.capture import Attention, Keys, Mixture, Pass, forward
from attnaudit.hf.resume import Call, layers_around, record, repeated, resumed
from attnaudit.hf.shared import shared

ModelTask = Literal["classification", "causal-lm", "seq2seq"]
WAYS = ("position", "last two", "step", "copied step", "whole step", "upper", "full")
TRIALS = 5
EXACT = 1e-5  # TVD of the predictions by a shorter way and by the whole pass
ROUNDING = 1e-4  # of logits, relative to the largest: two ways to compute the same in float32, also where predictions are saturated
APART = 1e-6  # of logits: a position hears of the others by its attention alone
NOISE = (
    0.1,
    0.3,
    1.0,
)  # standard deviations of the states that are put at other positions, over their own
FAILS = (
    RuntimeError,
    ValueError,
    TypeError,
    IndexError,
    AttributeError,
    KeyError,
    AssertionError,
    NotImplementedError,
)
Sums = Float[Tensor, "N H D"]  # attended sums of the query, of every head
Exchange = Callable[[Attention], Tensor | Mixture | None]


class KeysLeftOutError(ValueError):
    """A pass does not have the keys of a query, as where a cache keeps those of a window alone."""


@dataclass(frozen=True)
class Weights:
    """Attention weights (N, R, K) of the query, of R ``heads`` among ``all_heads``; the others keep what the pass computes.

    K counts the keys that a mask leaves, from ``first`` on, of the ``tokens`` of the text; the others have no weight.
    """

    heads: Sequence[int]
    all_heads: int
    values: Float[Tensor, "N R K"]
    first: int
    tokens: int

    def __len__(self) -> int:
        return len(self.values)

    def placed_at(self, position: int, found: Attention) -> Tensor:
        """The weights of ``found`` with these at a position; heads that share keys may stand as queries of one. Raises KeysLeftOutError."""
        weights = found.weights.clone()
        keys, size = (
            self.values.shape[-1] - found.sink,
            weights.shape[-1],
        )  # a sink, which comes last, has a weight and no value
        if size not in (keys, self.tokens):
            raise KeysLeftOutError(f"weights of {keys} keys in a pass with {size}")
        new = self.values[..., :keys].to(weights)
        if size > keys:
            new = functional.pad(new, (self.first, size - self.first - keys))
        if weights.shape[1] * weights.shape[2] == self.all_heads:
            weights.view(len(weights), self.all_heads, size)[:, self.heads] = new
        else:
            weights[:, self.heads, position] = new
        return weights


Changes = Mapping[int, Sums | Weights]  # by the number of an attention


@dataclass(frozen=True)
class Query:
    """Where the prediction of a model for one text is read: at ``position`` of its queries."""

    task: ModelTask
    position: int


@dataclass(frozen=True)
class States:
    """What a pass of one text left: ``sums`` (H, D) of every attention at the query, the calls of the layers around each, the logits.

    ``keys`` are those of the last attention at the other positions, of encoders whose attention torch's function computes; of decoders
    ``prefix`` are keys and values of all positions but the last, and ``encoded`` is what the encoder gave. Each is None of other models.
    ``tried`` are the ways that hold for this text, by way and attentions (`way_of_text`).
    """

    inputs: Mapping[str, Tensor]
    query: Query
    sums: tuple[Tensor, ...]
    calls: Mapping[int, tuple[tuple[Call, ...], int]]
    logits: Float[Tensor, "1 C"]
    keys: Keys | None = None
    prefix: Any = None
    encoded: Any = None
    tried: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes, about: a hidden state is the output of one call and the input of the next, keys and values are two more of its size."""
        lists = {id(calls): calls for calls, _ in self.calls.values()}
        return (
            3 * sum(call.hidden.nbytes for calls in lists.values() for call in calls)
            + self.logits.nbytes
        )


def task_of(model: Any) -> ModelTask | None:
    """What a model predicts, by its class; None for classes that are none of these."""
    name = type(model).__name__
    if name.endswith("ForSequenceClassification"):
        return "classification"
    if model.config.is_encoder_decoder:
        return "seq2seq"
    return "causal-lm" if name.endswith(("ForCausalLM", "LMHeadModel")) else None


def logits_at_query(output: Any, task: ModelTask) -> Float[Tensor, "N C"]:
    """The logits that a prediction follows from: those of a text, or of the last position."""
    return output.logits if task == "classification" else output.logits[:, -1]


def whole(
    model: nn.Module, inputs: Mapping[str, Tensor], query: Query, weights: Mapping[int, Tensor]
) -> Float[Tensor, "N C"]:
    """The logits with ``weights`` (N, H, K) of the query in place of the model's own, by a pass of the whole model for each of N."""

    def exchange(found: Attention) -> Tensor | None:
        if found.index not in weights:
            return None
        own = found.weights.clone()
        own[:, :, query.position] = weights[found.index]
        return own

    number = len(next(iter(weights.values())))
    return logits_at_query(forward(model, _copies(inputs, number), exchange).output, query.task)


def states_of(
    model: Any, inputs: Mapping[str, Tensor], query: Query, first: Pass | None = None
) -> States:
    """Run one text and keep what replays start from; ``first`` is a pass of it that was made already."""
    first = forward(model, inputs) if first is None else first
    calls: dict[int, tuple[tuple[Call, ...], int]] = {}
    keys = None
    for layers in {
        id(found): found for one in first.attentions if (found := layers_around(model, one.path))
    }.values():
        recorded = record(model, inputs, layers)
        keys = recorded.keys
        for one in first.attentions:
            call = recorded.call_of(one.index)
            if call is not None and one.index not in calls:
                calls[one.index] = recorded.calls, call
    sums = tuple(
        _sums(one)[0, :, min(query.position, one.weights.shape[2] - 1)].clone()
        for one in first.attentions
    )
    prefix, encoded = _prefix(model, inputs, query)
    is_encoder = (
        query.task == "classification" and prefix is None and not model.config.is_encoder_decoder
    )
    others = keys.of_query(query.position) if keys and is_encoder else None
    states = States(
        inputs,
        query,
        sums,
        calls,
        logits_at_query(first.output, query.task),
        others,
        prefix,
        encoded,
    )
    return states if prefix is None or _continues(model, states) else replace(states, prefix=None)


def _continues(model: Any, states: States) -> bool:
    """Whether the last position gives the logits of the whole text when it continues the kept keys and values.

    Not where a cache keeps fewer than the model reads, or where keys depend on the length of the text.
    """
    try:
        output = forward(model, _step(states, 1, _repeated_cache)).output
    except FAILS:
        return False
    return apart(logits_at_query(output, states.query.task), states.logits) <= ROUNDING


def states_at(model: Any, inputs: Mapping[str, Tensor], task: ModelTask, reads: int) -> States:
    """`states_of` one text at the query ``reads``, which is counted from the end where it is negative."""
    seen = forward(model, inputs)
    return states_of(model, inputs, Query(task, reads % seen.attentions[-1].weights.shape[2]), seen)


def positions_read(model: nn.Module, inputs: Mapping[str, Tensor], seen: Pass) -> list[int]:
    """The queries of the last attention that the classes of a text depend on, counted from 0; none where they are saturated.

    The weights of every query in turn are replaced by random ones, one in each row of a batch.
    """
    last = seen.attentions[-1]
    queries = last.weights.shape[2]
    drawn = torch.rand(last.weights.shape[1:], generator=torch.Generator().manual_seed(0))
    drawn = drawn / drawn.sum(dim=-1, keepdim=True)

    def exchange(found: Attention) -> Tensor | None:
        if found.index != last.index:
            return None
        weights = found.weights.clone()
        for query in range(queries):
            weights[query, :, query] = drawn[:, query]
        return weights

    logits, own = (
        forward(model, _copies(inputs, queries), exchange).output.logits,
        seen.output.logits,
    )
    return (
        ((logits - own).abs().amax(dim=-1) > EXACT * own.abs().max()).nonzero().flatten().tolist()
    )


def way_of_text(model: Any, states: States, numbers: Iterable[int], way: str) -> str:
    """``way``, or ``full`` where replaying the text's own sums of the attentions ``numbers`` by it does not give the text's own logits.

    A way is found on the short texts of the checks; a model may treat others, such as longer ones, in another way.
    """
    if way == "full":
        return way
    key = way, tuple(sorted(numbers))
    if key not in states.tried:
        own = {number: states.sums[number][None] for number in key[1]}
        try:
            holds = apart(replayed(model, states, own, way), states.logits) <= ROUNDING
        except FAILS:
            holds = False
        states.tried[key] = way if holds else "full"
    return states.tried[key]


def replayed(model: Any, states: States, changes: Changes, way: str) -> Float[Tensor, "N C"]:
    """The logits with ``changes`` in place of the model's own, by one of `WAYS`. Raises one of `FAILS` where the model refuses."""
    query, number = states.query, len(next(iter(changes.values())))
    if way == "full":
        seen = forward(model, _copies(states.inputs, number), _exchange(changes, query.position))
        return logits_at_query(seen.output, query.task)
    calls, first = states.calls[min(changes)]
    begun, skipped = (
        calls[0].attentions.start,
        calls[first].attentions.start - calls[0].attentions.start,
    )
    others: dict[int, Keys] = {}
    if way in ("position", "last two"):
        above = len(calls) - 1 - first
        if len(changes) > 1 or above != (way == "last two") or query.task == "seq2seq":
            raise ValueError(
                "several layers, or more layers above, or a model that writes another text"
            )
        if way == "last two":
            if states.keys is None:
                raise KeysLeftOutError("those of the last layer are not known")
            others = {calls[-1].attentions.start - skipped: states.keys}
        inputs, exchange, chosen = (
            _one_position(states, number),
            _exchange(changes, 0, begun + skipped),
            repeated(number, query.position),
        )
    elif way == "upper":
        inputs, chosen = _copies(states.inputs, number), repeated(number)
        exchange = _exchange(changes, query.position, skipped, begun)
    else:
        inputs, chosen = (
            _step(states, number, shared if way == "step" else _repeated_cache),
            repeated(number, query.position),
        )
        if way == "whole step":
            return logits_at_query(
                forward(model, inputs, _exchange(changes, 0, begun)).output, query.task
            )
        exchange = _exchange(changes, 0, begun + skipped)
    with resumed(calls, first, chosen):
        return logits_at_query(forward(model, inputs, exchange, others=others).output, query.task)


def replayed_together(
    model: Any, states: Sequence[States], sums: Mapping[int, Sums]
) -> Float[Tensor, "N C"]:
    """`replayed` of N rows, each with a text of its own, by the way ``position``.

    The layer is given each text's hidden state, and the rest of the pass is that of the first text: a model that brings something else of a
    text past this layer gives other logits.
    """
    (number,), position = sums, states[0].query.position
    calls, first = states[0].calls[number]
    hidden = torch.cat(
        [one.calls[number][0][first].hidden[:, one.query.position] for one in states]
    )[:, None]

    def chosen(tensor: Tensor) -> Tensor:
        return hidden if tensor is calls[first].hidden else repeated(len(states), position)(tensor)

    with resumed(calls, first, chosen):
        inputs = _one_position(states[0], len(states))
        return logits_at_query(
            forward(model, inputs, _exchange(sums, 0, number)).output, states[0].query.task
        )


def ways(model: Any, states: States, seen: Pass) -> Iterator[tuple[str, float]]:
    """For every attention of ``seen`` the shortest way whose predictions are those of the whole pass, and how far they differ (TVD).

    Tried with `TRIALS` random attentions of all heads. A layer that no way replays is given as ``none``.
    """
    random = torch.Generator().manual_seed(0)
    for one in seen.attentions:
        own = one.weights[0, :, min(states.query.position, one.weights.shape[2] - 1)]
        drawn = torch.rand((TRIALS, *own.shape), generator=random) ** 4
        drawn = drawn / drawn.sum(dim=-1, keepdim=True) * own.sum(dim=-1, keepdim=True)
        sums = {one.index: torch.einsum("nhk,hkd->nhd", drawn, one.values[0])}
        expected = whole(model, states.inputs, states.query, {one.index: drawn})
        tried = ((way, _difference(model, states, sums, way, expected)) for way in WAYS)
        yield next(((way, found) for way, found in tried if found <= EXACT), ("none", float("inf")))


def _difference(
    model: Any, states: States, sums: Mapping[int, Sums], way: str, expected: Tensor
) -> float:
    """How far the predictions by a way differ from those expected; infinity where the model does not allow it, or logits differ."""
    try:
        found = replayed(model, states, sums, way)
        if apart(found, expected) > ROUNDING or (
            way in ("position", "last two") and not _stands_alone(model, states, min(sums))
        ):
            return float("inf")
        return tvd(found, expected)
    except FAILS:
        return float("inf")


def _stands_alone(model: Any, states: States, number: int) -> bool:
    """Whether the logits stay the same when the layer of attention ``number`` is given other states at all positions but the query.

    The query's attended sums are kept, of this layer and of those above.
    """
    calls, first = states.calls[number]
    hidden, position = calls[first].hidden, states.query.position
    random = torch.Generator().manual_seed(0)
    others = [
        hidden,
        hidden.roll(1, dims=1),
        *(torch.randn(hidden.shape, generator=random) * hidden.std() * scale for scale in NOISE),
    ]
    given = torch.cat(others)
    given[:, position] = hidden[:, position]

    def chosen(tensor: Tensor) -> Tensor:
        return given if tensor is hidden else repeated(len(given))(tensor)

    begun, skipped = (
        calls[0].attentions.start,
        calls[first].attentions.start - calls[0].attentions.start,
    )
    kept = {
        later: states.sums[later].expand(len(given), -1, -1)
        for later in range(number, len(states.sums))
    }
    with resumed(calls, first, chosen):
        seen = forward(
            model, _copies(states.inputs, len(given)), _exchange(kept, position, skipped, begun)
        )
    own, *rest = logits_at_query(seen.output, states.query.task)
    return all(apart(other, own) <= APART for other in rest)


def tvd(logits: Float[Tensor, "N C"], others: Float[Tensor, "N C"]) -> float:
    """The largest total variation distance of the predictions of two lots of logits."""
    gap = (logits.double().softmax(dim=-1) - others.double().softmax(dim=-1)).abs().sum(dim=-1)
    return float(gap.max() / 2) if bool(gap.isfinite().all()) else float("inf")


def apart(logits: Tensor, others: Tensor) -> float:
    """The largest difference of logits, relative to the largest of the ``others``."""
    return float((logits - others).abs().max() / others.abs().max().clamp(min=1e-30))


def _sums(found: Attention) -> Float[Tensor, "B H Q D"]:
    return found.weights @ found.values


def _one_position(states: States, number: int) -> dict[str, Tensor]:
    """The inputs of the query's position, ``number`` times."""
    position = states.query.position
    return {
        name: value[:, position : position + 1].repeat(number, 1)
        for name, value in states.inputs.items()
    }


def _copies(inputs: Mapping[str, Tensor], number: int) -> dict[str, Tensor]:
    return {name: value.repeat(number, *[1] * (value.dim() - 1)) for name, value in inputs.items()}


def _exchange(changes: Changes, position: int, skipped: int = 0, since: int = 0) -> Exchange:
    """Puts the changes in place of the model's own at ``position``, in a pass that leaves out ``skipped`` attentions from ``since`` on."""

    def exchange(found: Attention) -> Mixture | Tensor | None:
        new = changes.get(found.index + (skipped if found.index >= since else 0))
        if new is None:
            return None
        if isinstance(new, Weights):
            return new.placed_at(position, found)
        if (
            found.weights.shape[2] * found.weights.shape[1] == new.shape[1]
        ):  # the one query, or its heads that share keys
            return Mixture(new[:, :, None])
        mixed = _sums(found)
        mixed[:, :, position] = new
        return Mixture(mixed)

    return exchange


def _prefix(model: Any, inputs: Mapping[str, Tensor], query: Query) -> tuple[Any, Any]:
    """Keys and values of all positions of a decoder but the last, and what the encoder gave; None where there are none."""
    ids = inputs["input_ids"]
    if query.task == "classification" and (
        model.config.is_encoder_decoder or query.position != ids.shape[1] - 1
    ):
        return None, None
    try:
        with torch.no_grad():
            if query.task != "seq2seq":
                earlier = {name: value[:, :-1] for name, value in inputs.items()}
                return (
                    model(**earlier, use_cache=True).past_key_values if ids.shape[1] > 1 else None
                ), None
            own = {name: value for name, value in inputs.items() if not name.startswith("decoder_")}
            encoded, written = model.get_encoder()(**own), inputs["decoder_input_ids"][:, :-1]
            if not written.shape[1]:
                return None, encoded
            found = model(
                encoder_outputs=encoded,
                attention_mask=inputs["attention_mask"],
                decoder_input_ids=written,
                use_cache=True,
            )
            return found.past_key_values, encoded
    except FAILS:
        return None, None  # a model without a cache is replayed by another way


def _step(states: States, number: int, cache: Callable[[Any, int], Any]) -> dict[str, Any]:
    """The inputs of the last position of a decoder, ``number`` times, with the ``cache`` made from the kept one."""
    inputs, read = _copies(states.inputs, number), "input_ids"
    if states.query.task == "seq2seq":
        read = "decoder_input_ids"
        inputs = {name: inputs[name] for name in ("attention_mask", read)}
    given: dict[str, Any] = {
        name: value if name == "attention_mask" else value[:, -1:] for name, value in inputs.items()
    }
    if states.prefix is not None:
        given |= {"past_key_values": cache(states.prefix, number), "use_cache": True}
    elif inputs[read].shape[1] > 1:
        raise KeysLeftOutError("keys and values are not kept")
    if states.encoded is not None:
        encoded = copy.copy(states.encoded)
        encoded["last_hidden_state"] = encoded[0].repeat(number, 1, 1)
        given["encoder_outputs"] = encoded
    return given


def _repeated_cache(prefix: Any, number: int) -> Any:
    """The kept keys and values, ``number`` times."""
    cache = copy.deepcopy(prefix)
    cache.batch_repeat_interleave(number)
    return cache

"""Predictions under other attention of one query, by the shortest pass that is exact.

The query is the position that the prediction reads: what a classifier pools, or the last position
of a model that writes. There are four ways to its prediction (`WAYS`):

- ``position``: one position of the last layer and what comes after it.
- ``step``: the last position of a decoder from the layer on, with keys and values of earlier
  positions kept.
- ``upper``: all positions, from the layer on.
- ``full``: everything.

A replay replaces the attended sums of the query, ``Σ_t alpha_t · v_t`` of every head, or its
weights; with weights, the values are those that the pass computes. Which way a layer allows is
tried on the model itself (`ways`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnaudit.hf.capture import Attention, Exchange, Mixture, Pass, forward
from attnaudit.hf.model import FAILURES, ModelTask, difference, logits_at_query, tvd
from attnaudit.hf.resume import (
    Call,
    layers_around,
    record,
    repeated,
    resumed,
)

WAYS = ("position", "step", "upper", "full")
TRIALS = 5
EXACT = 1e-5  # TVD of the predictions of a shorter way from those of the whole pass
# Two float32 computations of the same logits, relative to the largest. Predictions alone would hide
# differences where they are saturated.
ROUNDING = 1e-4
APART = 1e-6  # as `ROUNDING`, where a position hears of the others by its attention alone
# Standard deviations of the states put at other positions, relative to their own.
NOISE = (0.1, 0.3, 1.0)
Sums = Float[Tensor, "N H D"]


@dataclass(frozen=True)
class Weights:
    """Attention weights of the query, N times; NaN keeps what the pass computes."""

    values: Float[Tensor, "N H K"]

    def __len__(self) -> int:
        return len(self.values)

    def at(self, position: int, found: Attention) -> Tensor:
        """Put the weights at a position of an attention.

        Raises:
            ValueError: The attention is over another number of keys, as a cache may keep only those
                of a window.
        """
        weights, (rows, heads, keys) = found.weights.clone(), self.values.shape
        if weights.shape[-1] != keys:
            raise ValueError(f"weights of {keys} keys in a pass with {weights.shape[-1]}")
        # Heads that share keys may stand as queries of one head.
        one_query = weights.shape[1] * weights.shape[2] == heads
        own = weights.view(rows, heads, keys) if one_query else weights[:, :, position]
        own.copy_(torch.where(self.values.isnan(), own, self.values.to(own)))
        return weights


Changes = Mapping[int, Sums | Weights]
"""Replacements by the number of the attention."""


@dataclass(frozen=True)
class States:
    """States of a pass over one text, from which replays start.

    Attributes:
        inputs: Inputs of the model, one row.
        task: Task of the model.
        position: The query that the prediction is read from.
        sums: Attended sums (H, D) of every attention at the query.
        calls: For every attention, the calls of the layers around it and the number of its own.
        logits: Logits of the prediction.
        prefix: Keys and values of all positions of a decoder but the last; None without them.
        encoded: Output of the encoder that a decoder reads, else None.
        tried: Ways that hold for this text, by way and attentions (`way_of_text`).
    """

    inputs: Mapping[str, Tensor]
    task: ModelTask
    position: int
    sums: tuple[Tensor, ...]
    calls: Mapping[int, tuple[Sequence[Call], int]]
    logits: Float[Tensor, "1 C"]
    prefix: Any = None
    encoded: Any = None
    tried: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Approximate number of bytes."""
        # A hidden state is the output of one call and the input of the next; keys and values are
        # two more of its size.
        stacks = {id(calls): calls for calls, _ in self.calls.values()}.values()
        return (
            3 * sum(call.hidden.nbytes for calls in stacks for call in calls) + self.logits.nbytes
        )

    def hidden(self, attention: int) -> Float[Tensor, "1 W"]:
        """Return the input of an attention's layer at the query."""
        calls, first = self.calls[attention]
        return calls[first].hidden[:, self.position]


def states_of(
    model: Any, inputs: Mapping[str, Tensor], task: ModelTask, reads: int, seen: Pass | None = None
) -> States:
    """Run one text, and keep what replays start from.

    Args:
        model: The model.
        inputs: Its inputs, one row.
        task: Its task.
        reads: The query that its prediction is read from, counted from the end if it is negative.
        seen: An earlier pass of this text.
    """
    seen = forward(model, inputs) if seen is None else seen
    position = reads % seen.attentions[-1].weights.shape[2]
    calls: dict[int, tuple[Sequence[Call], int]] = {}
    around = [layers_around(model, one.path) for one in seen.attentions]
    for layers in {id(found): found for found in around if found is not None}.values():
        recorded = record(model, inputs, layers)
        numbered = [(k, one) for k, call in enumerate(recorded) for one in call.attentions]
        calls = {one: (recorded, k) for k, one in numbered} | calls
    sums = tuple(
        one.sums[0, :, min(position, one.weights.shape[2] - 1)].clone() for one in seen.attentions
    )
    logits, cache = logits_at_query(seen.output, task), _cache(model, inputs, task, position)
    states = States(inputs, task, position, sums, calls, logits, *cache)
    if states.prefix is None:
        return states
    # A cache may keep fewer keys than the model reads, keys may depend on the text's length, and a
    # bias of positions on the number of keys.
    try:
        output = forward(model, _step(states, 1)).output
        exact = difference(logits_at_query(output, task), logits) <= ROUNDING
    except FAILURES:
        exact = False
    return states if exact else replace(states, prefix=None)


def _cache(
    model: Any, inputs: Mapping[str, Tensor], task: ModelTask, position: int
) -> tuple[Any, Any]:
    """Compute the cache of all positions of a decoder but the last, and what the encoder gives."""
    ids, both = inputs["input_ids"], model.config.is_encoder_decoder
    if task == "classification" and (both or position != ids.shape[1] - 1):
        return None, None
    try:
        with torch.no_grad():
            if task != "seq2seq":
                if ids.shape[1] == 1:
                    return None, None
                earlier = {name: value[:, :-1] for name, value in inputs.items()}
                return model(**earlier, use_cache=True).past_key_values, None
            own = {name: value for name, value in inputs.items() if not name.startswith("decoder_")}
            encoded, written = model.get_encoder()(**own), inputs["decoder_input_ids"][:, :-1]
            if not written.shape[1]:
                return None, encoded
            given = {"encoder_outputs": encoded, "attention_mask": inputs["attention_mask"]}
            output = model(**given, decoder_input_ids=written, use_cache=True)
            return output.past_key_values, encoded
    except FAILURES:
        return None, None  # a model without a cache is replayed in another way


def _step(states: States, rows: int) -> dict[str, Any]:
    """Return the inputs of the last position of a decoder, ``rows`` times."""
    inputs, read = _copies(states.inputs, rows), "input_ids"
    if states.task == "seq2seq":
        read = "decoder_input_ids"
        inputs = {name: inputs[name] for name in ("attention_mask", read)}
    given: dict[str, Any] = {
        name: value if name == "attention_mask" else value[:, -1:] for name, value in inputs.items()
    }
    if states.prefix is not None:
        cache = copy.deepcopy(states.prefix)
        cache.batch_repeat_interleave(rows)
        given |= {"past_key_values": cache, "use_cache": True}
    elif inputs[read].shape[1] > 1:
        raise ValueError("keys and values are not kept")
    if states.encoded is not None:
        encoded = copy.copy(states.encoded)
        encoded["last_hidden_state"] = encoded[0].repeat(rows, 1, 1)
        given["encoder_outputs"] = encoded
    return given


def replayed(
    model: Any,
    states: States,
    changes: Changes,
    way: str,
    texts: Sequence[States] = (),
) -> Float[Tensor, "N C"]:
    """Compute logits with ``changes`` in place of the model's own.

    Args:
        model: The model.
        states: A pass of the text.
        changes: N replacements in every changed attention.
        way: One of `WAYS`.
        texts: For the way ``position``, the text of each row if they differ. The layer gets each
            text's hidden state, and the rest of the pass is that of ``states``: a model that brings
            something else of a text past this layer gives other logits.

    Raises:
        Exception: One of `model.FAILURES`, if the model does not allow this way.
    """
    task, rows = states.task, len(next(iter(changes.values())))
    if way == "full":
        seen = forward(model, _copies(states.inputs, rows), _exchange(changes, states.position))
        return logits_at_query(seen.output, task)
    attention = min(changes)
    calls, first = states.calls[attention]
    begun, own = calls[0].attentions.start, calls[first].attentions.start
    if way == "position":
        if len(changes) > 1 or first < len(calls) - 1 or task == "seq2seq":
            raise ValueError("several layers, or layers above, or a model that writes another text")
        hidden = torch.cat([one.hidden(attention) for one in texts or [states] * rows])
        return at_position(model, states, {attention: changes[attention]}, hidden)
    if way == "upper":
        inputs, choose = _copies(states.inputs, rows), repeated(rows)
        exchange = _exchange(changes, states.position, own - begun, begun)
    else:
        inputs, choose = _step(states, rows), repeated(rows, states.position)
        exchange = _exchange(changes, 0, own)
    with resumed(calls, first, choose):
        return logits_at_query(forward(model, inputs, exchange).output, task)


def at_position(
    model: Any, states: States, sums: Changes, hidden: Float[Tensor, "N W"]
) -> Float[Tensor, "N C"]:
    """Compute logits from the sums of a last layer and from its input at the query."""
    (attention,), position, rows = sums, states.position, len(hidden)
    calls, first = states.calls[attention]
    others = repeated(rows, position)

    def choose(tensor: Tensor) -> Tensor:
        return hidden[:, None] if tensor is calls[first].hidden else others(tensor)

    one = {name: ids[:, position : position + 1] for name, ids in states.inputs.items()}
    with resumed(calls, first, choose):
        exchange = _exchange(sums, 0, calls[first].attentions.start)
        output = forward(model, _copies(one, rows), exchange).output
    return logits_at_query(output, states.task)


def _copies(inputs: Mapping[str, Tensor], rows: int) -> dict[str, Tensor]:
    return {name: value.repeat(rows, *[1] * (value.dim() - 1)) for name, value in inputs.items()}


def _exchange(changes: Changes, position: int, skipped: int = 0, since: int = 0) -> Exchange:
    """Replace at ``position``, in a pass without ``skipped`` attentions from ``since`` on."""

    def exchange(found: Attention) -> Mixture | Tensor | None:
        new = changes.get(found.index + (skipped if found.index >= since else 0))
        if new is None:
            return None
        if isinstance(new, Weights):
            return new.at(position, found)
        if found.weights.shape[2] * found.weights.shape[1] == new.shape[1]:
            return Mixture(new[:, :, None])  # the one query, or its heads that share keys
        mixed = found.sums
        mixed[:, :, position] = new
        return Mixture(mixed)

    return exchange


def queries_read(model: nn.Module, inputs: Mapping[str, Tensor], seen: Pass) -> list[int]:
    """Find the queries of the last attention that the classes of a text depend on.

    The weights of every query in turn are replaced by random ones, one in each row of a batch. A
    text whose classes are saturated gives none.
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

    logits = forward(model, _copies(inputs, queries), exchange).output.logits
    moved = (logits - seen.output.logits).abs().amax(dim=-1)
    return (moved > EXACT * seen.output.logits.abs().max()).nonzero().flatten().tolist()


def way_of_text(model: Any, states: States, attentions: Iterable[int], way: str) -> str:
    """Return ``way`` if it gives the text's own logits from its own sums, else ``full``.

    A way is found on short texts; a model may treat others, such as longer ones, in another way.
    """
    if way == "full":
        return way
    key = way, tuple(sorted(attentions))
    if key not in states.tried:
        own = {attention: states.sums[attention][None] for attention in key[1]}
        try:
            holds = difference(replayed(model, states, own, way), states.logits) <= ROUNDING
        except FAILURES:
            holds = False
        states.tried[key] = way if holds else "full"
    return states.tried[key]


def ways(model: Any, states: States, seen: Pass) -> Iterator[tuple[str, float]]:
    """Yield the shortest exact way of every attention, and its largest difference (TVD).

    Each is tried with `TRIALS` random attentions of all heads. An attention that no way replays
    yields ``none``.
    """
    random = torch.Generator().manual_seed(0)
    for one in seen.attentions:
        own = one.weights[0, :, min(states.position, one.weights.shape[2] - 1)]
        drawn = torch.rand((TRIALS, *own.shape), generator=random) ** 4
        drawn = drawn / drawn.sum(dim=-1, keepdim=True) * own.sum(dim=-1, keepdim=True)
        sums = {one.index: torch.einsum("nhk,hkd->nhd", drawn, one.values[0])}
        expected = replayed(model, states, {one.index: Weights(drawn)}, "full")
        tried = ((way, _error(model, states, sums, way, expected)) for way in WAYS)
        yield next(((way, error) for way, error in tried if error <= EXACT), ("none", torch.inf))


def _error(
    model: Any, states: States, sums: Mapping[int, Sums], way: str, expected: Tensor
) -> float:
    try:
        found = replayed(model, states, sums, way)
        exact = difference(found, expected) <= ROUNDING
        exact = exact and (way != "position" or _stands_alone(model, states, min(sums)))
        return tvd(found, expected) if exact else torch.inf
    except FAILURES:
        return torch.inf


def _stands_alone(model: Any, states: States, attention: int) -> bool:
    """Check that other states at other positions do not change the logits of the query.

    The layer of an attention gets them. The query's attended sums are kept, in this layer and in
    those above.
    """
    calls, first = states.calls[attention]
    hidden, position = calls[first].hidden, states.position
    random = torch.Generator().manual_seed(0)
    noise = [torch.randn(hidden.shape, generator=random) * hidden.std() * scale for scale in NOISE]
    given = torch.cat([hidden, hidden.roll(1, dims=1), *noise])
    given[:, position] = hidden[:, position]
    others = repeated(len(given))

    def choose(tensor: Tensor) -> Tensor:
        return given if tensor is hidden else others(tensor)

    kept = {
        later: states.sums[later].expand(len(given), -1, -1)
        for later in range(attention, len(states.sums))
    }
    begun = calls[0].attentions.start
    skipped = calls[first].attentions.start - begun
    with resumed(calls, first, choose):
        exchange = _exchange(kept, position, skipped, begun)
        seen = forward(model, _copies(states.inputs, len(given)), exchange)
    own, *rest = logits_at_query(seen.output, states.task)
    return all(difference(other, own) <= APART for other in rest)

"""Predictions under other attention of one query, by the shortest pass that is exact.

The query is the position that the prediction reads: what a classifier pools, or the last position
of a model that writes. There are five ways to its prediction (`WAYS`):

- ``position``: one position of the last layer and what comes after it.
- ``step``: the last position of a decoder from the layer on, with keys and values of earlier
  positions kept.
- ``query``: one position of the layer and of the last one, all positions of those between.
- ``upper``: all positions, from the layer on.
- ``full``: everything.

A pass that begins at a layer gets what an earlier pass computed below it (`record`, `resumed`).

A replay replaces the attended sums of the query, ``Σ_t alpha_t · v_t`` of every head, or its
weights; with weights, the values are those that the pass computes. Which way a layer allows is
tried on the model itself (`ways`).
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnaudit.hf.model import FAILURES, ModelTask, difference, logits_at_query, tvd
from attnaudit.hf.record import Place, ReachedError, record, repeated, resumed, running
from attnaudit.torch.capture import Attention, Exchange, Mixture, forward

WAYS = ("position", "step", "query", "upper", "full")
TRIALS = 5
EXACT = 1e-5  # TVD of the predictions of a shorter way from those of the whole pass
# Two float32 computations of the same logits, relative to the largest. Predictions alone would hide
# differences where they are saturated.
ROUNDING = 1e-4
APART = 1e-6  # as `ROUNDING`, where a position hears of the others by its attention alone
# Standard deviations of the states put at other positions, relative to their own.
NOISE = (0.1, 0.3, 1.0)
OF_ENTRY = 256  # bytes of an entry of a dictionary
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
        places: Layers of the attentions by number.
        logits: Logits of the prediction.
        last: Inputs of the last position of a decoder, with keys and values of all earlier ones;
            None if such a pass would give other logits.
        tried: Ways that hold for this text, by way and attentions (`way_of_text`).
        known: Logits of earlier replays, by the digest of what they replaced.
    """

    inputs: Mapping[str, Tensor]
    task: ModelTask
    position: int
    sums: tuple[Tensor, ...]
    places: Mapping[int, Place]
    logits: Float[Tensor, "1 C"]
    last: Mapping[str, Any] | None
    tried: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)
    known: dict[bytes, np.ndarray] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Approximate number of bytes."""
        # A hidden state is the output of one call and the input of the next; keys and values are
        # two more of its size.
        stacks = {id(place.calls): place.calls for place in self.places.values()}.values()
        hidden = sum(call.hidden.nbytes for calls in stacks for call in calls)
        known = len(self.known) * (OF_ENTRY + self.logits.nbytes)
        return 3 * hidden + self.logits.nbytes + known

    def hidden(self, attention: int) -> Float[Tensor, "1 W"]:
        """Return the input of an attention's layer at the query."""
        return self.places[attention].call.hidden[:, self.position]


def states_of(model: Any, inputs: Mapping[str, Tensor], task: ModelTask, reads: int) -> States:
    """Run one text, and keep what replays start from.

    Args:
        model: The model.
        inputs: Its inputs, one row.
        task: Its task.
        reads: The query that its prediction is read from, counted from the end if it is negative.
    """
    seen, places = record(model, inputs)
    queries = seen.attentions[-1].weights.shape[2]
    position = reads % queries
    sums = tuple(
        one.sums[0, :, min(position, one.weights.shape[2] - 1)].clone() for one in seen.attentions
    )
    logits, last = logits_at_query(seen.output, task, position), None
    if position == queries - 1:
        # A model may have no cache, or one of fewer keys than it reads; keys may depend on the
        # text's length, and a bias of positions on the number of keys.
        with suppress(*FAILURES), torch.no_grad():
            step = _last_position(model, inputs, task)
            output = forward(model, _copies(step, 1)).output
            if difference(logits_at_query(output, task), logits) <= ROUNDING:
                last = step
    return States(inputs, task, position, sums, places, logits, last)


def _last_position(model: Any, inputs: Mapping[str, Tensor], task: ModelTask) -> dict[str, Any]:
    """Return the inputs of the last position of a decoder, with the keys and values before it."""
    own, given = dict(inputs), dict[str, Any]()
    if task == "seq2seq":
        own = {"decoder_input_ids": own.pop("decoder_input_ids")}
        text = {name: value for name, value in inputs.items() if name not in own}
        given = {
            "encoder_outputs": model.get_encoder()(**text),
            "attention_mask": inputs["attention_mask"],
        }
    mask = "attention_mask"
    last = given | {name: own[name] if name == mask else own[name][:, -1:] for name in own}
    earlier = {name: value[:, :-1] for name, value in own.items()}
    if next(iter(earlier.values())).shape[1]:
        cache = model(**given, **earlier, use_cache=True).past_key_values
        last |= {"past_key_values": cache, "use_cache": True}
    return last


def replayed(
    model: Any,
    states: States,
    changes: Changes,
    way: str,
    hidden: Float[Tensor, "N W"] | None = None,
) -> Float[Tensor, "N C"]:
    """Compute logits with ``changes`` in place of the model's own.

    Args:
        model: The model.
        states: A pass of the text.
        changes: N replacements in every changed attention.
        way: One of `WAYS`.
        hidden: For the way ``position``, the layer's input at the query of each row if rows are of
            different texts. The rest of the pass is that of ``states``: a model that brings
            something else of a text past this layer gives other logits.

    Raises:
        Exception: One of `model.FAILURES`, if the model does not allow this way.
    """
    rows, position = len(next(iter(changes.values()))), states.position
    if way == "full":
        seen = forward(model, _copies(states.inputs, rows), _exchange(changes, position))
        return logits_at_query(seen.output, states.task, position)
    if way == "upper":
        return _from_layer(model, states, changes, _copies(states.inputs, rows))
    if way == "step":
        if states.last is None:
            raise ValueError("keys and values are not kept")
        return _from_layer(model, states, changes, _copies(states.last, rows), alone=True)
    place = states.places[min(changes)]
    if way == "query":
        return _through_query(model, states, changes, place)
    if len(changes) > 1 or place.call is not place.calls[-1] or states.task == "seq2seq":
        raise ValueError("several layers, or layers above, or a model that writes another text")
    own = states.hidden(min(changes)).repeat(rows, 1) if hidden is None else hidden
    one = {name: ids[:, position : position + 1] for name, ids in states.inputs.items()}
    return _from_layer(model, states, changes, _copies(one, rows), own[:, None], alone=True)


def _through_query(
    model: Any, states: States, changes: Changes, place: Place
) -> Float[Tensor, "N C"]:
    """Compute logits by passes of the query alone in the layer with changes, and in the last one.

    The layer gives other positions what it gave them in the pass of the text.
    """
    rows, position, last = len(next(iter(changes.values()))), states.position, len(states.sums) - 1
    if len(changes) > 1 or place.call is place.calls[-1] or states.task == "seq2seq":
        raise ValueError("several layers, or no layers above, or a model that writes another text")
    one = {name: ids[:, position : position + 1] for name, ids in states.inputs.items()}
    following = Place(place.calls, place.number + 1)
    try:
        with resumed(place, repeated(rows, position), following.number):
            skipped = place.call.attentions.start
            forward(model, _copies(one, rows), _exchange(changes, 0, skipped))
        raise IndexError("no layer follows")
    except ReachedError as reached:
        hidden = following.call.hidden.repeat(rows, 1, 1)
        hidden[:, position] = reached.args[0][:, 0]

    skipped = following.call.attentions.start

    def stop(found):
        if found.index + skipped == last:
            weights = found.weights[:, :, position : position + 1]
            raise ReachedError((weights @ found.values)[:, :, 0])

    others, own = repeated(rows), following.call.hidden
    start = resumed(following, lambda one: hidden if one is own else others(one))
    with start as latest, _elsewhere(following.call.module, own, hidden, position):
        try:
            forward(model, _copies(states.inputs, rows), stop)
            raise IndexError("the last attention is not computed")
        except ReachedError as reached:
            sums = {last: reached.args[0]}
    return replayed(model, states, sums, "position", latest[0][:, position])


def _elsewhere(
    layer: nn.Module, own: Tensor, hidden: Tensor, position: int
) -> AbstractContextManager[None]:
    """Let linear maps of a layer's input, ``hidden``, compute what is not that of ``own``."""

    def run(apply, given):
        if given is not hidden:
            return apply(given)
        output = apply(own).repeat(len(hidden), 1, 1)
        output[:, position] = apply(hidden[:, position])
        return output

    return running([one for one in layer.modules() if isinstance(one, nn.Linear)], run)


def _from_layer(
    model: Any,
    states: States,
    changes: Changes,
    inputs: Mapping[str, Any],
    hidden: Float[Tensor, "N Q W"] | None = None,
    alone: bool = False,
) -> Float[Tensor, "N C"]:
    """Compute logits by a pass that begins at the first layer with changes.

    Args:
        model: The model.
        states: A pass of the text.
        changes: N replacements in every changed attention.
        inputs: Inputs of N rows.
        hidden: Input of the layer, by default the text's own.
        alone: True for a pass of the query's position only, which runs no encoder.
    """
    rows, place = len(next(iter(changes.values()))), states.places[min(changes)]
    others = repeated(rows, states.position if alone else None)
    since = 0 if alone else place.calls[0].attentions.start
    skipped = place.call.attentions.start - since

    def choose(tensor):
        own = hidden if tensor is place.call.hidden else None
        return others(tensor) if own is None else own

    exchange = _exchange(changes, 0 if alone else states.position, skipped, since)
    with resumed(place, choose):
        output = forward(model, inputs, exchange).output
        return logits_at_query(output, states.task, states.position)


def _copies(inputs: Mapping[str, Any], rows: int) -> dict[str, Any]:
    copies = dict[str, Any]()
    for name, value in inputs.items():
        if isinstance(value, Tensor):
            copies[name] = value.repeat(rows, *[1] * (value.dim() - 1))
        elif name == "past_key_values":
            copies[name] = copy.deepcopy(value)
            copies[name].batch_repeat_interleave(rows)
        elif name == "encoder_outputs":
            copies[name] = copy.copy(value)
            copies[name]["last_hidden_state"] = value[0].repeat(rows, 1, 1)
        else:
            copies[name] = value
    return copies


def _exchange(changes: Changes, position: int, skipped: int = 0, since: int = 0) -> Exchange:
    """Replace at ``position``, in a pass without ``skipped`` attentions from ``since`` on."""

    def exchange(found):
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


def queries_read(
    model: nn.Module, inputs: Mapping[str, Tensor], task: ModelTask, position: int = 0
) -> list[int]:
    """Find the queries of the last attention that the classes of a text depend on.

    The weights of every query in turn are replaced by random ones, one in each row of a batch. A
    text whose classes are saturated gives none. For a model that labels tokens, the classes are
    those of one ``position``.
    """
    seen = forward(model, inputs)
    last = seen.attentions[-1]
    queries = last.weights.shape[2]
    drawn = torch.rand(last.weights.shape[1:], generator=torch.Generator().manual_seed(0))
    drawn = drawn / drawn.sum(dim=-1, keepdim=True)

    def exchange(found):
        if found.index != last.index:
            return None
        weights = found.weights.clone()
        for query in range(queries):
            weights[query, :, query] = drawn[:, query]
        return weights

    copies = _copies(inputs, queries)
    # Compared with the same batch unchanged: a batch of another size is rounded otherwise, by more
    # than small logits allow.
    same, other = (
        logits_at_query(forward(model, copies, one).output, task, position)
        for one in (lambda found: found.weights.clone(), exchange)
    )
    rounding = (same - same[:1]).abs().max()
    moved = (other - same).abs().amax(dim=-1)
    return (moved > 10 * rounding).nonzero().flatten().tolist()


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


def ways(model: Any, states: States) -> Iterator[tuple[str, float]]:
    """Yield the shortest exact way of every attention, and its largest difference (TVD).

    Each is tried with `TRIALS` random attentions of all heads. An attention that no way replays
    yields ``none``.
    """
    random = torch.Generator().manual_seed(0)
    for one in forward(model, states.inputs).attentions:
        own = one.weights[0, :, min(states.position, one.weights.shape[2] - 1)]
        drawn = torch.rand((TRIALS, *own.shape), generator=random) ** 4
        drawn = drawn / drawn.sum(dim=-1, keepdim=True) * own.sum(dim=-1, keepdim=True)
        sums = {one.index: torch.einsum("nhk,hkd->nhd", drawn, one.values[0])}
        expected = replayed(model, states, {one.index: Weights(drawn)}, "full")
        found = "none", torch.inf
        for way in WAYS:
            with suppress(*FAILURES):
                logits = replayed(model, states, sums, way)
                error = tvd(logits, expected)
                exact = error <= EXACT and difference(logits, expected) <= ROUNDING
                if exact and (way != "position" or _stands_alone(model, states, one.index)):
                    found = way, error
                    break
        yield found


def _stands_alone(model: Any, states: States, attention: int) -> bool:
    """Check that other states at other positions do not change the logits of the query.

    The layer of an attention gets them. The query's attended sums are kept, in this layer and in
    those above.
    """
    hidden, position = states.places[attention].call.hidden, states.position
    random = torch.Generator().manual_seed(0)
    noise = [torch.randn(hidden.shape, generator=random) * hidden.std() * scale for scale in NOISE]
    given = torch.cat([hidden, hidden.roll(1, dims=1), *noise])
    given[:, position] = hidden[:, position]
    own = range(attention, len(states.sums))
    kept = {later: states.sums[later].expand(len(given), -1, -1) for later in own}
    inputs = _copies(states.inputs, len(given))
    first, *rest = _from_layer(model, states, kept, inputs, given)
    return all(difference(other, first) <= APART for other in rest)

"""What a model predicts when the attention of one query is replaced, by the shortest pass that gives what the whole one gives.

The query is the position that the prediction reads: what a classifier pools, or the last position of a model that writes. Ways to get
there, from the shortest to the whole pass (`WAYS`):

- ``position``: one position of the last layer and what comes after it; the attended sum is put in place of the product.
- ``step``: the step of a decoder that writes one more token, with keys and values of the earlier ones kept, from the layer on.
- ``whole step``: that step from the first layer on, for models whose layers hand on more than their hidden states.
- ``upper``: all positions, from the layer on.
- ``full``: everything.

Which of them a layer allows is tried on the model itself (`ways`).
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnaudit.hf.capture import Attention, Mixture, forward
from attnaudit.hf.resume import Call, layers_around, record, repeated, resumed

WAYS = ("position", "step", "whole step", "upper", "full")
TRIALS = 5
EXACT = 1e-5  # TVD of the predictions by a shorter way and by the whole pass
KEPT = 1 << 30  # bytes of states of texts that are kept
FAILS = (RuntimeError, ValueError, TypeError, IndexError, AttributeError, KeyError, AssertionError, NotImplementedError)
Changes = Mapping[int, Float[Tensor, "N H K"]]  # by the number of an attention: weights of the query, for every head


@dataclass(frozen=True)
class Query:
    """Where the prediction of a model is read: by ``task`` classification, causal-lm or seq2seq, at ``position`` of the queries."""

    task: str
    position: int


@dataclass(frozen=True)
class States:
    """What a pass of one text left: ``weights`` (H, K) and ``values`` (H, K, D) of every attention at the query, and calls of layers.

    ``prefix`` are the keys and values of all positions but the last, of a decoder; ``encoded`` what its encoder gave.
    """

    inputs: Mapping[str, Any]
    query: Query
    weights: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    calls: Mapping[int, tuple[tuple[Call, ...], int]]
    logits: Tensor
    prefix: Any = None
    encoded: Any = None

    @property
    def size(self) -> int:
        """Bytes, about: hidden states are both the output of a call and the input of the next."""
        layers = {id(calls): calls for calls, _ in self.calls.values()}
        hidden = sum(call.hidden.nbytes for calls in layers.values() for call in calls)
        return 3 * hidden + sum(part.nbytes for part in (*self.weights, *self.values))


def task_of(model: Any) -> str | None:
    """classification, causal-lm or seq2seq by the class of a model; None for any other."""
    name = type(model).__name__
    if name.endswith("ForSequenceClassification"):
        return "classification"
    if model.config.is_encoder_decoder:
        return "seq2seq"
    return "causal-lm" if name.endswith(("ForCausalLM", "LMHeadModel")) else None


def logits_at_query(output: Any, task: str) -> Float[Tensor, "N C"]:
    """The logits that a prediction follows from: those of a text, or of the last position."""
    return output.logits if task == "classification" else output.logits[:, -1]


def whole(model: nn.Module, inputs: Mapping[str, Tensor], query: Query, changes: Changes) -> Float[Tensor, "N C"]:
    """The logits with the weights of the query replaced, by a pass of the whole model for each of N replacements."""
    number = len(next(iter(changes.values())))
    copies = {name: value.repeat(number, *[1] * (value.dim() - 1)) for name, value in inputs.items()}
    return logits_at_query(forward(model, copies, _exchange(changes, query.position)).output, query.task)


def states_of(model: Any, inputs: Mapping[str, Tensor], query: Query, numbers: Sequence[int] | None = None) -> States:
    """Run one text and keep what replays of the attentions ``numbers`` (all by default) start from."""
    first = forward(model, inputs)
    calls: dict[int, tuple[tuple[Call, ...], int]] = {}
    for layers in {id(found): found for one in first.attentions if (found := layers_around(model, one.path))}.values():
        recorded = record(model, inputs, layers)
        for number in range(len(first.attentions)):
            call = recorded.call_of(number)
            if call is not None and number not in calls:
                calls[number] = recorded.calls, call
    wanted = range(len(first.attentions)) if numbers is None else numbers
    return States(
        inputs, query,
        tuple(one.weights[0, :, min(query.position, one.weights.shape[2] - 1)].clone() for one in first.attentions),
        tuple(one.values[0].clone() if one.index in wanted else torch.empty(0) for one in first.attentions),
        calls, logits_at_query(first.output, query.task), *_prefix(model, inputs, query.task),
    )  # fmt: skip


def _prefix(model: Any, inputs: Mapping[str, Tensor], task: str) -> tuple[Any, Any]:
    """Keys and values of all positions of a decoder but the last, and what the encoder gave; None where there are none."""
    if task == "classification":
        return None, None
    try:
        with torch.no_grad():
            if task == "causal-lm":
                earlier = {name: value[:, :-1] for name, value in inputs.items()}
                return (model(**earlier, use_cache=True).past_key_values if earlier["input_ids"].shape[1] else None), None
            own = {name: value for name, value in inputs.items() if not name.startswith("decoder_")}
            encoded, written = model.get_encoder()(**own), inputs["decoder_input_ids"][:, :-1]
            if not written.shape[1]:
                return None, encoded
            found = model(encoder_outputs=encoded, attention_mask=inputs["attention_mask"], decoder_input_ids=written, use_cache=True)
            return found.past_key_values, encoded
    except FAILS:
        return None, None  # a model without a cache is replayed by another way


def replayed(model: Any, states: States, changes: Changes, way: str) -> Float[Tensor, "N C"]:
    """The logits with the weights of the query replaced, by one of `WAYS`. Raises one of `FAILS` where the model does not allow it."""
    query, number = states.query, len(next(iter(changes.values())))
    if way == "full":
        return whole(model, states.inputs, query, changes)
    lowest = min(changes)
    calls, first = states.calls[lowest]
    if way == "position":
        return _by_position(model, states, changes, calls, first)
    if way == "upper":
        copies = {name: value.repeat(number, *[1] * (value.dim() - 1)) for name, value in states.inputs.items()}
        shift = calls[0].attentions.start, calls[first].attentions.start
        with resumed(calls, first, repeated(number)):
            return logits_at_query(forward(model, copies, _exchange(changes, query.position, *shift)).output, query.task)
    inputs = _step_inputs(states, number)
    if way == "whole step":
        return logits_at_query(forward(model, inputs, _exchange(changes, 0, calls[0].attentions.start, calls[0].attentions.start, 0)).output,
                               query.task)  # fmt: skip
    with resumed(calls, first, repeated(number, query.position)):
        seen = forward(model, inputs, _exchange(changes, 0, calls[0].attentions.start, calls[first].attentions.start, 0))
    return logits_at_query(seen.output, query.task)


def _by_position(model: Any, states: States, changes: Changes, calls: tuple[Call, ...], first: int) -> Float[Tensor, "N C"]:
    (attention, weights), *more = changes.items()
    if more or first != len(calls) - 1:
        raise ValueError("positions are mixed above this layer")
    position, number = states.query.position, len(weights)
    mixture = Mixture(torch.einsum("nht,htd->nhd", weights, states.values[attention])[:, :, None])
    one = {name: value[:, position : position + 1].repeat(number, 1) for name, value in states.inputs.items()}
    index = attention - calls[first].attentions.start
    with resumed(calls, first, repeated(number, position)):
        seen = forward(model, one, lambda found: mixture if found.index == index else None)
    return logits_at_query(seen.output, states.query.task)


def _exchange(changes: Changes, position: int, stack: int = 0, first: int = 0, before: int | None = None) -> Any:
    """The exchange of a pass whose attentions ``stack`` to ``first`` are not computed; ``before`` is how many come before the stack's."""
    skipped = first - stack
    before = stack if before is None else before

    def exchange(found: Attention) -> Tensor | None:
        number = found.index + (stack - before) + (skipped if found.index >= before else 0)
        if number not in changes:
            return None
        weights = found.weights.clone()
        weights[:, :, position] = changes[number]
        return weights

    return exchange


def _step_inputs(states: States, number: int) -> dict[str, Any]:
    """The inputs of the step that writes after the last token, ``number`` times."""
    inputs = {name: value.repeat(number, *[1] * (value.dim() - 1)) for name, value in states.inputs.items()}
    last = "input_ids" if states.query.task == "causal-lm" else "decoder_input_ids"
    if states.query.task == "classification":
        raise ValueError("a classifier writes no tokens")
    given: dict[str, Any] = {last: inputs[last][:, -1:], "attention_mask": inputs["attention_mask"]}
    if states.prefix is not None:
        cache = copy.deepcopy(states.prefix)
        cache.batch_repeat_interleave(number)
        given |= {"past_key_values": cache, "use_cache": True}
    elif inputs[last].shape[1] > 1:
        raise ValueError("keys and values are not kept")
    if states.encoded is not None:
        encoded = copy.copy(states.encoded)
        encoded["last_hidden_state"] = encoded[0].repeat(number, 1, 1)
        given["encoder_outputs"] = encoded
    return given


def ways(model: Any, states: States) -> Iterator[tuple[str, float]]:
    """For every attention the shortest way whose predictions are those of the whole pass, and by how much they differ (TVD).

    Tried with `TRIALS` random attentions of all heads.
    """
    random = torch.Generator().manual_seed(0)
    for number, own in enumerate(states.weights):
        drawn = torch.rand((TRIALS, *own.shape), generator=random) ** 4
        changes = {number: drawn / drawn.sum(dim=-1, keepdim=True) * own.sum(dim=-1, keepdim=True)}
        expected = whole(model, states.inputs, states.query, changes)
        for way in WAYS:
            try:
                difference = tvd(replayed(model, states, changes, way), expected)
            except FAILS:
                continue
            if difference <= EXACT:
                yield way, difference
                break


def tvd(logits: Float[Tensor, "N C"], others: Float[Tensor, "N C"]) -> float:
    """The largest total variation distance of two lots of predictions."""
    gap = (logits.double().softmax(dim=-1) - others.double().softmax(dim=-1)).abs().sum(dim=-1)
    return float(gap.max() / 2) if bool(gap.isfinite().all()) else float("inf")


class Kept:
    """States of the texts used last, up to `KEPT` bytes."""

    def __init__(self) -> None:
        self._found: OrderedDict[Any, States] = OrderedDict()

    def get(self, key: Any, make: Any) -> States:
        if key in self._found:
            self._found.move_to_end(key)
            return self._found[key]
        states = self._found[key] = make()
        while sum(one.size for one in self._found.values()) > KEPT and len(self._found) > 1:
            self._found.popitem(last=False)
        return states

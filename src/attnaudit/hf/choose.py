"""Choice of the attentions of a model whose rows are collected, and the keys of a row."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnaudit.core import InputError
from attnaudit.core.given import is_whole, plain
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.gate import Gate
from attnaudit.hf.layers import Layer
from attnaudit.torch.capture import Attention

OPERATION = "collect"
Numbers = str | Sequence[int]


@dataclass(frozen=True)
class Chosen:
    """An attention whose rows are collected: its number in a pass, its layer, its heads."""

    number: int
    layer: Layer
    heads: tuple[int, ...]


def choose_layers(
    gate: Gate, layers: Numbers = "last", heads: Numbers = "all", cross: bool = False
) -> tuple[Chosen, ...]:
    """Choose attentions of a model.

    Args:
        gate: Checks of the model.
        layers: ``last``, ``all`` or numbers from 0.
        heads: ``all`` or numbers from 0.
        cross: True for the cross-attention of an encoder–decoder.

    Raises:
        InputError: The prediction reads no single query, or there is no such layer or head.
    """
    if not gate.can_be_audited:
        got = "a prediction that is read from several positions, such as their mean"
        got = "a class of an unknown task" if gate.task is None else got
        expected = "a classifier that reads one position, a causal language model or an encoder–"
        raise InputError(OPERATION, gate.model, got, f"{expected}decoder")
    stacks = [layer.stack for layer in gate.layers]
    stack = "cross" if cross else "decoder" if "cross" in stacks else stacks[-1]
    known = {one.layer: (k, one) for k, one in enumerate(gate.layers) if one.stack == stack}
    if not known:
        do = "leave out collect.cross"
        raise InputError(OPERATION, gate.model, "no cross-attention", "an encoder–decoder", do)
    return tuple(
        Chosen(*known[number], _numbers("head", heads, range(known[number][1].heads)))
        for number in _numbers("layer", layers, sorted(known))
    )


def _numbers(noun: str, given: Any, known: Sequence[int]) -> tuple[int, ...]:
    words = {"all": known, **({"last": known[-1:]} if noun == "layer" else {})}
    numbers = words.get(given) if isinstance(given, str) else given
    expected = f"{', '.join(words)} or a list of numbers from 0 to {known[-1]}, as [0, {known[-1]}]"
    if not isinstance(numbers, Iterable) or not len(numbers := list(numbers)):
        raise InputError(OPERATION, f"{noun}s", repr(given), expected)
    for number in map(plain, numbers):
        if not is_whole(number) or number not in known:
            raise InputError(OPERATION, f"{noun} {number}", f"no such {noun}", expected)
    return tuple(dict.fromkeys(map(int, numbers)))


def keys_seen(
    gate: Gate, layer: Layer, attention: Attention, texts: Encoded, row: int, query: int
) -> slice:
    """Return the keys of a text that no mask hides from a query.

    Raises:
        InputError: Hidden ones lie between them.
    """
    assert attention.hidden is not None
    length = int(texts.keys_of(layer.stack).ids.lengths[row])
    seen = np.flatnonzero(~attention.hidden[row, query, :length].cpu().numpy())
    if not len(seen) or len(seen) <= seen[-1] - seen[0]:
        got = f"in layer {layer.layer} the query sees {len(seen)} tokens with others between them "
        raise InputError(
            OPERATION,
            gate.model,
            f"{got}that it does not see",
            "one stretch of tokens",
            "choose other layers (--layers), or shorter texts (--set collect.max_tokens=…)",
        )
    return slice(int(seen[0]), int(seen[-1]) + 1)

"""The layers of a model whose attention an audit is about: that of every token to every other, as a pass over the probe shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.hf.capture import Attention, Pass
from attnaudit.hf.probe import Probe

OPERATION = "check model"
READ = ("eager", "sdpa")  # implementations of attention whose softmax can be seen
OTHERWISE = "choose a model of another class: docs/transformers.md lists those that pass"
CROSS = (
    "encoder_attn",
    "EncDecAttention",
    "cross",
)  # in the paths of modules, where lengths do not tell


@dataclass(frozen=True)
class Layer:
    """The attention of one layer: ``stack`` is encoder, decoder or cross, ``layer`` counts from 0 within it, ``sink`` as in `Attention`.

    ``way`` is how the model is replayed when its weights are replaced, one of `attnaudit.hf.replay.WAYS`; empty where they cannot be
    audited, as no one query of the layer is what a prediction reads.
    """

    stack: str
    layer: int
    path: str
    heads: int
    width: int
    sink: bool
    way: str = ""


def refused(name: str, got: str, expected: str, do: str = OTHERWISE) -> InputError:
    """The error for a model, by the name of its class."""
    return InputError(OPERATION, name, got, expected, do)


def lengths_of(probe: Probe) -> str:
    """The numbers of tokens of its texts, in words."""
    return " and ".join(map(str, probe.lengths))


def layers_of(model: Any, seen: Pass, probe: Probe) -> tuple[Layer, ...]:
    """The layers of a pass. Raises InputError where an attention is none of tokens to tokens."""
    name = type(model).__name__
    others = [
        (one.path, tuple(one.weights.shape))
        for one in seen.attentions
        if not _of_tokens(one, probe)
    ]
    for path, shape in (*((one.path, one.shape) for one in seen.unread), *others):
        got = f"weights of shape {' × '.join(map(str, shape))} in {path} for {len(probe.mask)} texts of {lengths_of(probe)} tokens"
        raise refused(
            name,
            got,
            "a weight for every pair of tokens: attention that is not local, pooled or sparse",
        )
    if not seen.attentions:
        got, do = "no attention: nothing after a softmax is multiplied with values", OTHERWISE
        if (own := model.config._attn_implementation) not in READ:
            got, do = (
                f"{got}, with the implementation {own}",
                "model.set_attn_implementation('sdpa')",
            )
        raise refused(name, got, "a model with softmax attention", do)
    found: list[Layer] = []
    for one in seen.attentions:
        stack = _stack(one, both=model.config.is_encoder_decoder)
        if stack == "encoder" and probe.targets and one.weights.shape[2] == probe.targets:
            got, expected = (
                f"a decoder that sees later tokens, in {one.path}",
                "one that predicts a token from those before it",
            )
            raise refused(name, got, expected)
        layer = sum(other.stack == stack for other in found)
        found.append(
            Layer(stack, layer, one.path, one.weights.shape[1], one.values.shape[-1], one.sink)
        )
    return tuple(found)


def _of_tokens(attention: Attention, probe: Probe) -> bool:
    """Whether queries and keys are the tokens of the texts, or those that a decoder has written."""
    tokens = probe.mask.shape[1]
    known = {(tokens, tokens), (probe.targets, probe.targets), (probe.targets, tokens)}
    return tuple(attention.weights.shape[2:]) in known


def _stack(attention: Attention, both: bool) -> str:
    """Decoder where no token attends to a later one, cross between encoder and decoder (in a model that has ``both``), else encoder."""
    queries, keys = attention.weights.shape[2:]
    if both and (queries != keys or any(name in attention.path for name in CROSS)):
        return "cross"
    return "decoder" if attention.weights.triu(1).max() == 0 else "encoder"

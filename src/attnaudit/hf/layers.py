"""The layers whose attention can be audited, as a pass over two short texts shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from attnaudit.core import InputError
from attnaudit.torch.capture import Attention, Pass

# Tokens of the two texts, and of the decoder's output: no block of a layer divides them.
LENGTHS, TARGETS = (13, 9), 7
SEED = 0
READ = ("eager", "sdpa")  # implementations of attention whose softmax can be seen
# In the paths of cross-attention, for texts as long as the decoder's output.
CROSS = ("encoder_attn", "EncDecAttention", "cross")
OTHER_CLASS = "choose a model of another class: docs/transformers.md lists those that pass"


def refusal(name: str, got: str, expected: str, do: str = OTHER_CLASS) -> InputError:
    """Return the error for a model of the class ``name``."""
    return InputError("check model", name, got, expected, do)


@dataclass(frozen=True)
class Probe:
    """Two texts of random tokens, the second padded on the right.

    Attributes:
        inputs: Inputs of the model.
        mask: True for tokens that are no padding, shape ``(2, T)``.
        targets: Number of tokens that the decoder is given, 0 without a decoder.
    """

    inputs: Mapping[str, Tensor]
    mask: Tensor
    targets: int

    @classmethod
    def of(cls, model: Any) -> Probe:
        """Draw the texts for a model, without its special tokens."""
        config, random = model.config, torch.Generator().manual_seed(SEED)
        kinds = ("pad", "bos", "eos", "cls", "sep", "mask", "decoder_start")
        named = {kind: _ids(getattr(config, f"{kind}_token_id", None)) for kind in kinds}
        size, taken = int(config.get_text_config().vocab_size), {*chain(*named.values())}
        known = torch.tensor([token for token in range(size) if token not in taken])

        def draw(number):
            return known[torch.randint(len(known), (number,), generator=random)]

        pad = max([*named["pad"], 0])  # a padding token below 0 is none
        ids = torch.full((len(LENGTHS), max(LENGTHS)), pad)
        mask = torch.zeros_like(ids)
        for row, length in enumerate(LENGTHS):
            ids[row, :length], mask[row, :length] = draw(length), 1
        inputs, targets = {"input_ids": ids, "attention_mask": mask}, 0
        if config.is_encoder_decoder:
            targets = TARGETS
            written = draw(targets * len(LENGTHS)).reshape(len(LENGTHS), targets)
            written[:, 0] = [*named["decoder_start"], 0][0]
            inputs["decoder_input_ids"] = written
        return cls(inputs, mask.bool(), targets)

    @property
    def lengths(self) -> str:
        """Numbers of tokens of the texts, in words."""
        return " and ".join(map(str, self.mask.sum(dim=1).tolist()))

    def alone(self, row: int) -> dict[str, Tensor]:
        """Return the inputs of one text without padding."""
        return {
            name: value[[row]] if name.startswith("decoder") else value[[row]][:, self.mask[row]]
            for name, value in self.inputs.items()
        }


def _ids(value: Any) -> list[int]:
    """Return the tokens that a configuration names: none, one or several."""
    return value if isinstance(value, list) else [] if value is None else [int(value)]


@dataclass(frozen=True)
class Layer:
    """The attention of one layer.

    Attributes:
        stack: ``encoder``, ``decoder`` or ``cross``.
        layer: Number within the stack, from 0.
        path: Path of the module that multiplies weights and values.
        heads: Number of heads.
        width: Width of a value.
        sink: True if its softmax has a sink.
        way: How the model is replayed when its weights are replaced, one of `replay.WAYS`; empty
            if no single query of the layer is what a prediction reads.
    """

    stack: str
    layer: int
    path: str
    heads: int
    width: int
    sink: bool
    way: str = ""


def layers_of(model: Any, seen: Pass, probe: Probe) -> tuple[Layer, ...]:
    """Return the layers of a pass over the probe.

    Raises:
        InputError: There is no attention, or one that is not from tokens to tokens.
    """
    name, tokens, targets = type(model).__name__, probe.mask.shape[1], probe.targets
    known = {(tokens, tokens), (targets, targets), (targets, tokens)}
    shapes = [(one.path, tuple(one.weights.shape)) for one in seen.attentions]
    unknown = [(path, shape) for path, shape in shapes if shape[2:] not in known]
    for path, shape in [*seen.unread, *unknown]:
        sizes = f"{' × '.join(map(str, shape))} in {path}"
        got = f"weights of shape {sizes} for {len(LENGTHS)} texts of {probe.lengths} tokens"
        expected = "a weight for every pair of tokens, not local, pooled or sparse attention"
        raise refusal(name, got, expected)
    if not seen.attentions:
        got, do = "no attention: nothing after a softmax is multiplied with values", OTHER_CLASS
        if (own := model.config._attn_implementation) not in READ:
            got += f", with the implementation {own}"
            do = "model.set_attn_implementation('sdpa')"
        raise refusal(name, got, "a model with softmax attention", do)
    found: list[Layer] = []
    for one in seen.attentions:
        stack = _stack(one, model.config.is_encoder_decoder)
        if stack == "encoder" and targets and one.weights.shape[2] == targets:
            expected = "one that predicts a token from those before it"
            raise refusal(name, f"a decoder that sees later tokens, in {one.path}", expected)
        number = sum(other.stack == stack for other in found)
        heads, width = one.weights.shape[1], one.values.shape[-1]
        found.append(Layer(stack, number, one.path, heads, width, one.sink))
    return tuple(found)


def _stack(attention: Attention, both: bool) -> str:
    queries, keys = attention.weights.shape[2:]
    if both and (queries != keys or any(name in attention.path for name in CROSS)):
        return "cross"
    return "decoder" if attention.weights.triu(1).max() == 0 else "encoder"

"""Two short texts of random tokens, on which every model is tried before a number of it is believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

LENGTHS, TARGETS = (
    (13, 9),
    7,
)  # tokens of the two texts, and of what a decoder has written: primes apart, so that no block of a layer fits
SEED = 0


@dataclass(frozen=True)
class Probe:
    """Inputs of a model: two texts of ``lengths`` tokens, the second padded on the right.

    ``mask`` (2, T) is true where a token is no padding; ``targets`` is the number of tokens that a decoder is given, 0 without one.
    """

    inputs: Mapping[str, Tensor]
    mask: Tensor
    targets: int

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(self.mask.sum(dim=1).tolist())

    def alone(self, row: int) -> dict[str, Tensor]:
        """The inputs of one text without padding."""
        own = {name: value[row : row + 1] for name, value in self.inputs.items()}
        return {
            name: value if name.startswith("decoder") else value[:, self.mask[row]]
            for name, value in own.items()
        }


def probe_of(model: Any) -> Probe:
    """The probe of a model of the transformers library."""
    config = model.config
    random = torch.Generator().manual_seed(SEED)
    named = [
        getattr(config, f"{name}_token_id", None)
        for name in ("pad", "bos", "eos", "cls", "sep", "mask", "decoder_start")
    ]
    taken = {token for value in named for token in (value if isinstance(value, list) else [value])}
    known = torch.tensor([token for token in range(_vocabulary(config)) if token not in taken])
    pad = max(_first(config.pad_token_id, 0), 0)  # a number below 0 is no token
    ids = torch.full((len(LENGTHS), max(LENGTHS)), pad)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(LENGTHS):
        ids[row, :length], mask[row, :length] = _draw(known, length, random), 1
        if config.is_encoder_decoder and config.eos_token_id is not None:
            ids[row, length - 1] = _first(
                config.eos_token_id, 0
            )  # classifiers of encoders with decoders look for it
    inputs = {"input_ids": ids, "attention_mask": mask}
    targets = TARGETS if config.is_encoder_decoder and not _classifies(model) else 0
    if targets:
        written = _draw(known, targets * len(LENGTHS), random).reshape(len(LENGTHS), targets)
        written[:, 0] = _first(getattr(config, "decoder_start_token_id", None), 0)
        inputs["decoder_input_ids"] = written
    return Probe(inputs, mask.bool(), targets)


def _vocabulary(config: Any) -> int:
    """The number of tokens that a model reads."""
    return int(config.get_text_config().vocab_size)


def _draw(known: Tensor, number: int, random: torch.Generator) -> Tensor:
    return known[torch.randint(len(known), (number,), generator=random)]


def _first(value: Any, otherwise: int) -> int:
    """A token id; a configuration may name several."""
    chosen = value[0] if isinstance(value, list) else value
    return otherwise if chosen is None else int(chosen)


def _classifies(model: Any) -> bool:
    return type(model).__name__.endswith("ForSequenceClassification")

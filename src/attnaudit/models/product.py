"""Products of many rows with one weight, by the faster of the two libraries that torch has for a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

BLOCK = 128  # rows
ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")

# MKL settles which machine code its vector functions run when the first of them is called. Of threads that call it at once, one may now and
# then run another, with other last bits; so the first call is made here, by one, for all models.
torch.ones(1).exp()

Precision = Literal["float32", "bfloat16"]


@contextmanager
def products_of(precision: Precision) -> Iterator[None]:
    """Within, oneDNN may round the factors of its products to 16 bits (``bfloat16``), and sums what they give in 32; else it may not.

    Processors that have such products do several at the time of one of 32 bits; others are unaffected. The setting holds for the whole
    process.
    """
    place: Any = getattr(torch.backends.mkldnn, "matmul", None)  # torch before 2.9 has no such choice
    if place is None:
        yield
        return
    before = place.fp32_precision
    place.fp32_precision = "bf16" if precision == "bfloat16" else "ieee"
    try:
        yield
    finally:
        place.fp32_precision = before


def whole_blocks(rows: int) -> int:
    """The next number of rows that `product` computes."""
    return -(-rows // BLOCK) * BLOCK


def product(rows: Float[Tensor, "N d"], count: int, weight: Float[Tensor, "G d"]) -> Float[Tensor, "count G"]:
    """``rows[:count] @ weight.T``; there must be `whole_blocks` of ``rows``, whatever they hold beyond ``count``.

    Of the two libraries that torch has for a CPU, oneDNN is asked and not the default: it uses the processor's widest registers whoever
    made it. It prepares a kernel for every shape that it meets, so that the number of rows goes up in whole blocks.
    """
    if not _for_onednn(rows):
        return functional.linear(rows[:count], weight)
    return torch.ops.mkldnn._linear_pointwise(rows[: whole_blocks(count)], weight, None, "none", [], "")[:count]


def _for_onednn(rows: Tensor) -> bool:
    return ONEDNN and rows.device.type == "cpu" and rows.dtype == torch.float32


def count_weights(model: nn.Module) -> int:
    """The number of weights, those that two layers share counted once."""
    return sum(weight.numel() for weight in model.parameters())

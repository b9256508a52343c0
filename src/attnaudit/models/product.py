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
ONEDNN = torch.backends.mkldnn.is_available()

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
    place: Any = getattr(
        torch.backends.mkldnn, "matmul", None
    )  # torch before 2.9 has no such choice
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


def prepared(weight: Float[Tensor, "G d"]) -> Tensor:
    """A weight as `product` takes it: in oneDNN's own layout where that multiplies, which is worth doing once."""
    takes = ONEDNN and weight.device.type == "cpu" and weight.dtype == torch.float32
    return weight.to_mkldnn() if takes else weight


def product(rows: Float[Tensor, "N d"], count: int, weight: Tensor) -> Float[Tensor, "count G"]:
    """``rows[:count] @ weight.T`` of a `prepared` weight ``(G, d)``; ``rows`` are `whole_blocks`, whatever they hold beyond ``count``.

    Of the two libraries that torch has for a CPU, oneDNN multiplies and not the default: it uses the widest registers of processors of any
    make. It prepares a kernel for every shape that it meets, so that the number of rows goes up in whole blocks.
    """
    if not weight.is_mkldnn:
        return functional.linear(rows[:count], weight)
    return functional.linear(rows[: whole_blocks(count)].to_mkldnn(), weight).to_dense()[:count]


def count_weights(model: nn.Module) -> int:
    """The number of weights, those that two layers share counted once."""
    return sum(weight.numel() for weight in model.parameters())

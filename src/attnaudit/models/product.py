"""Products of many rows with one weight, by the faster of the two libraries that torch has for a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

BLOCK = 128  # rows
_PIECE = 512  # rows
ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


Precision = Literal["float32", "bfloat16"]


@contextmanager
def products_of(precision: Precision) -> Iterator[None]:
    """Within, oneDNN may round the factors of its products to 16 bits (``bfloat16``), and sums what they give in 32; else it may not.

    Processors that have such products do several at the time of one of 32 bits; others go on as before. It is so in the whole process.
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


def linear(rows: Float[Tensor, "N d"], weight: Float[Tensor, "G d"], bias: Float[Tensor, " G"] | None = None) -> Float[Tensor, "N G"]:
    """``rows @ weight.T + bias`` by oneDNN where it can, for shapes that come back in every step; no gradient is followed."""
    if not _for_onednn(rows):
        return functional.linear(rows, weight, bias)
    return torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")


def packed(weight: Float[Tensor, "G d"], rows: int) -> Tensor:
    """``weight`` as oneDNN wants it for products with so many rows: to be given to `linear` in its place, many times."""
    if not _for_onednn(weight) or not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return weight
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), rows)


def linear_into(
    out: Float[Tensor, "N G"], rows: Float[Tensor, "N d"], weight: Float[Tensor, "G d"], bias: Float[Tensor, " G"] | None = None,
    add: bool = False,
) -> Float[Tensor, "N G"]:  # fmt: skip
    """`linear` into the memory of ``out``, or added to what is there.

    What oneDNN gives is always new memory, and large new memory is the system's to clear, page by page, which takes as long as the product.
    So it is made of pieces that a cache holds.
    """
    ready = packed(weight, min(_PIECE, len(rows)))
    for start in range(0, len(rows), _PIECE):
        piece, place = linear(rows[start : start + _PIECE], ready, bias), out[start : start + _PIECE]
        place.add_(piece) if add else place.copy_(piece)
    return out


def summed(left: Float[Tensor, "N p"], right: Float[Tensor, "N q"], pieces: int = 512) -> Float[Tensor, "p q"]:
    """``left.T @ right`` over very many rows, ``pieces`` at a time for the reason that `linear_into` gives."""
    total = left.new_zeros(left.shape[1], right.shape[1])
    for start in range(0, len(left), pieces):
        total += linear(left[start : start + pieces].t().contiguous(), right[start : start + pieces].t())
    return total


def _for_onednn(rows: Tensor) -> bool:
    return ONEDNN and rows.device.type == "cpu" and rows.dtype == torch.float32

"""Products of many rows with one weight, by the faster of torch's two libraries for a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

BLOCK = 128  # rows
ONEDNN = torch.backends.mkldnn.is_available()

# MKL chooses the machine code of its vector functions when the first of them is called. Of threads
# that call it at once, one may now and then run other code, with other last bits. So the first call
# is made here, by one thread, for all models.
torch.ones(1).exp()

Precision = Literal["float32", "bfloat16"]


@contextmanager
def products_of(precision: Precision) -> Iterator[None]:
    """Let oneDNN round the factors of products to 16 bits inside the block (``bfloat16``), or not.

    Sums are of 32 bits. Processors with such products are several times faster with them; others
    ignore the setting, which holds for the whole process.
    """
    # torch before 2.9 has no such choice.
    place: Any = getattr(torch.backends.mkldnn, "matmul", None)
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
    """Return the next number of rows that `product` computes."""
    return -(-rows // BLOCK) * BLOCK


def prepared(weight: Float[Tensor, "G d"]) -> Tensor:
    """Return a weight in oneDNN's own layout if that multiplies it; do this once per weight."""
    takes = ONEDNN and weight.device.type == "cpu" and weight.dtype == torch.float32
    return weight.to_mkldnn() if takes else weight


def product(rows: Float[Tensor, "N d"], count: int, weight: Tensor) -> Float[Tensor, "count G"]:
    """Return ``rows[:count] @ weight.T``.

    Of torch's two libraries, oneDNN uses the widest registers of processors of any make. It
    prepares a kernel for every shape that it meets, so the number of rows goes up in whole blocks.

    Args:
        rows: `whole_blocks` of rows, whatever they hold beyond ``count``.
        count: Number of rows to multiply.
        weight: A `prepared` weight, ``(G, d)``.

    Returns:
        The product.
    """
    if not weight.is_mkldnn:
        return functional.linear(rows[:count], weight)
    return functional.linear(rows[: whole_blocks(count)].to_mkldnn(), weight).to_dense()[:count]

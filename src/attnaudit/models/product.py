"""Products of many rows with one weight, for loops that meet a new number of rows in every step."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

BLOCK = 128  # rows
ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def whole_blocks(rows: int) -> int:
    """The next number of rows that `product` computes."""
    return -(-rows // BLOCK) * BLOCK


def product(rows: Float[Tensor, "N d"], count: int, weight: Float[Tensor, "G d"]) -> Float[Tensor, "count G"]:
    """``rows[:count] @ weight.T``; there must be `whole_blocks` of ``rows``, whatever they hold beyond ``count``.

    Of the two libraries that torch has for a CPU, oneDNN is asked and not the default: it uses the processor's widest registers whoever
    made it. It prepares a kernel for every shape that it meets, so that the number of rows goes up in whole blocks.
    """
    if not ONEDNN or rows.device.type != "cpu" or rows.dtype != torch.float32:
        return functional.linear(rows[:count], weight)
    return torch.ops.mkldnn._linear_pointwise(rows[: whole_blocks(count)], weight, None, "none", [], "")[:count]

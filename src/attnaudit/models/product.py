"""Products of many rows with one weight, computed by the faster of torch's two CPU libraries."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

# Rows per block. oneDNN prepares a kernel for every new shape. With ever new numbers of rows that
# costs more than it gains over MKL, so numbers of rows are rounded up to blocks.
BLOCK = 128
ONEDNN = torch.backends.mkldnn.is_available()

# MKL selects the machine code of its vector functions at their first call. When several threads
# make that call at once, one of them sometimes runs other code, with other last bits. So this
# module makes the first call, on one thread.
torch.ones(1).exp()


def whole_blocks(rows: int) -> int:
    """Round a number of rows up to whole blocks, which `product` computes."""
    return -(-rows // BLOCK) * BLOCK


def prepared(weight: Float[Tensor, "G d"]) -> Tensor:
    """Bring a weight into oneDNN's layout, once per weight, if oneDNN can multiply it."""
    takes = ONEDNN and weight.device.type == "cpu" and weight.dtype == torch.float32
    return weight.to_mkldnn() if takes else weight


def product(rows: Float[Tensor, "N d"], count: int, weight: Tensor) -> Float[Tensor, "count G"]:
    """Return ``rows[:count] @ weight.T``.

    oneDNN uses the widest registers of any make of processor, unlike MKL. Rows are computed in
    whole blocks, because oneDNN prepares a kernel for every shape.

    Args:
        rows: `whole_blocks` of rows; those beyond ``count`` may hold anything.
        count: Number of rows to multiply.
        weight: A `prepared` weight, ``(G, d)``.

    Returns:
        The product.
    """
    if not weight.is_mkldnn:
        return functional.linear(rows[:count], weight)
    return functional.linear(rows[: whole_blocks(count)].to_mkldnn(), weight).to_dense()[:count]

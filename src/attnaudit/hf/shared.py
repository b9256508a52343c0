"""Keys and values of the earlier tokens of a text, shared by all rows of a batch in which each writes the same next token.

The rows are the same text under other attention: their earlier tokens are the same, and only what the new token adds is a row's own. A
pass over copies of the kept keys would spend its time on copying them.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import torch
from torch import Tensor


def shared(prefix: Any, rows: int) -> Any:
    """A cache of transformers, of one text, for a pass of ``rows`` rows; the cache itself is not changed.

    An attention of B rows is given keys and values (1, H, T + B, D): those of the T earlier tokens, then one of each row, which is its own
    (`capture` computes it so). What an encoder gave is repeated.
    """
    found = copy.copy(prefix)
    if hasattr(prefix, "cross_attention_cache"):
        found.self_attention_cache = shared(prefix.self_attention_cache, rows)
        found.cross_attention_cache = copy.deepcopy(prefix.cross_attention_cache)
        found.cross_attention_cache.batch_repeat_interleave(rows)
        found.is_updated = dict(prefix.is_updated)
    else:
        found.layers = [_layer(layer) for layer in prefix.layers]
    return found


def _layer(layer: Any) -> Any:
    """A layer of a cache to which the rows of one pass add their own keys and values."""
    found = copy.copy(layer)
    found.update = partial(_with_own, layer)
    return found


def _with_own(
    layer: Any, keys: Tensor, values: Tensor, *args: Any, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    """The kept keys and values with those of the rows, of (B, H, 1, D) each: two of (1, H, T + B, D)."""
    return torch.cat([layer.keys, keys.transpose(0, 2)], dim=-2), torch.cat(
        [layer.values, values.transpose(0, 2)], dim=-2
    )

"""`torch.nn.MultiheadAttention` with one query for each text, in two steps: the weights of its heads, and what any weights give."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from attnaudit.core.errors import InputError

MULTIHEAD = functional.multi_head_attention_forward
_ARGUMENTS = signature(MULTIHEAD)
_KEYS_OF_ITS_OWN = ("bias_k", "bias_v", "add_zero_attn", "static_k", "static_v")
SAME = 1e-5  # of its output, relative to the largest number


class Multihead:
    """One call of the function behind the module, of its arguments. Raises InputError for a call that pools nothing.

    ``weights`` are those of its heads (B, H, T), ``output(weights)`` what the call returns under these: (1, B, E), and the weights if they
    are asked for.
    """

    def __init__(self, given: dict[str, Any]) -> None:
        query, key = given["query"], given["key"]
        self.given, self.heads = given, int(given["num_heads"])
        if query.dim() != 3 or query.shape[0] != 1:
            got = (
                f"{query.shape[0]} queries for each text"
                if query.dim() == 3
                else "texts without a dimension of the batch"
            )
            _refuse(got, "one query for each text, which pools its tokens")
        added = [
            name
            for name in _KEYS_OF_ITS_OWN
            if given[name] is not None and given[name] is not False
        ]
        if added:
            _refuse(
                f"keys of its own ({', '.join(added)})", "weights over the tokens of the text alone"
            )
        self.size = key.shape[0]

    @classmethod
    def of(cls, *args: Any, **kwargs: Any) -> Multihead:
        bound = _ARGUMENTS.bind(*args, **kwargs)
        bound.apply_defaults()
        return cls(bound.arguments)

    @property
    def weights(self) -> Float[Tensor, "B H T"]:
        query, key = self._projected(0, "query"), self._projected(1, "key")
        scores = torch.einsum("bhqd,bhtd->bht", query, key) * query.shape[-1] ** -0.5
        padding, mask = self.given["key_padding_mask"], self.given["attn_mask"]
        if padding is not None:
            scores = scores + _added(padding, scores)[:, None]
        if mask is not None:
            shape = (1, 1, self.size) if mask.dim() == 2 else (-1, self.heads, self.size)
            scores = scores + _added(mask, scores).reshape(shape)
        return scores.softmax(dim=-1)

    def output(self, weights: Float[Tensor, "B H T"]) -> tuple[Tensor, Tensor | None]:
        sums = torch.einsum("bht,bhtd->bhd", weights, self._projected(2, "value"))
        made = functional.linear(
            sums.flatten(1), self.given["out_proj_weight"], self.given["out_proj_bias"]
        )[None]
        if not self.given["need_weights"]:
            return made, None
        return made, weights.mean(dim=1)[:, None] if self.given[
            "average_attn_weights"
        ] else weights[:, :, None]

    def checked(self, found: tuple[Tensor, Tensor | None]) -> None:
        """Raise InputError where the function itself gives another output under its own weights."""
        gap = float(
            (self.output(self.weights)[0] - found[0]).abs().max()
            / found[0].abs().max().clamp(min=1e-30)
        )
        if not gap <= SAME:
            _refuse(
                f"an output that differs by {gap:.2g} from the weighted sums of its heads",
                f"at most {SAME:g}",
            )

    def _projected(self, number: int, name: str) -> Float[Tensor, "B H n d"]:
        """Query, key or value of each head."""
        given, bias = self.given, self.given["in_proj_bias"]
        separate = given["use_separate_proj_weight"]
        weight = (
            given[f"{name[0]}_proj_weight"]
            if separate
            else given["in_proj_weight"].chunk(3)[number]
        )
        made = functional.linear(
            given[name], weight, None if bias is None else bias.chunk(3)[number]
        )
        return made.reshape(len(made), -1, self.heads, made.shape[-1] // self.heads).permute(
            1, 2, 0, 3
        )


def _added(mask: Tensor, scores: Tensor) -> Tensor:
    """A mask as numbers that are added to scores: one of booleans is true where nothing is attended to."""
    return (
        torch.zeros_like(mask, dtype=scores.dtype).masked_fill(mask, -torch.inf)
        if mask.dtype == torch.bool
        else mask
    )


def _refuse(got: str, expected: str) -> None:
    raise InputError("collect", "MultiheadAttention", got, expected)


def run(
    func: Callable[..., Any], args: Any, kwargs: Any, new: Tensor | None
) -> tuple[Any, Float[Tensor, "B H T"]]:
    """What the function ``func`` returns, with ``new`` weights (B, H, T) in place of its own where they are given, and its own weights."""
    call = Multihead.of(*args, **kwargs)
    own = call.weights
    if new is not None:
        return call.output(functional.pad(new, (0, call.size - new.shape[2])).to(own)), own
    found = func(*args, **kwargs)
    call.checked(found)
    return found, own

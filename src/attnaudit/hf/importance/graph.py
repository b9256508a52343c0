"""Attention rollout and attention flow (Abnar & Zuidema 2020): attention of all layers as one graph from a query to the tokens."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Float64, Int32, Int64
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow
from torch import Tensor

from attnaudit.core.errors import InputError
from attnaudit.hf.importance.case import OPERATION, Case, moved_back

SCALE = 10**9  # capacities are whole numbers to the solver, of 32 bits
TEXT, WRITTEN = "text", "written"


def rollout(case: Case) -> Float[Tensor, "B T"]:
    """The share of every token in what the query mixes over all layers: heads averaged, ``A = ½W + ½I`` multiplied over the layers.

    Shares sum to 1. Cross-attention is a layer of the decoder that mixes in what the encoder has made of the text; then what the decoder
    has written makes up the rest of the sum, unless that is the text itself.
    """
    text = torch.eye(case.mask.shape[1], device=case.mask.device).expand(len(case.mask), -1, -1)
    decoder: Tensor | None = None  # over the text, and then over what the decoder is given
    for layer, attention in zip(case.gate.layers, case.attentions, strict=True):
        weights = mixed(attention.weights)
        if not case.is_written(layer):
            text = 0.5 * weights @ text + 0.5 * text
            continue
        if decoder is None:
            decoder = torch.eye(weights.shape[1], device=text.device).expand(len(text), -1, -1)
            decoder = torch.cat(
                [torch.zeros(*decoder.shape[:2], text.shape[2], device=text.device), decoder], dim=2
            )
        below = (
            torch.cat([text, torch.zeros(*text.shape[:2], decoder.shape[1], device=text.device)], 2)
            if _across(layer.stack)
            else decoder
        )
        decoder = 0.5 * weights @ below + 0.5 * decoder
    found = (text if decoder is None else decoder)[
        torch.arange(len(text), device=text.device), case.query
    ]
    tokens = text.shape[2]
    return (
        found[:, :tokens] + moved_back(found[:, tokens:])
        if case.decoder_reads_text
        else found[:, :tokens]
    )


def mixed(weights: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B Q K"]:
    """Heads averaged; what a sink takes is shared by the tokens, so that rows sum to 1."""
    mean = weights.float().mean(dim=1)
    return mean / mean.sum(dim=-1, keepdim=True).clamp(min=1e-12)


def _across(stack: str) -> bool:
    return stack == "cross"


def flow(case: Case) -> Float[Tensor, "B T"]:
    """The largest flow from the query to every token of the text, through edges whose capacities are the entries of ``½W + ½I``.

    Each token has a flow of its own, as if it were alone; it is exact to 1e-7. Raises InputError for a text of more than ``case.longest``
    tokens: the time grows with the cube of the length.
    """
    longest = int(case.texts.ids.lengths.max())
    if longest > case.longest:
        raise InputError(
            OPERATION,
            "flow",
            f"a text of {longest} tokens",
            f"{case.longest} at most",
            "omit flow, or select shorter texts",
        )
    weights = [
        mixed(attention.weights).cpu().numpy().astype(np.float64) for attention in case.attentions
    ]
    out = torch.zeros(case.mask.shape)
    for row, length in enumerate(case.texts.ids.lengths.tolist()):
        graph = _Graph.of(case, [one[row] for one in weights])
        source = graph.first[graph.top] + int(case.query[row])
        for token in range(length):
            again = case.decoder_reads_text and token + 1 < length
            into = [
                graph.first[TEXT, 0] + token,
                *([graph.first[WRITTEN, 0] + token + 1] if again else []),
            ]
            out[row, token] = graph.flow(source, into)
    return out.to(case.mask.device)


class _Graph:
    """Nodes are (stack, level, position), numbered from ``first[stack, level]``; edges go down from ``begin`` to ``end``."""

    def __init__(
        self,
        first: dict[tuple[str, int], int],
        top: tuple[str, int],
        size: int,
        edges: list[tuple[np.ndarray, ...]],
    ) -> None:
        self.first, self.top, self.size = first, top, size
        self.begin: Int64[np.ndarray, " E"] = np.concatenate([begin for begin, _, _ in edges])
        self.end: Int64[np.ndarray, " E"] = np.concatenate([end for _, end, _ in edges])
        self.capacity: Int32[np.ndarray, " E"] = np.round(
            SCALE * np.concatenate([part for *_, part in edges])
        ).astype(np.int32)

    @classmethod
    def of(cls, case: Case, weights: list[Float64[np.ndarray, "_ _"]]) -> _Graph:
        first, level, size, edges = {(TEXT, 0): 0}, {TEXT: 0, WRITTEN: -1}, case.mask.shape[1], []
        stack = TEXT
        for layer, one in zip(case.gate.layers, weights, strict=True):
            stack = WRITTEN if case.is_written(layer) else TEXT
            for _ in range(
                2 if level[stack] < 0 else 1
            ):  # the first time a decoder is met, what it is given, too
                level[stack] += 1
                first[stack, level[stack]], size = size, size + len(one)
            here, below = first[stack, level[stack]], first[stack, level[stack] - 1]
            queries, keys = np.nonzero(one)
            every = np.arange(len(one))
            keyed = first[TEXT, level[TEXT]] if _across(layer.stack) else below
            edges += [
                (here + queries, keyed + keys, 0.5 * one[queries, keys]),
                (here + every, below + every, np.full(len(one), 0.5)),
            ]
        return cls(first, (stack, level[stack]), size, edges)

    def flow(self, source: int, into: list[int]) -> float:
        """The largest flow from a node to some others together: behind them is one sink."""
        sink = self.size
        values = np.concatenate([self.capacity, np.full(len(into), 2 * SCALE, np.int32)])
        place = (
            np.concatenate([self.begin, into]),
            np.concatenate([self.end, np.full(len(into), sink)]),
        )
        whole = coo_array((values, place), shape=(sink + 1, sink + 1)).tocsr()
        return maximum_flow(whole, source, sink).flow_value / SCALE

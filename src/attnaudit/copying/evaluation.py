"""Evaluation of a copying model: accuracies of its output, attention and output relevance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from attnaudit.copying.model import Copier, Symbols, as_symbols
from attnaudit.core.ragged import Ragged
from attnaudit.stats.agreement import agreement

# Output relevance holds S × B × V logits for each written symbol, so B is bounded.
SEQUENCES_AT_ONCE = 32


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Means over the written positions; measures of attention are None while it is uniform.

    Attributes:
        loss: Cross-entropy in nats.
        token: Share whose most probable symbol is the gold one, given the gold symbols before it.
        attention: Share whose largest weight, mean over heads, is at the source of the symbol.
        relevance: Share whose highest output relevance is at the source of the symbol.
        relevance_least: Share whose lowest output relevance is there. The dictionary of such a
            model is upside down.
        attention_symbol: Like ``attention``, but any position with the symbol counts.
        relevance_symbol: Like ``relevance``, but any position with the symbol counts.
        entropy: Entropy of attention in nats, mean over heads.
        agreement: Share whose largest weight is in the top 5 % of output relevance
            (`stats.agreement`).
        attended: Median distance in positions from the symbol's source to the largest weight;
            negative if the weight is before the source.
        heads: ``attention`` of each head.
    """

    loss: float
    token: float
    attention: float | None = None
    relevance: float
    relevance_least: float
    attention_symbol: float | None = None
    relevance_symbol: float
    entropy: float | None = None
    agreement: float | None = None
    attended: float | None = None
    heads: tuple[float, ...]


@torch.no_grad()
def evaluate(
    model: Copier,
    source: Int64[np.ndarray, "N S"],
    gold: Int64[np.ndarray, "N T"],
    positions: Int64[np.ndarray, " T"],
    uniform: bool = False,
) -> Evaluation:
    """Evaluate a model on sequences.

    Args:
        model: The model.
        source: Symbols to read.
        gold: Symbols to write.
        positions: Source position of each written symbol.
        uniform: True to hold attention at 1/S.

    Returns:
        Means over all written symbols.
    """
    expected = torch.from_numpy(positions)
    parts = []
    for start in range(0, len(source), SEQUENCES_AT_ONCE):
        rows = slice(start, start + SEQUENCES_AT_ONCE)
        symbols, targets = as_symbols(source[rows], gold[rows])
        parts.append(_evaluate_batch(model, symbols, targets, expected, uniform))
    values = {
        name: torch.cat([part[name].flatten() for part in parts]).double() for name in parts[0]
    }
    offset = values.pop("offset", None)
    means = {name: float(value.mean()) for name, value in values.items()}
    heads = tuple(means.pop(f"head {k}") for k in range(model.heads) if not uniform)
    # The median, because a few weights far from the source would dominate a mean.
    attended = None if offset is None else float(np.median(offset.numpy()))
    return Evaluation(**means, attended=attended, heads=heads)


def _evaluate_batch(
    model: Copier, source: Symbols, gold: Symbols, expected: Int64[Tensor, " T"], uniform: bool
) -> dict[str, Tensor]:
    """Return one value per written position, and one entropy per position and head."""
    result = model(source, gold, uniform)
    logp, relevance = result.logits.log_softmax(2), model.output_relevance(result, gold)
    symbols, relevant = source.t(), relevance.argmax(2)
    values = {
        "loss": -logp.gather(2, gold[..., None]),
        "token": logp.argmax(2) == gold,
        "relevance": relevant == expected,
        "relevance_least": relevance.argmin(2) == expected,
        "relevance_symbol": symbols.gather(1, relevant) == symbols[:, expected],
    }
    if uniform:
        return values
    alpha, heads = result.alpha.mean(1), enumerate(result.alpha.unbind(1))
    attended = alpha.argmax(2)
    # The same measure of agreement as for traces, which takes ragged rows.
    weights, scores = (
        Ragged.from_rows(list(each.flatten(0, 1).numpy())) for each in (alpha, relevance)
    )
    return values | {
        "attention": attended == expected,
        "attention_symbol": symbols.gather(1, attended) == symbols[:, expected],
        "entropy": torch.special.entr(result.alpha).sum(3),
        "agreement": torch.from_numpy(agreement(weights, scores)),
        "offset": attended - expected,
        **{f"head {k}": of_head.argmax(2) == expected for k, of_head in heads},
    }

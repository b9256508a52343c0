"""Attention: one score per position, and the distribution over the attended ones.

In a model with a question the scores also depend on the question's summary Q. Its share of a score is computed once per text (`condition`)
and passed to the other functions in a shape that broadcasts against the hidden states. With several heads a position has a score for each,
in the last axis.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from attnaudit.models.presets import ModelSettings, check_attention
from attnaudit.models.product import prepared, product

ALL = slice(None)
Scorer = Callable[[Tensor, int, Tensor], Tensor]
"""Scores ``(S, B)`` of S runs at one position of B texts: from the units of one part of ``h``, one run after another (`product`), from S
and from the share ``(B, a)`` of the other part."""


class Additive(nn.Module):
    """``v · tanh(W₁ h + W₂ Q)`` (Bahdanau et al. 2015), by default with half as many units as ``h`` has; no ``Q`` without a question."""

    def __init__(
        self, width: int, has_question: bool = False, units: int | None = None, heads: int = 1
    ) -> None:
        super().__init__()
        units = units or max(width // 2, 1)
        self.units = nn.Linear(width, units)
        # The attribute names the weights in stored models.
        self.asked = nn.Linear(width, units, bias=False) if has_question else None
        self.score = nn.Linear(units, heads, bias=False)

    def condition(self, question: Float[Tensor, "B m"]) -> Float[Tensor, "B a"]:
        """The question's share of the units of every position."""
        assert self.asked is not None
        return self.asked(question)

    def forward(
        self, hidden: Float[Tensor, "*n m"], query: Tensor | None = None
    ) -> Float[Tensor, "*scores"]:
        return self.finish(self.project(hidden, query), query)

    def project(
        self, hidden: Float[Tensor, "*n d"], query: Tensor | None = None, part: slice = ALL
    ) -> Float[Tensor, "*n a"]:
        """The linear share that the units ``part`` of ``h`` have in the score; shares add up."""
        return functional.linear(hidden, self.units.weight[:, part])

    def finish(
        self, projected: Float[Tensor, "*n a"], query: Tensor | None = None
    ) -> Float[Tensor, "*scores"]:
        """The score of the summed shares."""
        inner = (
            projected + self.units.bias if query is None else projected + self.units.bias + query
        )
        return self.score(torch.tanh(inner)).squeeze(-1)

    def scorer(self, part: slice, query: Float[Tensor, "B a"] | None = None) -> Scorer:
        """Scores up to a constant, with ``tanh x = 2σ(2x) − 1``: on a CPU the sigmoid takes a fifth of the tanh's time."""
        weight, score = prepared(2.0 * self.units.weight[:, part]), 2.0 * self.score.weight[0]
        bias = self.units.bias if query is None else self.units.bias + query

        def scores(hidden: Tensor, runs: int, rest: Tensor) -> Tensor:
            inner = product(hidden, runs * len(rest), weight).view(runs, len(rest), -1)
            return inner.add_(2.0 * (rest + bias)).sigmoid_() @ score

        return scores


class Dot(nn.Module):
    """``h · Q / √m``, with a learned vector for ``Q`` without a question (Vaswani et al. 2017)."""

    def __init__(self, width: int, has_question: bool = False, heads: int = 1) -> None:
        super().__init__()
        self.query = None if has_question else nn.Linear(width, heads, bias=False)
        self.scale = width**-0.5

    def condition(self, question: Float[Tensor, "B m"]) -> Float[Tensor, "B m"]:
        return question

    def forward(
        self, hidden: Float[Tensor, "*n m"], query: Tensor | None = None
    ) -> Float[Tensor, "*scores"]:
        return self.finish(self.project(hidden, query), query)

    def project(
        self, hidden: Float[Tensor, "*n d"], query: Tensor | None = None, part: slice = ALL
    ) -> Float[Tensor, "*n a"]:
        if self.query is not None:
            return functional.linear(hidden, self.query.weight[:, part])
        assert query is not None
        return (hidden * query[..., part]).sum(dim=-1, keepdim=True)

    def finish(
        self, projected: Float[Tensor, "*n a"], query: Tensor | None = None
    ) -> Float[Tensor, "*scores"]:
        return projected.squeeze(-1) * self.scale

    def scorer(self, part: slice, query: Float[Tensor, "B m"] | None = None) -> Scorer:
        def scores(hidden: Tensor, runs: int, rest: Tensor) -> Tensor:
            return self.finish(
                self.project(hidden[: runs * len(rest)].view(runs, len(rest), -1), query, part)
                + rest
            )

        return scores


class Uniform(nn.Module):
    """The same score for every position: attention frozen at 1/T, nothing to learn (Wiegreffe & Pinter 2019)."""

    def condition(self, question: Float[Tensor, "B m"]) -> Float[Tensor, "B m"]:
        return question

    def forward(
        self, hidden: Float[Tensor, "*n m"], query: Tensor | None = None
    ) -> Float[Tensor, "*n"]:
        return hidden.new_zeros(hidden.shape[:-1])

    def project(
        self, hidden: Float[Tensor, "*n d"], query: Tensor | None = None, part: slice = ALL
    ) -> Float[Tensor, "*n 1"]:
        return hidden.new_zeros(*hidden.shape[:-1], 1)

    def finish(
        self, projected: Float[Tensor, "*n 1"], query: Tensor | None = None
    ) -> Float[Tensor, "*n"]:
        return projected.squeeze(-1)

    def scorer(self, part: slice, query: Float[Tensor, "B m"] | None = None) -> Scorer:
        return lambda hidden, runs, rest: rest.new_zeros(runs, len(rest))


class LogOdds(Uniform):
    """Scores that words have by themselves, fixed before training (`log_odds`): the released code of Jain & Wallace 2019."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.odds: Tensor
        self.register_buffer("odds", torch.zeros(words))

    def forward(self, hidden: Tensor, query: Tensor | None = None) -> Tensor:
        raise NotImplementedError("scores of words, not of hidden states: see `of_words`")

    def of_words(self, ids: Int[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        return self.odds[ids]


Attention = Additive | Dot | Uniform | LogOdds


def make_attention(
    settings: ModelSettings, width: int, has_question: bool = False, words: int = 0
) -> Attention:
    """The attention of a model whose hidden states have ``width`` numbers; ``imposed`` weights need no scores of their own.

    ``words`` is the size of the vocabulary. Raises InputError for log-odds in a model whose positions are not the words of one text.
    """
    check_attention(settings, has_question)
    if settings.attention == "log_odds":
        return LogOdds(words)
    if settings.attention == "additive":
        return Additive(width, has_question, settings.attention_units, settings.heads)
    return Dot(width, has_question, settings.heads) if settings.attention == "dot" else Uniform()


def attend(
    scores: Float[Tensor, "B *H L"], attended: Bool[Tensor, "B *one L"]
) -> Float[Tensor, "B *H L"]:
    """Softmax over the attended positions, exactly 0 elsewhere; a row with none attended is all 0."""
    lowest = torch.finfo(scores.dtype).min
    weights = torch.softmax(scores.masked_fill(~attended, lowest), dim=-1)
    return weights * attended

"""Attention: a score for each position, and the distribution over the attended positions.

In a model with a question, the scores also depend on the question's summary Q. Its share of a score
is computed once per text (`Attention.condition`) and broadcasts against the hidden states. With
several heads, each position has one score per head, in the last axis.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from attnaudit.models.presets import ModelSettings
from attnaudit.models.product import prepared, product

ALL = slice(None)
Part = Float[Tensor, "*n d"]
Share = Float[Tensor, "*n a"]
Query = Float[Tensor, "B a"]
Scores = Float[Tensor, "*scores"]
Alpha = Float[Tensor, "B *H L"]
Scorer = Callable[[Tensor, int, Tensor], Tensor]
"""Function ``(hidden, S, rest) -> scores (S, B)`` for S runs at one position of B texts.

``hidden`` holds one part of the units of ``h``, run after run, padded to `whole_blocks`. ``rest``,
``(B, a)``, is the share of the other units.
"""


class Attention(nn.Module):
    """Scores of positions, computed as a sum of shares, one per part of the hidden states.

    Leave-one-out relies on the split: a deletion changes the units of one reading direction, and
    the share of the others is computed once.

    Attributes:
        hard: All weight is on the position with the largest score (`attend`).
    """

    hard = False

    def condition(self, question: Float[Tensor, "B m"]) -> Query:
        """Return the share of the question in every score."""
        return question

    def forward(self, hidden: Float[Tensor, "*n m"], query: Tensor | None = None) -> Scores:
        """Return the scores of positions.

        Args:
            hidden: Hidden states.
            query: The share of the question, from `condition`, broadcast against ``hidden``.

        Returns:
            One score per position and, with several heads, per head.
        """
        return self.finish(self.project(hidden, query), query)

    def project(self, hidden: Part, query: Tensor | None = None, part: slice = ALL) -> Share:
        """Return the linear share of some units in the score.

        Args:
            hidden: Values of these units, ``(*n, d)``.
            query: The share of the question, from `condition`.
            part: The units of ``h`` that ``hidden`` holds.

        Returns:
            The share, before the nonlinearity.
        """
        raise NotImplementedError

    def finish(self, projected: Share, query: Tensor | None = None) -> Scores:
        """Return the score of the summed shares."""
        return projected.squeeze(-1)

    def scorer(self, part: slice, query: Query | None) -> Scorer:
        """Return a function that scores many runs at once, up to a constant.

        Args:
            part: The units of ``h`` that differ between runs.
            query: The share of the question.

        Returns:
            The function.
        """

        def scores(hidden, runs, rest):
            own = hidden[: runs * len(rest)].view(runs, len(rest), -1)
            return self.finish(self.project(own, query, part) + rest)

        return scores


class Additive(Attention):
    """``v · tanh(W₁ h + W₂ Q)`` (Bahdanau et al. 2015); without a question there is no Q.

    By default the layer has half as many units as ``h``.
    """

    def __init__(
        self, width: int, has_question: bool = False, units: int | None = None, heads: int = 1
    ) -> None:
        super().__init__()
        # Half the width, as in the released code of Jain & Wallace 2019.
        units = units or max(width // 2, 1)
        self.units = nn.Linear(width, units)
        # Stored models name their weights after this attribute, so it cannot be renamed.
        self.asked = nn.Linear(width, units, bias=False) if has_question else None
        self.score = nn.Linear(units, heads, bias=False)

    def condition(self, question: Float[Tensor, "B m"]) -> Query:
        """Return the share of the question in the units of every position."""
        assert self.asked is not None
        return self.asked(question)

    def project(self, hidden: Part, query: Tensor | None = None, part: slice = ALL) -> Share:
        """Return the share of the units ``part`` of ``h``."""
        return functional.linear(hidden, self.units.weight[:, part])

    def finish(self, projected: Share, query: Tensor | None = None) -> Scores:
        """Return the score of the summed shares."""
        inner = projected + self.units.bias
        return self.score(torch.tanh(inner if query is None else inner + query)).squeeze(-1)

    def scorer(self, part: slice, query: Query | None) -> Scorer:
        """Return a function that scores many runs at once, up to a constant."""
        # tanh x = 2σ(2x) − 1, since a sigmoid takes a fifth of the time of a tanh on a CPU. The −1
        # shifts all scores of a text alike, which the softmax ignores, so it is dropped.
        # Row 0 is the only head: leave-one-out reruns models that have several.
        weight, score = prepared(2.0 * self.units.weight[:, part]), 2.0 * self.score.weight[0]
        bias = self.units.bias if query is None else self.units.bias + query

        def scores(hidden, runs, rest):
            inner = product(hidden, runs * len(rest), weight).view(runs, len(rest), -1)
            return inner.add_(2.0 * (rest + bias)).sigmoid_() @ score

        return scores


class Hard(Additive):
    """Additive scores, with all weight on the position that has the largest."""

    hard = True


class Dot(Attention):
    """``h · Q / √m`` (Vaswani et al. 2017); without a question, Q is a learned vector."""

    def __init__(self, width: int, has_question: bool, heads: int) -> None:
        super().__init__()
        self.query = None if has_question else nn.Linear(width, heads, bias=False)
        self.scale = width**-0.5

    def project(self, hidden: Part, query: Tensor | None = None, part: slice = ALL) -> Share:
        """Return the share of the units ``part`` of ``h``."""
        if self.query is not None:
            return functional.linear(hidden, self.query.weight[:, part])
        assert query is not None
        return (hidden * query[..., part]).sum(dim=-1, keepdim=True)

    def finish(self, projected: Share, query: Tensor | None = None) -> Scores:
        """Return the score of the summed shares."""
        return projected.squeeze(-1) * self.scale


class Uniform(Attention):
    """The same score for every position: attention frozen at 1/T (Wiegreffe & Pinter 2019)."""

    def project(
        self, hidden: Part, query: Tensor | None = None, part: slice = ALL
    ) -> Float[Tensor, "*n 1"]:
        """Return zeros."""
        return hidden.new_zeros(*hidden.shape[:-1], 1)


class LogOdds(Uniform):
    """Scores of words, fixed before training (`log_odds`; released code of Jain & Wallace 2019)."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.odds: Tensor
        self.register_buffer("odds", torch.zeros(words))

    def forward(self, hidden: Tensor, query: Tensor | None = None) -> Tensor:
        """Refuse, because these scores depend on words, not on hidden states (`of_words`)."""
        raise NotImplementedError("scores of words, not of hidden states: see `of_words`")

    def of_words(self, ids: Int[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        """Return the scores of words by their numbers."""
        return self.odds[ids]


def make_attention(
    settings: ModelSettings, width: int, has_question: bool = False, words: int = 0
) -> Attention:
    """Build the attention of a model.

    Args:
        settings: Settings of the model; ``imposed`` attention needs no scores of its own.
        width: Width of the hidden states.
        has_question: True if the model reads a question.
        words: Size of the vocabulary.

    Returns:
        The module.
    """
    match settings.attention:
        case "log_odds":
            return LogOdds(words)
        case "additive" | "hard" as name:
            kind = Hard if name == "hard" else Additive
            return kind(width, has_question, settings.attention_units, settings.heads)
        case "dot":
            return Dot(width, has_question, settings.heads)
        case _:
            return Uniform()


def attend(scores: Alpha, attended: Bool[Tensor, "B *one L"], hard: bool = False) -> Alpha:
    """Return the softmax over the attended positions, or its largest weight as 1.

    Args:
        scores: Score of each position.
        attended: Mask of the attended positions.
        hard: Put weight 1 on the first position with the largest score. Its gradient is that of the
            softmax (straight-through estimator, Bengio et al. 2013).

    Returns:
        Weights, exactly 0 at other positions. A row without attended positions is 0 everywhere.
    """
    # The lowest number rather than −∞, because a row of −∞ only would become NaN.
    lowest = torch.finfo(scores.dtype).min
    weights = torch.softmax(scores.masked_fill(~attended, lowest), dim=-1)
    if hard:
        chosen = torch.zeros_like(weights).scatter(-1, weights.argmax(dim=-1, keepdim=True), 1.0)
        weights = chosen + (weights - weights.detach())
    return weights * attended

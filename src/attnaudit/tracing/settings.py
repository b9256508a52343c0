"""Settings of traces. Plans and reports read them, so nothing here imports torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from attnaudit.core.errors import InputError
from attnaudit.core.settings import setting

Outputs = Literal["all", "predicted"]
Score = Literal["gradient", "loo"]


@dataclass(frozen=True)
class CollectSettings:
    """Settings of the trace of a classifier."""

    gradient_of: Outputs = setting(
        "Outputs whose gradients are taken: all (summed), or the predicted one.", "all"
    )
    level: Literal["positions", "words"] = setting(
        "For a hierarchical model; words: record words instead of sentences.", "positions"
    )
    erase_input: bool = setting(
        "Also delete tokens from the texts by every score and rerun the model, at thirty times "
        "the cost.",
        False,
    )
    scores: tuple[Score, ...] = setting(
        "Importance scores to compute: gradients and leave-one-out.", ("gradient", "loo")
    )


@dataclass(frozen=True)
class PairCollectSettings:
    """Settings of the trace of a translator.

    Raises:
        InputError: A number is out of range.
    """

    pairs: int | None = setting(
        "Number of test pairs to trace, drawn with the seed; none: all.", 200
    )
    words: int = setting(
        "Number of vocabulary words that a row keeps, including the gold token.", 5
    )
    scores: tuple[Score, ...] = setting(
        "Importance scores to compute: gradients of the gold token's probability, and "
        "leave-one-out as TVD over all words.",
        ("gradient", "loo"),
    )

    def __post_init__(self) -> None:
        if self.words < 2:
            expected = "2 or more: the gold token and another"
            raise InputError("collect", "setting collect.words", str(self.words), expected)
        if self.pairs is not None and self.pairs < 1:
            expected = "1 or more, or null for all"
            raise InputError("collect", "setting collect.pairs", str(self.pairs), expected)

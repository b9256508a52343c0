"""What a trace records, as values: read by plans and reports, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from attnaudit.core.errors import InputError
from attnaudit.core.settings import setting

Outputs = Literal["all", "predicted"]
Score = Literal["gradient", "loo"]


@dataclass(frozen=True)
class CollectSettings:
    """What the trace of a classifier records."""

    gradient_of: Outputs = setting(
        "Outputs whose gradients are taken: all (summed), or the predicted one.", "all"
    )
    level: Literal["positions", "words"] = setting(
        "For a hierarchical model; words: record words instead of sentences.", "positions"
    )
    erase_input: bool = setting(
        "Also delete tokens from the texts by every score and rerun the model, at thirty times the cost.",
        False,
    )
    scores: tuple[Score, ...] = setting(
        "Importance scores to compute: gradients and leave-one-out.", ("gradient", "loo")
    )


@dataclass(frozen=True)
class PairCollectSettings:
    """What the trace of a translator records. Raises InputError for a number out of range."""

    pairs: int | None = setting(
        "Number of test pairs to trace, drawn with the seed; none: all.", 200
    )
    words: int = setting(
        "Number of vocabulary words that a row keeps, including the gold token.", 5
    )
    scores: tuple[Score, ...] = setting(
        "Importance scores to compute: gradients of the gold token's probability, and leave-one-out as TVD over all words.",
        ("gradient", "loo"),
    )

    def __post_init__(self) -> None:
        if self.words < 2:
            raise InputError(
                "collect",
                "setting collect.words",
                str(self.words),
                "2 or more: the gold token and another",
            )
        if self.pairs is not None and self.pairs < 1:
            raise InputError(
                "collect", "setting collect.pairs", str(self.pairs), "1 or more, or null for all"
            )

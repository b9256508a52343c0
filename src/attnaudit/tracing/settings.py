"""What a trace records, as values: read by plans and reports, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from attnaudit.core.errors import InputError

Outputs = Literal["all", "predicted"]
Score = Literal["gradient", "loo"]


@dataclass(frozen=True)
class CollectSettings:
    """What the trace of a classifier records.

    ``gradient_of``: the outputs of which gradients are taken, all (summed) or the predicted one. ``level`` "words" records the words of a
    hierarchical model instead of its sentences. ``erase_input`` also deletes tokens from the texts by every score and reruns the model,
    thirty times. ``scores`` are the importance scores to compute.
    """

    gradient_of: Outputs = "all"
    level: Literal["positions", "words"] = "positions"
    erase_input: bool = False
    scores: tuple[Score, ...] = ("gradient", "loo")


@dataclass(frozen=True)
class PairCollectSettings:
    """What the trace of a translator records. Raises InputError for a number out of range.

    ``pairs`` is the number of test pairs, drawn with the seed (None: all). ``words`` is the number of words of the vocabulary that a row
    keeps, the gold token included. ``scores`` are the importance scores to compute: ``gradient`` of the probability of the gold token,
    ``loo`` as TVD over all words.
    """

    pairs: int | None = 200
    words: int = 5
    scores: tuple[Score, ...] = ("gradient", "loo")

    def __post_init__(self) -> None:
        if self.words < 2:
            raise InputError("collect", "setting collect.words", str(self.words), "2 or more: the gold token and another")
        if self.pairs is not None and self.pairs < 1:
            raise InputError("collect", "setting collect.pairs", str(self.pairs), "1 or more, or null for all")

"""The texts and heads of a transformer's audit that fit into its budget.

The work is counted: passes that read whole texts, and outputs under other attention that the
experiments ask of each row. One measured pass of each kind gives the seconds. Both are decided
before the first row; a run that is resumed reads them from its ``spec.json``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attnaudit.core import InputError
from attnaudit.corpora.read import Draw
from attnaudit.experiments import Experiment
from attnaudit.experiments.registry import Replaying
from attnaudit.hf.choose import Chosen
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.network import Replay, pass_seconds
from attnaudit.tracing.replacement import copies_of
from attnaudit.tracing.settings import ReplacementSettings

OTHERS = 12  # passes over a text for all measures of importance but leave-one-out
OVERHEAD = 1e-4  # seconds around each replay, in which nothing of the model runs
LEAST_TEXTS = 10  # fewer say little of a head, so heads are left out first


@dataclass(frozen=True)
class Allotted:
    """Parts of an audit.

    Attributes:
        texts: Number of texts.
        heads: Numbers of the heads of each layer.
        seconds: Estimated CPU time.
        of_all: Estimate for all texts and heads.
    """

    texts: int
    heads: list[int]
    seconds: float
    of_all: float

    def rows(self, encoded: Encoded, seed: int) -> Encoded:
        """Draw the texts."""
        known = np.unique(encoded.instance)
        if self.texts >= len(known):
            return encoded
        drawn = known[Draw(self.texts, seed).of(len(known))]
        return encoded.take(np.flatnonzero(np.isin(encoded.instance, drawn)))

    def layers(self, chosen: Iterable[Chosen]) -> tuple[Chosen, ...]:
        """Leave out the other heads."""
        return tuple(
            replace(one, heads=tuple(head for head in one.heads if head in self.heads))
            for one in chosen
        )

    def notes(self, encoded: Encoded, chosen: Sequence[Chosen], budget: str) -> list[str]:
        """Say what is left out of all texts and attentions, if anything is."""
        texts, heads = len(np.unique(encoded.instance)), len(_heads(chosen))
        if (self.texts, len(self.heads)) == (texts, heads):
            return []
        return [
            f"{self.texts} of {texts} texts and {len(self.heads)} of {heads} heads of each layer "
            f"({', '.join(map(str, self.heads))}), as many as audit.budget={budget} allows: about "
            f"{self.seconds:.0f} s of CPU time, where all take {self.of_all:.0f} s; intervals are "
            "over these texts, and no figure is of the other heads"
        ]


def _heads(chosen: Iterable[Chosen]) -> list[int]:
    return sorted({head for one in chosen for head in one.heads})


def allot(
    network: Replay,
    encoded: Encoded,
    chosen: Sequence[Chosen],
    experiments: Iterable[Experiment],
    replacement: ReplacementSettings,
    budget: tuple[str, float],
    seed: int,
) -> Allotted:
    """Choose texts and heads by an estimate of the CPU time.

    Args:
        network: The model.
        encoded: All texts.
        chosen: All attentions.
        experiments: The experiments.
        replacement: Settings of the copies of texts.
        budget: The budget as it was given, and in seconds.
        seed: Seed of the heads.

    Raises:
        InputError: The budget is too small for one text.
    """
    texts, heads = len(np.unique(encoded.instance)), _heads(chosen)
    whole, replays, tokens = pass_seconds(network, encoded, chosen)
    scale = encoded.ids.lengths / tokens
    words = encoded.unit.max() + 1
    passes = [one.passes for one in experiments if isinstance(one, Replaying)]

    def of_texts(number):
        copied = min(number, replacement.texts)
        copies = copies_of(copied, replacement) * copied / number if copied else 0
        return number / texts * whole * float((scale * (words + copies + OTHERS)).sum())

    def of_heads(number):
        """Return the seconds of so many heads of each layer, for all texts."""
        size = sum(
            min(number, len(one.heads)) * (cost * scale**grows + OVERHEAD)
            for one, (cost, grows) in zip(chosen, replays, strict=True)
        )
        asked = (one(encoded.ids.lengths, number) for one in passes)
        return float((size * sum(asked, np.zeros(len(encoded)))).sum())

    def seconds(number, each):
        return of_texts(number) + number / texts * of_heads(each)

    counts = range(1, texts + 1)
    fit = [
        (number, each)
        for each in range(len(heads), 0, -1)
        if (number := bisect_right(counts, budget[1], key=lambda n, each=each: seconds(n, each)))
    ]
    if not fit:
        got = f"{budget[0]}, where one text and one head of each layer take {seconds(1, 1):.0f} s"
        do = "raise it, choose fewer --layers, or name the --experiment that you need"
        raise InputError("audit", "setting audit.budget", got, "enough for one text", do)
    enough = [one for one in fit if one[0] >= min(LEAST_TEXTS, texts)]
    number, each = enough[0] if enough else fit[-1]
    drawn = [heads[k] for k in Draw(each, seed).of(len(heads))]
    return Allotted(number, drawn, seconds(number, each), seconds(texts, len(heads)))

"""What has been read of a file, before classes have numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from attnaudit.corpora.corpus import SkippedRow, Split


@dataclass(frozen=True, slots=True)
class Example:
    """A row that can be used; ``length`` is its number of words before any cut, ``sentences`` the words of each where they are given."""

    instance: int
    tokens: list[str]
    length: int
    label: str
    question: list[str] | None = None
    rationale: list[bool] | None = None
    answers: tuple[str, ...] | None = None
    sentences: list[int] | None = None


@dataclass
class Gathered:
    """The examples of one file in the order of its ``rows``, and what was not used of it."""

    path: Path
    examples: list[Example] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    skipped: list[SkippedRow] = field(default_factory=list)
    rows: int = 0
    note: str = ""

    @property
    def labels(self) -> list[str]:
        return [example.label for example in self.examples]


def pooled(parts: Sequence[Gathered]) -> Gathered:
    """All parts as one; instances of later ones count on from the rows of those before."""
    whole = Gathered(parts[0].path.parent, note=parts[0].note)
    for part in parts:
        whole.examples += [replace(example, instance=example.instance + whole.rows) for example in part.examples]
        whole.left_out += part.left_out
        whole.skipped += part.skipped
        whole.rows += part.rows
    return whole


def as_split(examples: Sequence[Example], classes: Sequence[str]) -> Split:
    """Examples with numbered classes; answers that are no class are not among the candidates."""
    number = {name: index for index, name in enumerate(classes)}
    rationale = [example.rationale or [] for example in examples]
    return Split(
        np.array([example.instance for example in examples], dtype=np.int64),
        [example.tokens for example in examples],
        np.array([number[example.label] for example in examples], dtype=np.int32),
        rationale if any(example.rationale is not None for example in examples) else None,
        [example.question or [] for example in examples] if any(example.question for example in examples) else None,
        _candidates(examples, number),
        [example.sentences or [] for example in examples] if any(example.sentences for example in examples) else None,
    )


def _candidates(examples: Sequence[Example], number: dict[str, int]) -> Bool[np.ndarray, "n C"] | None:
    if all(example.answers is None for example in examples):
        return None
    allowed = np.zeros((len(examples), len(number)), dtype=bool)
    for row, example in enumerate(examples):
        if example.answers is None:
            allowed[row] = True
        else:
            allowed[row, [number[name] for name in example.answers if name in number]] = True
    return allowed

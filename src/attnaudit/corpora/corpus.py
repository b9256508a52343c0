"""A corpus once it is read: splits of token lists with labels, or of pairs of texts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int, Int32, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.corpora.formats.rows import SPLITS as SPLITS
from attnaudit.corpora.formats.rows import Segment, Span
from attnaudit.corpora.formats.rows import Task as Task


@dataclass(frozen=True, slots=True)
class RawText:
    """A text as its file has it.

    Attributes:
        text: The text.
        question: Its question.
        spans: Characters that decide the label; None if they are not known.
        segments: Its parts; None if they are not known.
        answer: The answer that a language model is to write.
    """

    text: str
    question: str | None = None
    spans: tuple[Span, ...] | None = None
    segments: tuple[Segment, ...] | None = None
    answer: str | None = None


@dataclass(frozen=True)
class Split:
    """``n`` instances of one split.

    Attributes:
        instance: Row of the source split from 0, before any filter; a stable id.
        tokens: Normalised words of each text, without BOS and EOS.
        label: Class of each text, from 0.
        rationale: Marks, for each token, of the words that are known to decide the label. None if
            not known; a row without entries is not known of that row.
        question: Words of the question, or hypothesis, that goes with each text.
        candidates: Classes that are allowed as answers; None for all.
        sentences: Number of words of every sentence; None if a rule is to find them.
        attention: Weights of another model, which sum to 1 in each row (`taught_by`).
        prediction: Probabilities of another model.
        raw: Texts before they are tokenised; None if not kept.
    """

    instance: Int64[np.ndarray, " n"]
    tokens: list[list[str]]
    label: Int32[np.ndarray, " n"]
    rationale: list[list[bool]] | None = None
    question: list[list[str]] | None = None
    candidates: Bool[np.ndarray, "n C"] | None = None
    sentences: list[list[int]] | None = None
    attention: Ragged | None = None
    prediction: Float[np.ndarray, "n C"] | None = None
    raw: list[RawText] | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def take(self, rows: Int[np.ndarray, " m"]) -> Split:
        """Return the chosen rows, in the order given."""

        def chosen(column):
            if isinstance(column, list):
                return [column[row] for row in rows.tolist()]
            return column.take(rows) if isinstance(column, Ragged) else column[rows]

        columns: dict[str, Any] = {
            name: chosen(column) for name, column in vars(self).items() if column is not None
        }
        columns.pop("digests", None)
        return Split(**columns)

    @cached_property
    def digests(self) -> list[bytes]:
        """16 bytes for each row, equal for rows with the same words, or raw texts, and question."""
        if self.raw is not None:
            texts = ("\x1e".join(filter(None, (row.text, row.question))) for row in self.raw)
        else:
            both = zip(self.tokens, self.question or [[]] * len(self), strict=True)
            texts = ("\x1e".join(map("\x1f".join, row if row[1] else row[:1])) for row in both)
        return [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts]


@dataclass(frozen=True)
class SkippedRow:
    """A row that could not be used; ``row`` counts from 0 in ``file``."""

    file: str
    row: int
    reason: str


@dataclass(frozen=True)
class Corpus:
    """A corpus ready for training, made by `read_corpus` and `planted_corpus`.

    Attributes:
        name: Name of the corpus.
        class_names: Name of each label.
        splits: The splits ``train``, ``dev`` and ``test``.
        min_df: Train rows that a word must occur in to get into the vocabulary.
        fingerprint: SHA-256 of everything that a model could learn from: rows, words, questions,
            labels, rationale, classes and ``min_df``.
        notes: One-line remarks for the user.
        skipped: Rows that could not be used.
        task: What labels belong to: a text, or a text and a question.
    """

    name: str
    class_names: tuple[str, ...]
    splits: dict[str, Split]
    min_df: int
    fingerprint: str
    notes: tuple[str, ...] = ()
    skipped: tuple[SkippedRow, ...] = ()
    task: Task = "classification"

    def __repr__(self) -> str:
        rows = ", ".join(f"{len(split)} {name}" for name, split in self.splits.items())
        classes = f"{len(self.class_names)} classes, fingerprint {self.fingerprint[:12]}"
        return f"Corpus {self.name}: {self.task}, {rows} rows; {classes}"


@dataclass(frozen=True)
class Pairs:
    """``n`` pairs of one split.

    Attributes:
        instance: Line of each pair, from 0.
        source: Source texts.
        target: Target texts.
        links: Alignments if they are known, sorted: row, source word and target word, words being
            separated by white space.
    """

    instance: Int64[np.ndarray, " n"]
    source: tuple[str, ...]
    target: tuple[str, ...]
    links: Int[np.ndarray, "three k"] | None = None

    def __len__(self) -> int:
        return len(self.source)

    def take(self, rows: Int[np.ndarray, " m"]) -> Pairs:
        """Return the chosen rows, which are in ascending order."""
        links = self.links
        if links is not None:
            place = np.full(len(self), -1)
            place[rows] = np.arange(len(rows))
            links = np.vstack([place[links[0]], links[1:]])[:, place[links[0]] >= 0]
        source, target = (
            tuple(side[row] for row in rows.tolist()) for side in (self.source, self.target)
        )
        return Pairs(self.instance[rows], source, target, links)


@dataclass(frozen=True)
class ParallelCorpus:
    """Splits ``train``, ``dev`` and ``test`` of `Pairs`, with a fingerprint as a `Corpus` has."""

    task: ClassVar[str] = "translation"
    name: str
    splits: dict[str, Pairs]
    notes: tuple[str, ...] = ()
    skipped: tuple[SkippedRow, ...] = ()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that a model could learn from."""
        total = hashlib.sha256()
        for name in sorted(self.splits):
            pairs = self.splits[name]
            texts = [name, pairs.instance.tolist(), pairs.source, pairs.target]
            total.update(json.dumps(texts).encode())
            if pairs.links is not None:
                total.update(pairs.links.astype("<i4").tobytes())
        return total.hexdigest()


def fingerprint(class_names: Sequence[str], min_df: int, splits: Mapping[str, Split]) -> str:
    """Return the SHA-256 of all that a model could learn from."""
    total = hashlib.sha256(json.dumps([list(class_names), min_df]).encode())
    for name in sorted(splits):
        split = splits[name]
        total.update(f"{name} {len(split)} {split.rationale is not None}".encode())
        total.update(split.instance.astype("<i8").tobytes())
        total.update(split.label.astype("<i4").tobytes())
        total.update(b"".join(split.digests))
        for row in split.rationale or ():
            total.update(bytes(row))
        for lengths in split.sentences or ():
            total.update(np.array([len(lengths), *lengths], "<i4").tobytes())
        if split.candidates is not None:
            total.update(np.packbits(split.candidates).tobytes())
    return total.hexdigest()


def keyed(seed: int, *purpose: str) -> np.random.Generator:
    """Return a generator of its own for every seed and purpose, the same in every process."""
    return np.random.default_rng(key_number(seed, *purpose))


def key_number(seed: int, *purpose: str) -> int:
    """Derive 128 bits from a seed and a purpose."""
    digest = hashlib.sha256("\x1f".join([str(seed), *purpose]).encode()).digest()
    return int.from_bytes(digest[:16], "little")

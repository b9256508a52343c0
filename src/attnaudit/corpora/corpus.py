"""What a corpus is once it is read: splits of token lists with labels, and what the user should know about them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Int, Int32, Int64

from attnaudit.core.ragged import Ragged

SPLITS = ("train", "dev", "test")
Task = Literal["classification", "question_answering", "inference", "translation"]


@dataclass(frozen=True, slots=True)
class RawText:
    """A text as its file has it, and what goes with it: the question, and the (start, stop) characters known to decide the label.

    ``spans`` is None where they are not known.
    """

    text: str
    question: str | None = None
    spans: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True)
class Split:
    """``n`` instances of one split.

    ``instance`` (n,) is the 0-based row of the source split before any filter, a stable id; ``tokens`` holds ``n`` lists of
    normalised words without BOS and EOS; ``label`` (n,) counts classes from 0; ``rationale`` marks, per token, the words that
    are known to decide the label (None: not known; a row without entries: not known of that row). Where a text is read with a
    question (or a hypothesis), ``question`` holds its words, and ``candidates`` (n, C) the classes that are allowed as answers (None:
    all of them). ``sentences`` has the words of every sentence where the corpus gives sentences (None: a rule finds them where they are
    needed). ``raw`` holds the texts before they are tokenised (None: not kept).

    Where a model, or what it is trained for, takes as given what another model does on these rows, ``attention`` holds weights that sum to
    1, one for each token, and ``prediction`` (n, C) probabilities (`taught_by`).
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
        """The chosen rows, in the order given."""
        chosen = rows.tolist()

        def of(column: list | None) -> list | None:
            return None if column is None else [column[row] for row in chosen]

        return Split(
            self.instance[rows], [self.tokens[row] for row in chosen], self.label[rows], of(self.rationale), of(self.question),
            None if self.candidates is None else self.candidates[rows], of(self.sentences),
            None if self.attention is None else self.attention.take(rows),
            None if self.prediction is None else self.prediction[rows],
            of(self.raw),
        )  # fmt: skip


@dataclass(frozen=True)
class SkippedRow:
    """A row that could not be used: ``row`` counts from 0 in ``file``."""

    file: str
    row: int
    reason: str


@dataclass(frozen=True)
class Corpus:
    """A corpus ready for training.

    ``splits`` has the keys ``train``, ``dev`` and ``test``; ``class_names[c]`` names label ``c``; ``min_df`` is the number of
    train rows that a word must occur in to get into the vocabulary; ``fingerprint`` is the SHA-256 of everything that a model
    could learn from (rows, words, questions, labels, rationale, classes, ``min_df``); ``notes`` are one-line remarks for the user;
    ``task`` says whether labels belong to a text alone, or to a text and a question. Made by `read_corpus` and `planted_corpus`.
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
        return f"Corpus {self.name}: {self.task}, {rows} rows; {len(self.class_names)} classes, fingerprint {self.fingerprint[:12]}"


@dataclass(frozen=True)
class Pairs:
    """``n`` pairs of one split: ``instance`` (n,) is the line, from 0; ``source`` and ``target`` are texts.

    ``links`` (3, k) are the alignments where they are known, sorted: row of this split, source word, target word, words being what
    white space parts.
    """

    instance: Int64[np.ndarray, " n"]
    source: tuple[str, ...]
    target: tuple[str, ...]
    links: Int[np.ndarray, "three k"] | None = None

    def __len__(self) -> int:
        return len(self.source)

    def take(self, rows: Int[np.ndarray, " m"]) -> Pairs:
        """The chosen rows, which are in ascending order."""
        links = self.links
        if links is not None:
            place = np.full(len(self), -1)
            place[rows] = np.arange(len(rows))
            links = np.vstack([place[links[0]], links[1:]])[:, place[links[0]] >= 0]
        chosen = rows.tolist()
        return Pairs(
            self.instance[rows],
            tuple(self.source[row] for row in chosen),
            tuple(self.target[row] for row in chosen),
            links,
        )


@dataclass(frozen=True)
class ParallelCorpus:
    """Splits ``train``, ``dev`` and ``test`` of `Pairs`; ``fingerprint`` is the SHA-256 of all that a model could learn from."""

    task: ClassVar[str] = "translation"
    name: str
    splits: dict[str, Pairs]
    fingerprint: str
    notes: tuple[str, ...] = ()
    skipped: tuple[SkippedRow, ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        splits: dict[str, Pairs],
        notes: Sequence[str] = (),
        skipped: Sequence[SkippedRow] = (),
    ) -> ParallelCorpus:
        return cls(name, splits, _fingerprint_of_pairs(splits), tuple(notes), tuple(skipped))


def row_digests(split: Split) -> list[bytes]:
    """16 bytes for every row, equal for rows with the same words, or the same raw texts, in the question too."""
    if split.raw is not None:
        return [_digest("\x1e".join(filter(None, (row.text, row.question)))) for row in split.raw]
    questions = split.question or [()] * len(split)
    texts = (
        "\x1e".join(map("\x1f".join, (row, question) if question else (row,)))
        for row, question in zip(split.tokens, questions, strict=True)
    )
    return [_digest(text) for text in texts]


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def fingerprint(
    class_names: Sequence[str],
    min_df: int,
    splits: Mapping[str, Split],
    digests: Mapping[str, list[bytes]],
) -> str:
    """SHA-256 of all that a model could learn from; ``digests`` are `row_digests` of each split."""
    total = hashlib.sha256(json.dumps([list(class_names), min_df]).encode())
    for name in sorted(splits):
        split = splits[name]
        total.update(f"{name} {len(split)} {split.rationale is not None}".encode())
        total.update(split.instance.astype("<i8").tobytes())
        total.update(split.label.astype("<i4").tobytes())
        total.update(b"".join(digests[name]))
        for row in split.rationale or ():
            total.update(bytes(row))
        for lengths in split.sentences or ():
            total.update(np.array([len(lengths), *lengths], "<i4").tobytes())
        if split.candidates is not None:
            total.update(np.packbits(split.candidates).tobytes())
    return total.hexdigest()


def _fingerprint_of_pairs(splits: dict[str, Pairs]) -> str:
    total = hashlib.sha256()
    for name in sorted(splits):
        pairs = splits[name]
        total.update(
            json.dumps([name, pairs.instance.tolist(), pairs.source, pairs.target]).encode()
        )
        if pairs.links is not None:
            total.update(pairs.links.astype("<i4").tobytes())
    return total.hexdigest()


def keyed(seed: int, *purpose: str) -> np.random.Generator:
    """A generator of its own for every seed and purpose, the same in every process."""
    return np.random.default_rng(key_number(seed, *purpose))


def key_number(seed: int, *purpose: str) -> int:
    """128 bits derived from a seed and a purpose."""
    return int.from_bytes(
        hashlib.sha256("\x1f".join([str(seed), *purpose]).encode()).digest()[:16], "little"
    )

"""Raw texts for a transformer: of a corpus, of the rows of a file, or pairs of a source and a target."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Int, Int32, Int64

from attnaudit.core.errors import InputError
from attnaudit.core.numbers import count
from attnaudit.core.printable import printable
from attnaudit.corpora.corpus import SPLITS, Corpus, ParallelCorpus, RawText, SkippedRow, Split
from attnaudit.corpora.formats.rows import ordered_classes
from attnaudit.corpora.own import Read
from attnaudit.corpora.prepare.gathering import Gathered
from attnaudit.corpora.read import gathering_remarks
from attnaudit.corpora.spec import CorpusSpec
from attnaudit.hf.encoded import of_rows
from attnaudit.hf.pieces import Span

Kind = Literal["classification", "causal-lm", "seq2seq"]
_UNCUT = 2**62  # tokens


@dataclass(frozen=True)
class Texts:
    """``n`` raw texts, as a file or a corpus has them.

    ``second`` is the text that goes with each (a question or hypothesis; for ``seq2seq`` the target). ``spans`` are the (start, stop)
    characters of the text that are known to matter (None: not known of any; a row of None: not known of it). ``label`` (n,) counts
    ``class_names`` from 0, −1 where it is not known, and is None without classes. ``instance`` and ``split`` are those of the
    readers. ``drawn_from`` is how many texts a file has of which some were kept, else 0.
    """

    name: str
    kind: Kind
    text: list[str]
    instance: Int64[np.ndarray, " n"]
    split: list[str]
    fingerprint: str
    second: list[str] | None = None
    label: Int32[np.ndarray, " n"] | None = None
    class_names: tuple[str, ...] = ()
    spans: list[tuple[Span, ...] | None] | None = None
    notes: tuple[str, ...] = ()
    skipped: tuple[SkippedRow, ...] = ()
    drawn_from: int = 0

    def __len__(self) -> int:
        return len(self.text)

    def take(self, rows: Int[np.ndarray, " m"]) -> Texts:
        """The chosen rows, in the order given."""
        names = ("text", "instance", "split", "second", "label", "spans")
        return replace(self, **{name: of_rows(getattr(self, name), rows) for name in names})

    def of_split(self, split: str) -> Texts:
        """The rows of one split. Raises InputError where there is none."""
        if split not in self.split:
            known = ", ".join(dict.fromkeys(self.split)) or "none"
            raise InputError(
                "read texts", f"split {split!r}", f"texts of {known}", "one of their splits"
            )
        return self.take(
            np.array([row for row, name in enumerate(self.split) if name == split], dtype=np.int64)
        )


def texts_of(corpus: Corpus) -> Texts:
    """The texts of a corpus, its words joined by blanks where it does not keep them (`read_corpus` with ``raw``)."""
    rows = {name: corpus.splits[name].raw or list(_joined(corpus.splits[name])) for name in SPLITS}
    raw = [row for name in SPLITS for row in rows[name]]
    splits = [corpus.splits[name] for name in SPLITS]
    spans = [row.spans for row in raw]
    return Texts(
        corpus.name, "classification", [row.text for row in raw], np.concatenate([split.instance for split in splits]),
        [name for name in SPLITS for _ in rows[name]], corpus.fingerprint,
        None if corpus.task == "classification" else [row.question or "" for row in raw],
        np.concatenate([split.label for split in splits]), corpus.class_names,
        spans if any(row is not None for row in spans) else None, corpus.notes, corpus.skipped,
    )  # fmt: skip


def _joined(split: Split) -> Iterator[RawText]:
    """Texts of which the words are known alone."""
    for row, words in enumerate(split.tokens):
        marks = split.rationale[row] if split.rationale else None
        starts = np.cumsum([0, *(len(word) + 1 for word in words)]).tolist()
        spans = (
            None
            if not marks
            else tuple((starts[k], starts[k + 1] - 1) for k, marked in enumerate(marks) if marked)
        )
        yield RawText(
            " ".join(words), " ".join(split.question[row]) if split.question else None, spans
        )


def texts_of_pairs(corpus: ParallelCorpus) -> Texts:
    """Pairs of a source and a target, of all splits that were read."""
    splits = corpus.splits
    return Texts(
        corpus.name, "seq2seq", [text for split in splits.values() for text in split.source],
        np.concatenate([split.instance for split in splits.values()]), [name for name, split in splits.items() for _ in range(len(split))],
        corpus.fingerprint, [text for split in splits.values() for text in split.target], notes=corpus.notes, skipped=corpus.skipped,
    )  # fmt: skip


def texts_of_rows(
    name: str, kind: Kind, split: str, rows: Gathered, spec: CorpusSpec, read: Read | None = None
) -> Texts:
    """The rows of one split, with the labels that are known of them, which are numbered in order (`ordered_classes`).

    Where they are drawn from more, ``read`` is what is known of all.
    """
    raw = [example.raw for example in rows.examples if example.raw]
    labels = [example.label for example in rows.examples]
    counts = Counter(labels) if read is None else read.labels
    classes = ordered_classes(filter(None, counts))
    number = {"": -1, **{name: number for number, name in enumerate(classes)}}
    spans = [text.spans for text in raw]
    instance = [example.instance for example in rows.examples]
    content = [[text.text, text.question, text.spans] for text in raw], instance, labels
    notes = [
        *gathering_remarks({split: rows}, _UNCUT),
        *(_label_notes(counts, spec.label) if kind == "classification" else ()),
    ]
    return Texts(
        name, kind, [text.text for text in raw], np.array(instance, dtype=np.int64), [split] * len(raw),
        hashlib.sha256(json.dumps(content).encode()).hexdigest() if read is None else read.fingerprint,
        None if spec.question is None else [text.question or "" for text in raw],
        np.array([number[label] for label in labels], dtype=np.int32) if classes else None, classes,
        spans if any(row is not None for row in spans) or (read and read.has_spans) else None, tuple(map(printable, notes)),
        tuple(rows.skipped), 0 if read is None else read.texts,
    )  # fmt: skip


def _label_notes(labels: Mapping[str, int], column: str) -> Iterator[str]:
    """What the user should know of missing labels, of which there are so many each."""
    missing, rows = labels.get("", 0), sum(labels.values())
    if missing == rows:
        yield f"no labels (column '{column}'), so how well the model predicts is not measured; --label-column names another column"
    elif missing:
        yield f"{missing} of {count(rows, 'row')} without a label, which predictions are not compared with"

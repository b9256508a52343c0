"""Raw texts for a transformer: those of a corpus, prompts without labels, or pairs of a source and a target."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Int, Int32, Int64

from attnaudit.core.errors import InputError
from attnaudit.core.printable import printable
from attnaudit.core.progress import Progress, silent
from attnaudit.core.settings import from_plain
from attnaudit.corpora.corpus import SPLITS, Corpus, RawText, SkippedRow, Split
from attnaudit.corpora.parallel import read_parallel
from attnaudit.corpora.prompts import read_prompts
from attnaudit.corpora.read import gathering_remarks, read_corpus
from attnaudit.corpora.registry import CORPORA
from attnaudit.corpora.spec import CorpusSpec, ParallelSpec
from attnaudit.hf.encoded import of_rows
from attnaudit.hf.pieces import Span

Kind = Literal["classification", "causal-lm", "seq2seq"]
_UNCUT = 2**62  # tokens


@dataclass(frozen=True)
class Texts:
    """``n`` raw texts, as a file or a corpus has them.

    ``second`` is the text that goes with each (a question or hypothesis; for ``seq2seq`` the target). ``spans`` are the (start, stop)
    characters of the text that are known to matter (None: not known of any; a row of None: not known of it). ``label`` (n,) counts
    ``class_names`` from 0, and is None without classes. ``instance`` and ``split`` are those of the corpus readers.
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

    def __len__(self) -> int:
        return len(self.text)

    def take(self, rows: Int[np.ndarray, " m"]) -> Texts:
        """The chosen rows, in the order given."""
        names = ("text", "instance", "split", "second", "label", "spans")
        return replace(self, **{name: of_rows(getattr(self, name), rows) for name in names})

    def of_split(self, split: str) -> Texts:
        """The rows of one split."""
        return self.take(np.array([row for row, name in enumerate(self.split) if name == split], dtype=np.int64))


def read_texts(
    source: str | Path, kind: Kind = "classification", *, seed: int = 0, preset: str = "paper", progress: Progress = silent, **options: Any
) -> Texts:
    """Read the raw texts of a corpus.

    For ``classification`` the source and ``options`` are those of `read_corpus`, with the same rows and splits; for ``seq2seq`` those of
    `read_parallel`. For ``causal-lm`` it is a registered corpus without questions, or a file of one's own without labels: a table with a
    column of texts, or a text on every line (``.txt``). A corpus whose words are all that is known, as a planted one, gives them joined by
    blanks. Raises InputError.
    """
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
    if kind == "seq2seq":
        return _of_pairs(from_plain(ParallelSpec, {"source": str(source), **plain}, "corpus"), seed, progress)
    if kind == "causal-lm" and (isinstance(source, Path) or source not in CORPORA):
        return _of_prompts(from_plain(CorpusSpec, {"source": str(source), **plain}, "corpus"), progress)
    texts = texts_of(read_corpus(source, seed=seed, preset=preset, progress=progress, raw=True, **plain))
    if kind == "classification":
        return texts
    if texts.second is not None:
        raise InputError("read corpus", texts.name, "a text and a question in each row", "texts alone for a causal language model")
    return replace(texts, kind=kind, label=None, class_names=(), spans=None)


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
        spans = None if not marks else tuple((starts[k], starts[k + 1] - 1) for k, marked in enumerate(marks) if marked)
        yield RawText(" ".join(words), " ".join(split.question[row]) if split.question else None, spans)


def _of_pairs(spec: ParallelSpec, seed: int, progress: Progress) -> Texts:
    corpus = read_parallel(spec, seed=seed, progress=progress)
    splits = [corpus.splits[name] for name in SPLITS]
    return Texts(
        corpus.name, "seq2seq", [text for split in splits for text in split.source],
        np.concatenate([split.instance for split in splits]), [name for name in SPLITS for _ in range(len(corpus.splits[name]))],
        corpus.fingerprint, [text for split in splits for text in split.target], notes=corpus.notes, skipped=corpus.skipped,
    )  # fmt: skip


def _of_prompts(spec: CorpusSpec, progress: Progress) -> Texts:
    gathered = read_prompts(spec, progress)
    texts = {name: [example.raw.text for example in rows.examples if example.raw] for name, rows in gathered.items()}
    instance = [[example.instance for example in rows.examples] for rows in gathered.values()]
    return Texts(
        printable(Path(spec.source).resolve().stem), "causal-lm", [text for rows in texts.values() for text in rows],
        np.array([number for rows in instance for number in rows], dtype=np.int64),
        [name for name, rows in texts.items() for _ in rows],
        hashlib.sha256(json.dumps([texts, instance]).encode()).hexdigest(),
        notes=tuple(map(printable, gathering_remarks(gathered, _UNCUT))),
        skipped=tuple(row for rows in gathered.values() for row in rows.skipped),
    )  # fmt: skip

"""The content of a corpus as tables: sizes, classes, lengths, unknown words, damage, rationales."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.entities import html5
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from attnaudit.core.progress import Progress, silent
from attnaudit.corpora.corpus import SPLITS, Corpus, SkippedRow, Split
from attnaudit.corpora.parallel import read_parallel
from attnaudit.corpora.prepare.vocabulary import Vocabulary
from attnaudit.corpora.read import counts_compared, read_corpus, repeated_rows
from attnaudit.corpora.registry import CORPORA, is_parallel
from attnaudit.corpora.spec import ParallelSpec, spec_of

# Words are lower case here, and may be split at a sign: Ã© may appear as «ã» «©». The second byte
# of a UTF-8 character in latin-1 or cp1252, without quotation marks and dashes:
_HIGH = "\u0080-\u00bf€ƒ†‡ˆ‰œžÿ™š"
_ENTITIES = {name.rstrip(";").lower() for name in html5}
_DAMAGE = {
    "replacement character": "\ufffd",
    "UTF-8 read as latin-1": rf"[âã] ?[{_HIGH}]|ð ?[\u009fÿ]|ï ?» ?¿",
    "control character": "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\ufeff]",
    "HTML tag": r"< ?/? ?(?:br|p|b|i|u|em|strong|a|div|span|font|table|tr|td|ul|ol|li|h[1-6]|img|hr"
    r"|html|body|head|script)(?: [^<>]{0,200}=[^<>]{0,200})? ?/? ?>",
    # The number of an entity, and what is glued to it, may be masked.
    "HTML entity": r"& ?(?:# ?\w|([a-z]{2,8}) ?;)",
}
_AROUND = 12  # characters shown on each side of damage
Row = dict[str, Any]
Expected = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class CorpusCheck:
    """Tables of a corpus, a row for each split, or more.

    Attributes:
        name: Name of the corpus.
        task: Its task.
        min_df: Train rows that a word must occur in.
        fingerprint: Its fingerprint.
        classes: Rows of each class.
        published: Published rows per class compared with those that were read.
        lengths: Words of texts and questions.
        words: Words, different words, and the shares of them not in the vocabulary.
        repeated: Rows whose words stood before in their split, in an earlier one, and anywhere with
            another label.
        damage: Rows with each kind of damage, and the first place.
        rationale: Rows with a rationale, and the share of words that it marks.
        skipped: Rows that were skipped by reason.
        notes: Remarks for the user.
        differs: Ways in which the corpus is known to be not as in its paper.
    """

    name: str
    task: str
    min_df: int
    fingerprint: str
    classes: pl.DataFrame
    published: pl.DataFrame
    lengths: pl.DataFrame
    words: pl.DataFrame
    repeated: pl.DataFrame
    damage: pl.DataFrame
    rationale: pl.DataFrame
    skipped: pl.DataFrame
    notes: tuple[str, ...]
    differs: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return tables as lists of rows."""
        tables = ((name, getattr(value, "to_dicts", None)) for name, value in vars(self).items())
        return {**vars(self), **{name: to_dicts() for name, to_dicts in tables if to_dicts}}


def check_source(source: str | Path, *, progress: Progress = silent, **options: Any) -> CorpusCheck:
    """Describe a corpus as `read_corpus` reads it, a registered one with its published sizes.

    Args:
        source: The corpus.
        progress: Called now and then.
        **options: Fields of `CorpusSpec`.

    Raises:
        InputError: If it cannot be read.
    """
    entry = CORPORA.get(source) if isinstance(source, str) else None
    is_pairs = isinstance(source, str) and (entry or Path(source).is_dir()) and is_parallel(source)
    read = _of_pairs if is_pairs else read_corpus
    corpus = read(source, progress=progress, **options)
    expected = entry.of_preset(entry.expected, "paper", {}) if entry else {}
    return check_corpus(corpus, expected, entry.differs if entry else ())


def _of_pairs(source: str | Path, progress: Progress, **options: Any) -> Corpus:
    """Read pairs as texts of one class, each with its translation. Raises InputError."""
    spec = spec_of(ParallelSpec, source, options)
    read, splits = read_parallel(spec, progress=progress), {}
    for name, pairs in read.splits.items():
        texts, translations = (list(map(str.split, side)) for side in (pairs.source, pairs.target))
        label = np.zeros(len(pairs), np.int32)
        splits[name] = Split(pairs.instance, texts, label, question=translations)
    whole = read.fingerprint, read.notes, read.skipped, "translation"
    return Corpus(read.name, ("pairs",), splits, spec.chosen_min_df, *whole)


def check_corpus(
    corpus: Corpus, expected: Expected | None = None, differs: Sequence[str] = ()
) -> CorpusCheck:
    """Look through a corpus.

    Args:
        corpus: The corpus.
        expected: Rows per class that it should have.
        differs: Ways in which it is known to be another one.
    """
    splits = {name: corpus.splits[name] for name in SPLITS if name in corpus.splits}
    # Texts are looked at with their questions.
    words = {name: split.tokens for name, split in splits.items()}
    for name, split in splits.items():
        if split.question:
            both = zip(split.tokens, split.question, strict=True)
            words[name] = [[*text, *asked] for text, asked in both]
    vocabulary = Vocabulary.build(words["train"], corpus.min_df)
    tables: dict[str, list[Row]] = {
        "repeated": repeated_rows(splits),
        "skipped": _skipped(corpus.skipped),
    }
    tables["published"] = [
        dict(zip(("split", "published", "here", "same"), row, strict=True))
        for row in counts_compared(expected or {}, splits)
    ]
    for name, split in splits.items():
        for table, rows in {
            "classes": _classes(corpus.class_names, split),
            "lengths": _lengths(corpus.task, split),
            "words": _words(vocabulary, words[name]),
            "damage": _damage(split, words[name]),
            "rationale": _rationale(split),
        }.items():
            tables.setdefault(table, []).extend({"split": name, **row} for row in rows)
    return CorpusCheck(
        corpus.name,
        corpus.task,
        corpus.min_df,
        corpus.fingerprint,
        notes=corpus.notes,
        differs=tuple(differs),
        **{name: pl.DataFrame(rows, infer_schema_length=None) for name, rows in tables.items()},
    )


def _skipped(skipped: Sequence[SkippedRow]) -> list[Row]:
    first = {row.reason: row for row in reversed(skipped)}
    return [
        {"reason": reason, "rows": rows, "file": first[reason].file, "first_row": first[reason].row}
        for reason, rows in sorted(Counter(row.reason for row in skipped).items())
    ]


def _classes(names: Sequence[str], split: Split) -> Iterator[Row]:
    for name, rows in zip(names, np.bincount(split.label, minlength=len(names)), strict=True):
        yield {"class": name, "rows": int(rows)}


def _lengths(task: str, split: Split) -> Iterator[Row]:
    parts = ("source", "target") if task == "translation" else ("text", "question")
    for part, texts in zip(parts, (split.tokens, split.question), strict=True):
        if texts:
            lengths = list(map(len, texts))
            median, most = np.quantile(lengths, (0.5, 0.95)).tolist()
            ends = {"min": min(lengths), "median": median, "p95": most, "max": max(lengths)}
            yield {"part": part, **ends}


def _words(vocabulary: Vocabulary, texts: Iterable[list[str]]) -> Iterator[Row]:
    counts = Counter(chain.from_iterable(texts))
    unknown = [number for word, number in counts.items() if word not in vocabulary]
    yield {
        "words": counts.total(),
        "different": len(counts),
        "unknown": sum(unknown) / counts.total() if counts else None,
        "unknown_different": len(unknown) / len(counts) if counts else None,
    }


def _damage(split: Split, texts: Iterable[list[str]]) -> Iterator[Row]:
    found: dict[str, list[tuple[int, str]]] = {kind: [] for kind in _DAMAGE}
    for instance, words in zip(split.instance.tolist(), texts, strict=True):
        for kind, example in damage_in(words).items():
            found[kind].append((instance, example))
    for kind, places in found.items():
        if places:
            instance, example = places[0]
            yield {"kind": kind, "rows": len(places), "instance": instance, "example": example}


def damage_in(words: Sequence[str]) -> dict[str, str]:
    """Find the kinds of damage in a text, each with the first place where it shows."""
    text, found = " ".join(words), {}
    for kind, pattern in _DAMAGE.items():
        for match in re.finditer(pattern, text):
            if kind != "HTML entity" or match[1] is None or match[1] in _ENTITIES:
                found[kind] = text[max(0, match.start() - _AROUND) : match.end() + _AROUND]
                break
    return found


def _rationale(split: Split) -> Iterator[Row]:
    if split.rationale is not None:
        known = list(chain.from_iterable(split.rationale))
        share = sum(known) / len(known) if known else None
        with_rationale = sum(map(any, split.rationale))
        yield {"rows": len(split), "with_rationale": with_rationale, "marked": share}

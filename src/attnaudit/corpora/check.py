"""The content of a corpus as tables: sizes, classes, lengths, unknown words, damage, rationales."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html.entities import html5
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from attnaudit.core import Progress, silent
from attnaudit.corpora.corpus import SPLITS, Corpus, Split
from attnaudit.corpora.prepare.vocabulary import Vocabulary
from attnaudit.corpora.read import read_corpus, read_parallel
from attnaudit.corpora.registry import CORPORA, is_parallel
from attnaudit.corpora.remarks import counts_compared, repeated_rows
from attnaudit.corpora.spec import ParallelSpec, spec_of

# Words are lower case here, and may be split at a sign: Ã© may appear as «ã» «©». The second byte
# of a UTF-8 character in latin-1 or cp1252, without quotation marks and dashes:
_HIGH = "\u0080-\u00bf€ƒ†‡ˆ‰œžÿ™š"
_ENTITIES = "|".join(sorted({name.rstrip(";").lower() for name in html5}))
_DAMAGE = {
    "replacement character": "\ufffd",
    "UTF-8 read as latin-1": rf"[âã] ?[{_HIGH}]|ð ?[\u009fÿ]|ï ?» ?¿",
    "control character": "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\ufeff]",
    "HTML tag": r"< ?/? ?(?:br|p|b|i|u|em|strong|a|div|span|font|table|tr|td|ul|ol|li|h[1-6]|img|hr"
    r"|html|body|head|script)(?: [^<>]{0,200}=[^<>]{0,200})? ?/? ?>",
    # The number of an entity, and what is glued to it, may be masked.
    "HTML entity": rf"& ?(?:# ?\w|(?:{_ENTITIES}) ?;)",
}
_AROUND = 12  # characters shown on each side of damage
_SAID = ("name", "task", "min_df", "fingerprint", "notes")  # of a corpus, in JSON
Row = dict[str, Any]


@dataclass(frozen=True)
class CorpusCheck:
    """A corpus and its tables, with a row for each split, or more.

    Attributes:
        corpus: The corpus.
        differs: Ways in which it is known to be not as in its paper.
        tables: Tables by name. ``classes``: rows of each class. ``published``: published rows per
            class compared with those that were read. ``lengths``: words of texts and questions.
            ``words``: words, different words, and the shares of them not in the vocabulary.
            ``repeated``: rows whose words stood before in their split, in an earlier one, and
            anywhere with another label. ``damage``: rows with each kind of damage, and the first
            place. ``rationale``: rows with a rationale, and the share of words that it marks.
            ``skipped``: rows that were skipped by reason.
    """

    corpus: Corpus
    differs: tuple[str, ...]
    tables: dict[str, pl.DataFrame]

    def to_json(self) -> dict[str, Any]:
        """Return tables as lists of rows."""
        said = {name: getattr(self.corpus, name) for name in _SAID}
        tables = {name: table.to_dicts() for name, table in self.tables.items()}
        return {**said, "differs": self.differs, **tables}


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
    corpus: Corpus,
    expected: Mapping[str, tuple[int, ...]] | None = None,
    differs: Sequence[str] = (),
) -> CorpusCheck:
    """Look through a corpus.

    Args:
        corpus: The corpus.
        expected: Rows per class that it should have.
        differs: Ways in which it is known to be another one.
    """
    splits = {name: corpus.splits[name] for name in SPLITS if name in corpus.splits}
    # Texts are looked at with their questions.
    words = {
        name: [[*text, *asked] for text, asked in zip(split.tokens, split.question, strict=True)]
        if split.question
        else split.tokens
        for name, split in splits.items()
    }
    vocabulary = Vocabulary.build(words["train"], corpus.min_df)
    skipped: dict[str, Row] = {}
    for row in corpus.skipped:
        first = {"reason": row.reason, "rows": 0, "file": row.file, "first_row": row.row}
        skipped.setdefault(row.reason, first)["rows"] += 1
    tables: dict[str, list[Row]] = {
        "published": counts_compared(expected or {}, splits),
        "repeated": repeated_rows(splits),
        "skipped": [skipped[reason] for reason in sorted(skipped)],
    }
    for name, split in splits.items():
        for table, rows in _tables(corpus, split, words[name], vocabulary).items():
            tables.setdefault(table, []).extend({"split": name, **row} for row in rows)
    frames = {name: pl.DataFrame(rows, infer_schema_length=None) for name, rows in tables.items()}
    return CorpusCheck(corpus, tuple(differs), frames)


def _tables(
    corpus: Corpus, split: Split, texts: list[list[str]], vocabulary: Vocabulary
) -> dict[str, list[Row]]:
    """Describe a split; ``texts`` are its words with those of its questions."""
    classes = np.bincount(split.label, minlength=len(corpus.class_names)).tolist()
    lengths: list[Row] = []
    parts = ("source", "target") if corpus.task == "translation" else ("text", "question")
    for part, column in zip(parts, (split.tokens, split.question), strict=True):
        if column:
            sizes = list(map(len, column))
            median, most = np.quantile(sizes, (0.5, 0.95)).tolist()
            ends = {"min": min(sizes), "median": median, "p95": most, "max": max(sizes)}
            lengths.append({"part": part, **ends})
    counts = Counter(chain.from_iterable(texts))
    unknown = [number for word, number in counts.items() if word not in vocabulary]
    damage: dict[str, Row] = {}
    for instance, words in zip(split.instance.tolist(), texts, strict=True):
        for kind, example in damage_in(words).items():
            first = {"kind": kind, "rows": 0, "instance": instance, "example": example}
            damage.setdefault(kind, first)["rows"] += 1
    tables: dict[str, list[Row]] = {
        "classes": [
            {"class": name, "rows": rows}
            for name, rows in zip(corpus.class_names, classes, strict=True)
        ],
        "lengths": lengths,
        "words": [
            {
                "words": counts.total(),
                "different": len(counts),
                "unknown": sum(unknown) / counts.total() if counts else None,
                "unknown_different": len(unknown) / len(counts) if counts else None,
            }
        ],
        "damage": [damage[kind] for kind in _DAMAGE if kind in damage],
        "rationale": [],
    }
    if split.rationale is not None:
        marks = list(chain.from_iterable(split.rationale))
        share = sum(marks) / len(marks) if marks else None
        row = {"rows": len(split), "with_rationale": sum(map(any, split.rationale))}
        tables["rationale"].append({**row, "marked": share})
    return tables


def damage_in(words: Sequence[str]) -> dict[str, str]:
    """Find the kinds of damage in a text, each with the first place where it shows."""
    text = " ".join(words)
    found = ((kind, re.search(pattern, text)) for kind, pattern in _DAMAGE.items())
    return {
        kind: text[max(0, place.start() - _AROUND) : place.end() + _AROUND]
        for kind, place in found
        if place
    }

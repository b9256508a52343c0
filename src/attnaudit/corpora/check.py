"""What is in a corpus as it is read: sizes, classes, lengths, unknown words, repeated rows, damage and rationales, as tables."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from html.entities import html5
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from attnaudit.core.progress import Progress, silent
from attnaudit.core.settings import from_plain
from attnaudit.corpora.corpus import SPLITS, Corpus, Split, row_digests
from attnaudit.corpora.parallel import read_parallel
from attnaudit.corpora.prepare.vocabulary import Vocabulary
from attnaudit.corpora.read import counts_compared, read_corpus
from attnaudit.corpora.registry import CORPORA, is_parallel
from attnaudit.corpora.spec import CorpusSpec, ParallelSpec

Rows = Iterator[dict[str, Any]]
Expected = Mapping[
    str, tuple[int, ...]
]  # rows per class, or of all classes, of a split or of several joined by a plus


@dataclass(frozen=True)
class CorpusCheck:
    """Tables of a corpus, a row for each split (``classes``: split and class; ``lengths``: split and part; ``damage``: split and kind).

    ``published`` compares the published rows per class of a registered corpus with those that were read; ``words`` gives the share of
    the words, and of the different words, is not in the vocabulary that train gives; ``repeated`` the rows whose words stood before in
    their split, in an earlier split (``in_train``, ``in_dev``), and anywhere with another label (``conflicts``); ``rationale`` has no
    row where none is known; ``skipped`` has a row for each reason.
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
        """Tables as lists of rows."""
        return {
            name: value.to_dicts() if isinstance(value, pl.DataFrame) else value
            for name, value in vars(self).items()
        }


def check_source(source: str | Path, *, progress: Progress = silent, **options: Any) -> CorpusCheck:
    """Describe a corpus as `read_corpus` reads it, a registered one compared with its published sizes.

    ``options`` are fields of `CorpusSpec`. Raises InputError.
    """
    entry = CORPORA.get(source) if isinstance(source, str) else None
    parallel = (
        (entry.task == "translation")
        if entry
        else isinstance(source, str) and Path(source).is_dir() and is_parallel(source)
    )
    corpus = (
        _of_pairs(str(source), options, progress)
        if parallel
        else read_corpus(source, progress=progress, **options)
    )
    return (
        check_corpus(corpus)
        if entry is None
        else check_corpus(corpus, entry.of_preset(entry.expected, "paper", {}), entry.differs)
    )


def _of_pairs(source: str, options: Mapping[str, Any], progress: Progress) -> Corpus:
    """The words of a parallel corpus, between spaces, as texts of one class, each with its translation. Raises InputError."""
    plain = {
        name: str(value) if isinstance(value, Path) else value for name, value in options.items()
    }
    usual = {field.name: field.default for field in fields(CorpusSpec)}
    given = {
        name: value for name, value in plain.items() if name not in usual or value != usual[name]
    }
    spec = from_plain(ParallelSpec, {"source": source, **given}, "corpus")
    read = read_parallel(spec, progress=progress)
    splits = {
        name: Split(
            pairs.instance, [text.split() for text in pairs.source], np.zeros(len(pairs), np.int32),
            question=[text.split() for text in pairs.target],
        )
        for name, pairs in read.splits.items()
    }  # fmt: skip
    return Corpus(
        read.name,
        ("pairs",),
        splits,
        spec.chosen_min_df,
        read.fingerprint,
        read.notes,
        read.skipped,
        "translation",
    )


def check_corpus(
    corpus: Corpus, expected: Expected | None = None, differs: Sequence[str] = ()
) -> CorpusCheck:
    """Look through a corpus. ``expected`` are the rows per class that it should have, ``differs`` what is known to be other than there."""
    splits = {name: corpus.splits[name] for name in SPLITS if name in corpus.splits}
    rows: dict[str, Rows] = {
        "classes": _class_rows(splits, corpus.class_names),
        "published": _published_rows(splits, expected or {}),
        "lengths": _length_rows(
            splits, ("source", "target") if corpus.task == "translation" else ("text", "question")
        ),
        "words": _word_rows(splits, corpus.min_df),
        "repeated": _repeated_rows(splits),
        "damage": _damage_rows(splits),
        "rationale": _rationale_rows(splits),
        "skipped": _skipped_rows(corpus),
    }
    tables = {
        name: pl.DataFrame(list(of), schema=dict(zip(*_COLUMNS[name], strict=True)))
        for name, of in rows.items()
    }
    return CorpusCheck(
        corpus.name,
        corpus.task,
        corpus.min_df,
        corpus.fingerprint,
        notes=corpus.notes,
        differs=tuple(differs),
        **tables,
    )


_S, _I, _F = pl.String, pl.Int64, pl.Float64
_COLUMNS = {
    "classes": (("split", "class", "rows"), (_S, _S, _I)),
    "published": (("split", "published", "here", "same"), (_S, _S, _S, pl.Boolean)),
    "lengths": (("split", "part", "min", "median", "p95", "max"), (_S, _S, _I, _F, _F, _I)),
    "words": (
        ("split", "words", "different", "unknown", "unknown_different"),
        (_S, _I, _I, _F, _F),
    ),
    "repeated": (
        ("split", "rows", "within", "in_train", "in_dev", "conflicts"),
        (_S, _I, _I, _I, _I, _I),
    ),
    "damage": (("split", "kind", "rows", "instance", "example"), (_S, _S, _I, _I, _S)),
    "rationale": (("split", "rows", "with_rationale", "marked"), (_S, _I, _I, _F)),
    "skipped": (("reason", "rows", "file", "first_row"), (_S, _I, _S, _I)),
}


def _class_rows(splits: Mapping[str, Split], names: Sequence[str]) -> Rows:
    for split, rows in splits.items():
        counts = np.bincount(rows.label, minlength=len(names)).tolist()
        for name, count in zip(names, counts, strict=True):
            yield {"split": split, "class": name, "rows": count}


def _published_rows(splits: Mapping[str, Split], expected: Expected) -> Rows:
    for split, published, here, same in counts_compared(expected, splits):
        yield {"split": split, "published": published, "here": here, "same": same}


def _length_rows(splits: Mapping[str, Split], parts: tuple[str, str]) -> Rows:
    for split, rows in splits.items():
        for part, texts in zip(parts, (rows.tokens, rows.question), strict=True):
            if texts:
                lengths = np.array([len(words) for words in texts])
                yield {
                    "split": split, "part": part, "min": int(lengths.min()), "median": float(np.median(lengths)),
                    "p95": float(np.quantile(lengths, 0.95)), "max": int(lengths.max()),
                }  # fmt: skip


def _word_rows(splits: Mapping[str, Split], min_df: int) -> Rows:
    vocabulary = Vocabulary.build(
        map(list, map(chain.from_iterable, zip(*_texts(splits["train"]), strict=True))), min_df
    )
    for split, rows in splits.items():
        counts = Counter(chain.from_iterable(chain.from_iterable(_texts(rows))))
        unknown = [count for word, count in counts.items() if word not in vocabulary]
        total = sum(counts.values())
        yield {
            "split": split, "words": total, "different": len(counts),
            "unknown": sum(unknown) / total if total else None, "unknown_different": len(unknown) / len(counts) if counts else None,
        }  # fmt: skip


def _texts(rows: Split) -> list[list[list[str]]]:
    return [rows.tokens] if rows.question is None else [rows.tokens, rows.question]


def _repeated_rows(splits: Mapping[str, Split]) -> Rows:
    digests = {split: row_digests(rows) for split, rows in splits.items()}
    labels: dict[bytes, set[int]] = defaultdict(set)
    for split, rows in splits.items():
        for digest, label in zip(digests[split], rows.label.tolist(), strict=True):
            labels[digest].add(label)
    known = {split: set(of) for split, of in digests.items()}
    for split, of in digests.items():
        before = SPLITS[: SPLITS.index(split)]
        shared = {
            f"in_{other}": sum(digest in known[other] for digest in of)
            for other in before
            if other in known
        }
        conflicts = sum(len(labels[digest]) > 1 for digest in of)
        yield {
            "split": split,
            "rows": len(of),
            "within": len(of) - len(known[split]),
            **shared,
            "conflicts": conflicts,
        }


def _damage_rows(splits: Mapping[str, Split]) -> Rows:
    for split, rows in splits.items():
        counts: Counter[str] = Counter()
        first: dict[str, tuple[int, str]] = {}
        for row, texts in enumerate(zip(*_texts(rows), strict=True)):
            for kind, example in damage_in(list(chain.from_iterable(texts))).items():
                counts[kind] += 1
                first.setdefault(kind, (int(rows.instance[row]), example))
        for kind in KINDS:
            if kind in first:
                yield {
                    "split": split,
                    "kind": kind,
                    "rows": counts[kind],
                    "instance": first[kind][0],
                    "example": first[kind][1],
                }


def _rationale_rows(splits: Mapping[str, Split]) -> Rows:
    for split, rows in splits.items():
        if rows.rationale is not None:
            known = [marks for marks in rows.rationale if marks]
            tokens = sum(map(len, known))
            share = sum(map(sum, known)) / tokens if tokens else None
            yield {
                "split": split,
                "rows": len(rows),
                "with_rationale": sum(any(marks) for marks in known),
                "marked": share,
            }


def _skipped_rows(corpus: Corpus) -> Rows:
    counts = Counter(row.reason for row in corpus.skipped)
    for reason, count in sorted(counts.items()):
        first = next(row for row in corpus.skipped if row.reason == reason)
        yield {"reason": reason, "rows": count, "file": first.file, "first_row": first.row}


# Words are lower case here, and may be split at a sign: Ã© may appear as «ã» «©».
_HIGH = "\u0080-\u00bf€ƒ†‡ˆ‰œžÿ™š"  # the second byte of a UTF-8 character in latin-1 or cp1252, without quotation marks and dashes
_PATTERNS: dict[str, re.Pattern[str]] = {
    "replacement character": re.compile("\ufffd"),
    "UTF-8 read as latin-1": re.compile(rf"[âã] ?[{_HIGH}]|ð ?[\u009fÿ]|ï ?» ?¿"),
    "control character": re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\ufeff]"),
    "HTML tag": re.compile(
        r"< ?/? ?(?:br|p|b|i|u|em|strong|a|div|span|font|table|tr|td|ul|ol|li|h[1-6]|img|hr|html|body|head|script)"
        r"(?: [^<>]{0,200}=[^<>]{0,200})? ?/? ?>"
    ),
}
_ENTITY = re.compile(
    r"& ?(?:# ?\w|([a-z]{2,8}) ?;)"
)  # the number of an entity, and what is glued to it, may be masked
HTML_ENTITY = "HTML entity"
KINDS = (*_PATTERNS, HTML_ENTITY)
_NAMES = {name.rstrip(";").lower() for name in html5}
_AROUND = 12  # characters shown on each side


def damage_in(words: Sequence[str]) -> dict[str, str]:
    """The kinds of damage in a text, each with the first place where it shows."""
    text = " ".join(words)
    found = {
        kind: _shown(text, match)
        for kind, pattern in _PATTERNS.items()
        if (match := pattern.search(text))
    }
    if entity := next(
        (match for match in _ENTITY.finditer(text) if match[1] is None or match[1] in _NAMES), None
    ):
        found[HTML_ENTITY] = _shown(text, entity)
    return found


def _shown(text: str, match: re.Match[str]) -> str:
    return text[max(0, match.start() - _AROUND) : match.end() + _AROUND]

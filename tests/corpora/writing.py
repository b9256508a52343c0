"""Small corpora on disk, in every format."""

import csv
import gzip
import io
import json
from collections.abc import Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attnaudit.core import InputError
from attnaudit.corpora.read import read_corpus

GOOD = [
    "a fine film",
    "we liked it a lot",
    'she said "go and see it", twice',
    "line one\nline two",
    "très beau 🎬",
    "worth 10 dollars",
]
BAD = [
    "a poor film",
    "we left early",
    "dull, and long",
    "nothing works here",
    "not for me",
    "a waste of 90 minutes",
]
TEXTS = [text for pair in zip(GOOD, BAD, strict=True) for text in pair] * 2
LABELS = [1, 0] * len(GOOD) * 2
ROWS = list(zip(TEXTS, LABELS, strict=True))

Rows = Sequence[tuple[Any, Any]]


def refused(source, **options):
    """The error of a corpus that cannot be read: one printable line."""
    with pytest.raises(InputError) as caught:
        read_corpus(source, **options)
    assert str(caught.value).isprintable()
    return caught.value


def bad_row(source, row, got="", **options):
    """The error of a corpus with one bad row, which is set aside when bad rows are skipped."""
    error = refused(source, **options)
    assert f": row {row}" in error.where
    assert got in error.got
    corpus = read_corpus(source, on_bad_row="skip", **options)
    assert [(one.row, one.reason) for one in corpus.skipped] == [(row, error.got)]
    assert any("1 bad row" in note for note in corpus.notes)
    return error


def counts(corpus):
    """Rows of each class in each split."""
    most = len(corpus.class_names)
    return {
        name: np.bincount(split.label, minlength=most).tolist()
        for name, split in corpus.splits.items()
    }


def sizes(corpus):
    """Rows of train, dev and test."""
    return [len(corpus.splits[name]) for name in ("train", "dev", "test")]


def marked(split):
    """The marked words of every row."""
    assert split.rationale is not None
    rows = zip(split.tokens, split.rationale, strict=True)
    return [list(compress(tokens, marks)) for tokens, marks in rows]


def encoded(kind, rows, names=("text", "label")):
    """The bytes of a file of format ``kind`` (``csv``, ``tsv``, ``jsonl`` or ``parquet``)."""
    if kind == "jsonl":
        return "".join(
            json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows
        ).encode()
    if kind == "parquet":
        buffer = io.BytesIO()
        pq.write_table(
            pa.table(
                {
                    name: list(column)
                    for name, column in zip(names, zip(*rows, strict=True), strict=True)
                }
            ),
            buffer,
        )
        return buffer.getvalue()
    text = io.StringIO()
    writer = csv.writer(text, delimiter="," if kind == "csv" else "\t", lineterminator="\n")
    writer.writerows([names, *rows])
    return text.getvalue().encode()


def write(path, rows=ROWS, names=("text", "label")):
    """Write ``rows`` in the format that the name tells, gzipped when it ends in ``.gz``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = path.name.endswith(".gz")
    raw = encoded(Path(path.name.removesuffix(".gz")).suffix[1:], rows, names)
    path.write_bytes(gzip.compress(raw) if packed else raw)
    return path


def write_folder(folder, splits):
    for name, rows in splits.items():
        write(folder / f"{name}.csv", rows)
    return folder

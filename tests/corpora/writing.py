"""Small corpora on disk, in every format."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attnaudit.core.errors import InputError
from attnaudit.corpora import read_corpus

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


def refused(source: Any, **options: Any) -> InputError:
    """The error of a corpus that cannot be read: one printable line."""
    with pytest.raises(InputError) as caught:
        read_corpus(source, **options)
    assert str(caught.value).isprintable()
    return caught.value


def encoded(kind: str, rows: Rows, names: tuple[str, str] = ("text", "label")) -> bytes:
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


def write(path: Path, rows: Rows = ROWS, names: tuple[str, str] = ("text", "label")) -> Path:
    """Write ``rows`` in the format that the name tells, gzipped when it ends in ``.gz``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = path.name.endswith(".gz")
    raw = encoded(Path(path.name.removesuffix(".gz")).suffix[1:], rows, names)
    path.write_bytes(gzip.compress(raw) if packed else raw)
    return path


def write_folder(folder: Path, splits: dict[str, Rows], kind: str = "csv") -> Path:
    for name, rows in splits.items():
        write(folder / f"{name}.{kind}", rows)
    return folder

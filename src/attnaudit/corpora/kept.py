"""A table in memory written to a file of its own, so that what is trained on it can be resumed and repeated."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.core.files import write_text
from attnaudit.corpora.formats.frames import frame_name, frame_sources
from attnaudit.corpora.formats.rows import Columns, Row, SplitSource
from attnaudit.corpora.formats.tables import Dialect


def keep_table(
    source: Any, folder: Path, columns: Columns, dialect: Dialect, name: str = ""
) -> Path:
    """Write a table, or a mapping of splits to tables, below ``folder`` and return the file, or the folder of splits.

    Only ``columns`` are written. The name, by default the table's own, ends in a digest of the texts: another table is another file, the
    same one is written again with the same bytes. Raises InputError for what is no table, and RunError where nothing can be written.
    """
    parts = {
        split: "".join(_lines(part, columns))
        for split, part in frame_sources(source, columns, dialect).items()
    }
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:8]
    place = folder / f"{name or frame_name(source)}-{digest}"
    place = place.with_name(f"{place.name}.jsonl") if "all" in parts else place
    for split, lines in parts.items():
        write_text(place if split == "all" else place / f"{split}.jsonl", lines)
    return place


def _lines(source: SplitSource, columns: Columns) -> Iterator[str]:
    for row in source.rows():
        cells = {
            name: getattr(row, "evidence" if option == "rationale" else option)
            for option, name in columns
        }
        yield f"{_json(cells, row, source)}\n"


def _json(cells: dict[str, Any], row: Row, source: SplitSource) -> str:
    try:
        return json.dumps(cells)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            "read corpus",
            row.where(source.path),
            str(error),
            "texts, numbers or lists",
            "convert the column",
        ) from error

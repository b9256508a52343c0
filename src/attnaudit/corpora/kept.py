"""A table in memory written to a file, so that what is trained on it can be resumed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from attnaudit.core.files import write_text
from attnaudit.corpora.formats.frames import frame_name, frame_sources
from attnaudit.corpora.formats.rows import Columns
from attnaudit.corpora.formats.tables import Dialect


def keep_table(
    source: Any, folder: Path, columns: Columns, dialect: Dialect, name: str = ""
) -> Path:
    """Write a table, or a mapping of splits to tables, below a folder.

    Args:
        source: The table.
        folder: Place of the file.
        columns: Columns that are written.
        dialect: Options of files, which a table has no use for.
        name: Name of the file; by default the table's own.

    Returns:
        The file, or the folder of splits. Its name ends in a digest of the texts: the same table is
        written again with the same bytes, another is another file.

    Raises:
        InputError: For an object that is no table.
    """
    fields = {option: "evidence" if option == "rationale" else option for option, _ in columns}
    parts = {
        split: "".join(
            json.dumps({column: getattr(row, fields[option]) for option, column in columns}) + "\n"
            for row in part.rows()
        )
        for split, part in frame_sources(source, columns, dialect).items()
    }
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:8]
    place = folder / f"{name or frame_name(source)}-{digest}"
    place = place.with_name(f"{place.name}.jsonl") if "all" in parts else place
    for split, lines in parts.items():
        write_text(place if split == "all" else place / f"{split}.jsonl", lines)
    return place

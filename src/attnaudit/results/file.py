"""Parquet tables written a piece at a time, so that no more than a piece of them is held in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from attnaudit.core.files import atomic

ROW_GROUP = 2048


@contextmanager
def table_file(path: Path) -> Iterator[Callable[[pl.DataFrame], None]]:
    """A function that adds rows to the Parquet file ``path``; the file is there, whole, once the context ends without an error.

    Its bytes depend on the rows alone, not on the pieces they came in. Raises RunError.
    """
    with atomic(path) as temporary:
        pieces = _Pieces(temporary)
        try:
            yield pieces.add
            pieces.write(pieces.height)
        finally:
            pieces.close()


class _Pieces:
    """Rows on their way into a file, in row groups of one size."""

    def __init__(self, path: Path) -> None:
        self.path, self.waiting, self.height = path, list[pl.DataFrame](), 0
        self.writer: pq.ParquetWriter | None = None

    def add(self, rows: pl.DataFrame) -> None:
        self.waiting.append(rows)
        self.height += rows.height
        self.write(self.height - self.height % ROW_GROUP)

    def write(self, height: int) -> None:
        """Move the first ``height`` waiting rows into the file."""
        if height == 0:
            return
        rows = pl.concat(self.waiting)
        table = rows[:height].to_arrow(compat_level=pl.CompatLevel.oldest())
        self.waiting, self.height = [rows[height:]], rows.height - height
        self.writer = self.writer or pq.ParquetWriter(self.path, table.schema, compression="zstd", write_statistics=False)
        self.writer.write_table(table, row_group_size=ROW_GROUP)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()

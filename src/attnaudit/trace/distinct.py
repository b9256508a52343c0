"""Rows of a trace that are named alike, within a shard or in two: an instance counted twice would make every interval too narrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from attnaudit.core.errors import TraceError
from attnaudit.trace.io import read_pieces
from attnaudit.trace.schema import conform


def alike_in_files(files: Sequence[Path], keys: Sequence[str]) -> TraceError | None:
    """The error of two rows of a trace with the same ``keys``; only those columns are read, and 8 bytes a row kept."""
    codes = [named.hash_rows().to_numpy() for _, named in _named(files, keys)]
    code = np.sort(np.concatenate(codes)) if codes else np.zeros(0, np.uint64)
    repeated = np.unique(code[1:][code[1:] == code[:-1]])
    if not len(repeated):
        return None
    found = [
        (file, named.filter(np.isin(named.hash_rows().to_numpy(), repeated)))
        for file, named in _named(files, keys)
    ]
    origins = [str(file) for file, named in found for _ in range(named.height)]
    return alike(
        pl.concat([named for _, named in found], how="diagonal_relaxed"), origins
    )  # codes may be equal by chance


def alike(named: pl.DataFrame, origins: Sequence[str]) -> TraceError | None:
    """The error of the second of two rows that ``named``, the columns that name a row, has alike; ``origins`` are of each row."""
    if named.width == 0 or named.n_unique() == named.height:
        return None
    row = int((~named.select(pl.struct(pl.all()).is_first_distinct()).to_series()).arg_max() or 0)
    where, got = (
        f"{origins[row]}: column instance, instance {named['instance'][row]}",
        f"several rows alike in {', '.join(named.columns)}",
    )
    return TraceError(
        "check trace",
        where,
        got,
        "a row of its own for each",
        "number the texts, or add a column split, layer, head or query",
    )


def names_of(table: pa.Table, keys: Sequence[str]) -> pl.DataFrame:
    """The columns of a conformed table that name its rows, none where it has no instances."""
    found = pl.from_arrow(table.select([key for key in keys if key in table.column_names]))
    assert isinstance(found, pl.DataFrame)
    return found if "instance" in found.columns else pl.DataFrame()


def _named(files: Sequence[Path], keys: Sequence[str]) -> Iterator[tuple[Path, pl.DataFrame]]:
    for file in files:
        for table, _, _ in read_pieces(file, keys):
            named = names_of(conform(table, str(file), needed=()), keys)
            if named.width:
                yield file, named

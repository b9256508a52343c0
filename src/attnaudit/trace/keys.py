"""Keys of the rows of a trace: no two rows are alike in them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import polars.selectors as cs

from attnaudit.core import TraceError
from attnaudit.trace.files import read_pieces
from attnaudit.trace.schema import conform

SEVERAL = ("layer", "head", "query")  # with any of these columns an instance may have several rows
ROW_KEYS = ("split", "instance", *SEVERAL)  # the columns that identify a row


def repeated_in(files: Sequence[Path]) -> TraceError | None:
    """Return an error if two rows of a trace have the same keys, or two files heads of one text."""
    # Hashes of the keys take 8 bytes per row, so the keys of a large trace need not be in memory.
    codes = [names.hash_rows().to_numpy() for _, names in _keys_in(files)]
    if not codes or len(np.unique(np.concatenate(codes))) == sum(map(len, codes)):
        return _parted(files) if len(files) > 1 else None
    # Different keys may share a hash, so equal hashes are checked by their keys.
    found = list(_keys_in(files))
    origins = [str(file) for file, names in found for _ in range(names.height)]
    return repeated(pl.concat([names for _, names in found], how="diagonal_relaxed"), origins)


def _parted(files: Sequence[Path]) -> TraceError | None:
    """Return an error if the heads of a text, which act together, are in two files."""
    texts = [
        names.select(cs.by_name("split", "instance", require_all=False), file=pl.lit(str(file)))
        for file, names in _keys_in(files)
        if "head" in names.columns
    ]
    if not texts:
        return None
    once = pl.concat([one.unique(maintain_order=True) for one in texts], how="diagonal_relaxed")
    once = once.unique(maintain_order=True)
    twice = once.filter(~pl.struct(pl.exclude("file")).is_first_distinct())
    if twice.is_empty():
        return None
    return TraceError(
        "check trace",
        f"{files[0].parent}: column instance, instance {twice['instance'][0]}",
        "heads of one text in several files",
        "all rows of a text in one file",
    )


def repeated(names: pl.DataFrame, origins: Sequence[str]) -> TraceError | None:
    """Return an error for the first row with the keys of an earlier one.

    Args:
        names: Keys of every row.
        origins: Name of each row's file in errors.
    """
    # A text that is counted twice would make every interval too narrow.
    if names.width == 0 or names.n_unique() == names.height:
        return None
    row = int((~names.select(pl.struct(pl.all()).is_first_distinct()).to_series()).arg_max() or 0)
    return TraceError(
        "check trace",
        f"{origins[row]}: column instance, instance {names['instance'][row]}",
        f"several rows alike in {', '.join(names.columns)}",
        "a row of its own for each",
        "number the texts, or add a column split, layer, head or query",
    )


def keys_of(table: pl.DataFrame) -> pl.DataFrame:
    """Return the columns that identify a row; none without a column ``instance``."""
    names = [name for name in ROW_KEYS if name in table.columns]
    return table.select(names if "instance" in names else [])


def _keys_in(files: Sequence[Path]) -> Iterator[tuple[Path, pl.DataFrame]]:
    for file in files:
        for table, _, _ in read_pieces(file, ROW_KEYS):
            names = keys_of(conform(table, str(file), needed=()))
            if names.width:
                yield file, names

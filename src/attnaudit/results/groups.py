"""The groups of a summary: all rows, the rows of each predicted class, the rows of each head."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
import polars.selectors as cs
from jaxtyping import Float

from attnaudit.trace import SEVERAL

ALL, OF_CLASS, OF_HEAD = "all", "predicted:", "head:"  # head:<layer>.<head>
# With more classes, mostly answers to questions, each has too few rows for a summary of its own.
MOST_CLASSES = 24
LARGE = 100_000  # from this number of rows on, a report draws a sample
PIECE = 1 << 16  # rows in memory at a time
Measures = Callable[[pl.LazyFrame], pl.LazyFrame]


class Group(NamedTuple):
    """Rows of a summary that have not been read yet.

    Attributes:
        name: Name of the group.
        measures: A column per measure.
        text: Number of each row's text, in a single column; None if each row is a text.
        several: True if a text may have several rows, of heads or gold tokens.
    """

    # The texts are a frame of their own: polars joins frames side by side in memory, which would
    # take several times as much for large tables.
    name: str
    measures: pl.LazyFrame
    text: pl.LazyFrame | None = None
    several: bool = False


def by_group(
    table: pl.DataFrame | pl.LazyFrame,
    measures: Measures,
    further: Mapping[str, pl.Expr] | None = None,
) -> Iterator[Group]:
    """Measure the rows of every group of a table.

    Args:
        table: A row per trace row.
        measures: Function from the rows of a group to a column per measure. It must work row by
            row, because groups are read in pieces. If a measure depends on all rows of the group,
            the function may read columns itself.
        further: Conditions of further groups, by name.

    Yields:
        The groups, with all rows first.
    """
    # Lists with an entry per token are most of a large table, and no measure needs them.
    rows = table.lazy().select(~cs.nested())
    columns = rows.collect_schema().names()
    several = any(name in SEVERAL for name in columns)
    for name, chosen in (_filters(rows, columns) | dict(further or {})).items():
        group = rows if chosen is None else rows.filter(chosen)
        yield Group(name, measures(group), group.select(text_number(columns)), several)


def _filters(table: pl.LazyFrame, columns: Sequence[str]) -> dict[str, pl.Expr | None]:
    """Map each group to the condition on its rows; None selects all."""
    # Streaming, so that only the distinct keys are in memory.
    names = [name for name in ("predicted", "layer", "head") if name in columns]
    keys = table.select(names).unique().collect(engine="streaming")
    classes = sorted(keys["predicted"].unique())
    filters: dict[str, pl.Expr | None] = {ALL: None}
    if len(classes) <= MOST_CLASSES:
        filters |= {f"{OF_CLASS}{name}": pl.col("predicted") == name for name in classes}
    if {"layer", "head"} <= set(names):
        heads = keys.select("layer", "head").drop_nulls().unique().sort("layer", "head")
        for layer, head in heads.iter_rows():
            chosen = (pl.col("layer") == layer) & (pl.col("head") == head)
            filters[f"{OF_HEAD}{layer}.{head}"] = chosen
    return filters


def numbers_of(rows: pl.DataFrame) -> Float[np.ndarray, "n m"]:
    """Return all columns as floats; null becomes NaN."""
    numbers = rows.select(pl.all().cast(pl.Float64).fill_null(float("nan")))
    return numbers.to_numpy().reshape(rows.shape)


def pieces_of(table: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """Read the rows of a table in order, about `PIECE` at a time."""
    yield from table.collect_batches(chunk_size=PIECE, maintain_order=True)


def text_number(columns: Sequence[str]) -> pl.Expr:
    """Return an expression for the number of each row's text, ascending with split and instance."""
    # Splits number their instances separately, so a text is identified by both.
    if "split" not in columns:
        return pl.col("instance")
    # Ranks are small, while ids may be so large that their product with the split overflows.
    split = pl.col("split").fill_null("").rank("dense").cast(pl.Int64)
    instance = pl.col("instance").rank("dense").cast(pl.Int64)
    return split * instance.max() + instance

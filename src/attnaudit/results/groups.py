"""The groups of a summary: all rows, those of each predicted class, those of each head; and large tables, read piece by piece.

A table of `LARGE` rows or more is never read whole. Its rows are added, piece by piece, to `GroupedSums`, twice where a measure depends on
all rows of its group: first their distribution is counted, then each row is given its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl
import polars.selectors as cs
from jaxtyping import Float

from attnaudit.stats.sums import GroupedSums
from attnaudit.trace import SEVERAL

CLUSTER = "of instance"
ALL, OF_CLASS, OF_HEAD = "all", "predicted:", "head:"  # head:<layer>.<head>
MOST_CLASSES = 24
LARGE = 100_000  # rows from which a table is read piece by piece
PIECE = 1 << 16  # rows
Measures = Callable[[pl.LazyFrame], pl.LazyFrame]


class Together(NamedTuple):
    """A column ``name`` whose value for a row depends on all rows of its group, through the distribution of some numbers of a row.

    ``numbers`` are those of every row, one or several, NaN where unknown; those with the same ``code``, from 0 up to ``codes``, count as
    alike. ``of`` gives the value of each of the distinct numbers, of which there are so many; a row has the mean of its numbers'.
    """

    name: str
    numbers: Callable[[pl.DataFrame], Float[np.ndarray, "n k"]]
    code: Callable[[Float[np.ndarray, " n"]], Float[np.ndarray, " n"]]
    codes: int
    of: Callable[[Float[np.ndarray, " c"], Float[np.ndarray, " c"]], Float[np.ndarray, " c"]]
    is_share: bool = False


class _Counts:
    """How many numbers have each code, and their sums."""

    def __init__(self, together: Together) -> None:
        self.together = together
        self.count, self.sum = np.zeros(together.codes), np.zeros(together.codes)

    def add(self, rows: pl.DataFrame) -> None:
        numbers = self.together.numbers(rows)
        known = numbers[~np.isnan(numbers).any(axis=1)].ravel()
        code = self.together.code(known).astype(np.int64)
        self.count += np.bincount(code, minlength=len(self.count))
        self.sum += np.bincount(code, known, len(self.sum))

    @cached_property
    def value(self) -> Float[np.ndarray, " c"]:
        """The value of each code; NaN of one that no row has."""
        some, found = self.count > 0, np.full(len(self.count), np.nan)
        if some.any():
            found[some] = self.together.of(self.sum[some] / self.count[some], self.count[some])
        return found

    def column(self, rows: pl.DataFrame) -> pl.Series:
        numbers = self.together.numbers(rows)
        known, found = ~np.isnan(numbers).any(axis=1), np.full(len(numbers), np.nan)
        code = self.together.code(numbers[known].ravel()).astype(np.int64)
        found[known] = self.value[code].reshape(-1, numbers.shape[1]).mean(axis=1)
        column = pl.Series(self.together.name, found, nan_to_null=True)
        return column.cast(pl.Boolean) if self.together.is_share else column


@dataclass(frozen=True)
class Groups:
    """``measures`` of all rows of ``table``, of each predicted class and of each head, by `ALL`, `OF_CLASS` and `OF_HEAD`.

    Iterating gives pairs of a group's name and its frame, none of which is read yet. Where an instance has several rows, of heads or of
    gold tokens, a column `CLUSTER` says whose each is. With more than `MOST_CLASSES` classes, answers to questions for the most part, a
    class has too few rows to tell of: only all. ``measures`` find the columns of ``together`` in their frame where the table `is_large`.
    """

    table: pl.LazyFrame
    measures: Measures
    together: Sequence[Together] = ()
    height: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "height", self.table.select(pl.len()).collect().item())

    @cached_property
    def several(self) -> bool:
        """Whether an instance may have several rows."""
        return any(name in SEVERAL for name in self.table.collect_schema().names())

    @cached_property
    def is_large(self) -> bool:
        """Whether the table is read piece by piece: of rows that share instances only those that are in the order of the instances."""
        return self.height >= LARGE and (not self.several or in_order(self.table))

    def __iter__(self) -> Iterator[tuple[str, pl.LazyFrame]]:
        for name, rows in self.filters.items():
            yield name, self._measured(self.table if rows is None else self.table.filter(rows))

    def _measured(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        found = self.measures(rows)
        return (
            pl.concat(
                [found, rows.select(text_of(rows.collect_schema().names()).alias(CLUSTER))],
                how="horizontal",
            )
            if self.several
            else found
        )

    @cached_property
    def filters(self) -> dict[str, pl.Expr | None]:
        """Which rows each group has; None is all."""
        names = self.table.collect_schema().names()
        keys = [name for name in ("predicted", "layer", "head") if name in names]
        found = distinct(self.table, keys)
        classes = sorted(found["predicted"].unique())
        filters: dict[str, pl.Expr | None] = {ALL: None}
        filters |= {
            f"{OF_CLASS}{name}": pl.col("predicted") == name
            for name in (classes if len(classes) <= MOST_CLASSES else ())
        }
        if {"layer", "head"} <= set(keys):
            heads = found.select("layer", "head").drop_nulls().unique().sort("layer", "head")
            filters |= {
                f"{OF_HEAD}{layer}.{head}": (pl.col("layer") == layer) & (pl.col("head") == head)
                for layer, head in heads.iter_rows()
            }
        return filters

    def pieces(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """The rows of every group, piece by piece."""
        for piece in pieces_of(self.table):
            for name, rows in self.filters.items():
                found = piece if rows is None else piece.filter(rows)
                if found.height:
                    yield name, found

    def sums(self) -> Mapping[str, tuple[dict[str, bool], GroupedSums]]:
        """Of every group, in the order of `filters`: its measures, which of them are true or false, and their sums; of a large table."""
        counts = {name: [_Counts(one) for one in self.together] for name in self.filters}
        if self.together:
            for name, rows in self.pieces():
                for one in counts[name]:
                    one.add(rows)
        found: dict[str, tuple[dict[str, bool], GroupedSums]] = {}
        for name, rows in self.pieces():
            measured = self.measures(
                rows.with_columns(one.column(rows) for one in counts[name]).lazy()
            ).collect()
            is_share = {column: dtype == pl.Boolean for column, dtype in measured.schema.items()}
            _, sums = found.setdefault(
                name, (is_share, GroupedSums.of(measured.width, self.several))
            )
            sums.add(numbers_of(measured), rows["instance"].to_numpy())
        return {name: found[name] for name in self.filters if name in found}


def by_group(
    table: pl.DataFrame | pl.LazyFrame,
    measures: Measures,
    lists: Sequence[str] = (),
    together: Sequence[Together] = (),
) -> Groups:
    """The `Groups` of a table, whose ``measures`` see the columns with one value a row and the ``lists`` named, and keep the rows."""
    return Groups(
        table.lazy().select(~cs.nested() | cs.by_name(*lists, require_all=False)),
        measures,
        together,
    )


def numbers_of(rows: pl.DataFrame) -> Float[np.ndarray, "n m"]:
    """All columns as numbers; null is NaN."""
    return (
        rows.select(pl.all().cast(pl.Float64).fill_null(float("nan")))
        .to_numpy()
        .reshape(rows.shape)
    )


def pieces_of(table: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """The rows of a table in order, `PIECE` at a time."""
    yield from table.collect_batches(chunk_size=PIECE, maintain_order=True)


def distinct(table: pl.LazyFrame, names: Sequence[str]) -> pl.DataFrame:
    """The distinct rows of some columns, in no order."""
    schema = table.select(names).collect_schema()
    found = pl.DataFrame(schema=schema)
    for piece in pieces_of(table.select(names)):
        found = pl.concat([found, piece.unique()]).unique()
    return found


def text_of(columns: Sequence[str]) -> pl.Expr:
    """A number for the text of each row, ascending with split and instance: splits number their instances separately."""
    if "split" not in columns:
        return pl.col("instance")
    split, instance = (
        pl.col("split").fill_null("").rank("dense").cast(pl.Int64),
        pl.col("instance").rank("dense").cast(pl.Int64),
    )
    return split * instance.max() + instance


def in_order(table: pl.LazyFrame) -> bool:
    """Whether the rows are in ascending order of their instances, each of one split, so that those of a text are neighbours."""
    names = [name for name in ("instance", "split") if name in table.collect_schema().names()]
    last = pl.DataFrame()
    for piece in pieces_of(table.select(names)):
        rows = pl.concat([last, piece]) if last.width else piece
        before, after = rows[:-1], rows[1:]
        same = before["instance"] == after["instance"]
        if (after["instance"] < before["instance"]).any():
            return False
        if "split" in names and (same & before["split"].ne_missing(after["split"])).any():
            return False
        last = rows[-1:]
    return True

"""The heads that a summary is about: a text has a row in the trace for each of them, and is one text to a reader."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from attnaudit.core.numbers import count
from attnaudit.results.table import OF_HEAD
from attnaudit.results.words import POSITION, TEXT

Head = tuple[int, int]
"""Layer and head, each from 0."""


@dataclass(frozen=True)
class Heads:
    """What was audited of a model with heads: their ``names`` in order, of how many ``texts``, in how many ``rows``.

    Each head has a row for every text, or for every one of several positions of it.
    """

    names: tuple[Head, ...]
    texts: int
    rows: int

    @property
    def positions(self) -> int:
        """How many rows a head has."""
        return self.rows // len(self.names)

    @property
    def unit(self) -> str:
        """What a row of one head is."""
        return POSITION if self.positions > self.texts else TEXT

    @classmethod
    def of(cls, summary: pl.DataFrame) -> Heads | None:
        """The heads of a summary; None where its rows are of no head."""
        rows = summary.filter(pl.col("group").str.starts_with(OF_HEAD)).with_columns(
            total=pl.col("n") + pl.col("undefined")
        )
        if not rows.height:
            return None
        sizes = dict(rows.group_by("group").agg(pl.col("total").max()).iter_rows())
        texts = rows.select(pl.col("texts").max()).item() if "texts" in rows.columns else None
        return cls(
            tuple(sorted(map(head_of, sizes))), texts or max(sizes.values()), sum(sizes.values())
        )

    @property
    def row(self) -> str:
        """What a row is, in words."""
        return f"{'a position of a text' if self.unit == POSITION else 'a text'} under one head"

    def __str__(self) -> str:
        """``500 texts, 4 heads of layer 3: 2000 rows``, or ``12 texts at 120 positions, …``."""
        positions = f" at {count(self.positions, POSITION)}" if self.unit == POSITION else ""
        return f"{count(self.texts, 'text')}{positions}, {in_words(self.names)}: {count(self.rows, 'row')}"


def head_of(group: str) -> Head:
    """The head of a group of a summary."""
    layer, _, head = group.removeprefix(OF_HEAD).partition(".")
    return int(layer), int(head)


def named(head: Head) -> str:
    """``head 1 of layer 3``."""
    return f"head {head[1]} of layer {head[0]}"


def in_words(heads: Iterable[Head]) -> str:
    """``4 heads of layer 3``, ``16 heads of 4 layers``, ``head 1 of layer 3``."""
    found = list(heads)
    layers = {layer for layer, _ in found}
    if len(found) == 1:
        return named(found[0])
    return f"{count(len(found), 'head')} of {f'layer {found[0][0]}' if len(layers) == 1 else count(len(layers), 'layer')}"


def anchor(head: Head) -> str:
    """The fragment of a page's address that names a head."""
    return f"head-{head[0]}-{head[1]}"

"""Summary rows by experiment and measure, for all texts, each class and each head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from attnaudit.results.groups import OF_HEAD
from attnaudit.trace import SHOWN

ROW, TEXT, POSITION = "row", "text", "position"
"""Nouns for the unit of a mean; a text with several heads or positions has several rows."""
_PREDICTED = "predicted:"

Row = Mapping[str, Any]
"""Row of a summary, by column."""
Head = tuple[int, int]
"""Layer and head, each from 0."""


def head_of(group: str) -> Head:
    """Return the head of a group such as ``head:3.11``."""
    layer, _, head = group.removeprefix(OF_HEAD).partition(".")
    return int(layer), int(head)


@dataclass(frozen=True)
class Heads:
    """The audited part of a model with heads.

    Attributes:
        names: The heads, in order.
        texts: Number of texts.
        rows: Number of rows; each head has one per text, or one per position of every text.
    """

    names: tuple[Head, ...]
    texts: int
    rows: int

    @property
    def positions(self) -> int:
        """Number of rows of one head."""
        return self.rows // len(self.names)

    @property
    def unit(self) -> str:
        """Noun for a row of one head: a text or a position."""
        return POSITION if self.positions > self.texts else TEXT

    @property
    def layers(self) -> set[int]:
        """Layers with an audited head."""
        return {layer for layer, _ in self.names}

    @classmethod
    def of(cls, summary: pl.DataFrame) -> Heads | None:
        """Read the heads of a summary; None if it has no rows of heads."""
        # A measure may be undefined in all rows of a head, so undefined rows count too.
        rows = summary.filter(pl.col("group").str.starts_with(OF_HEAD)).with_columns(
            total=pl.col("n") + pl.col("undefined")
        )
        if not rows.height:
            return None
        sizes = dict(rows.group_by("group").agg(pl.col("total").max()).iter_rows())
        texts = rows.select(pl.col("texts").max()).item() if "texts" in rows.columns else None
        names = tuple(sorted(map(head_of, sizes)))
        return cls(names, texts or max(sizes.values()), sum(sizes.values()))


@dataclass(frozen=True)
class SummaryRows:
    """Summary rows that have a value.

    Attributes:
        rows: Rows over all texts, by experiment and measure.
        by_class: Rows of each predicted class, by experiment and measure.
        audited: The heads, for a model that has some.
        by_head: Rows of each head.
        head: The head of these rows, if they are of one.
        prediction_unit: Noun for what has one prediction, which all heads share: a text or a
            position.
    """

    rows: Mapping[tuple[str, str], dict[str, Any]]
    by_class: Mapping[tuple[str, str], Sequence[dict[str, Any]]] = field(default_factory=dict)
    audited: Heads | None = None
    by_head: Mapping[Head, SummaryRows] = field(default_factory=dict)
    head: Head | None = None
    prediction_unit: str = TEXT

    @classmethod
    def of(cls, summary: pl.DataFrame) -> SummaryRows:
        """Index the rows of a summary."""
        known = summary.filter(pl.col("value").is_not_null(), pl.col("value").is_not_nan())
        group = pl.col("group")
        by_class = known.filter(group.str.starts_with(_PREDICTED))
        of_heads = known.filter(group.str.starts_with(OF_HEAD)).partition_by("group", as_dict=True)
        audited = Heads.of(summary)
        unit = _prediction_unit(known) if audited is None else audited.unit
        by_head = {
            (head := head_of(str(group))): cls(_by_measure(rows), head=head, prediction_unit=unit)
            for (group,), rows in of_heads.items()
        }
        return cls(
            _by_measure(known.filter(group="all")),
            by_class.rows_by_key(["experiment", "measure"], named=True, include_key=True),
            audited,
            dict(sorted(by_head.items())),
            prediction_unit=unit,
        )

    @property
    def predicted(self) -> set[str]:
        """Classes that are predicted for at least one text."""
        return {
            row["group"].removeprefix(_PREDICTED) for rows in self.by_class.values() for row in rows
        }

    def of_class(self, name: str) -> SummaryRows:
        """Return the rows of the texts with this predicted class."""
        own = {key: found[name] for key in self.by_class if name in (found := self.classes(*key))}
        return replace(self, rows=own, by_class={}, by_head={})

    def classes(self, experiment: str, measure: str) -> dict[str, dict[str, Any]]:
        """Return a measure's row in every predicted class that has one."""
        rows = self.by_class.get((experiment, measure), ())
        return {row["group"].removeprefix(_PREDICTED): row for row in rows}

    def heads(self, experiment: str, measure: str) -> dict[Head, dict[str, Any]]:
        """Return a measure's row in every head that has one; empty if only one was audited."""
        found = {head: rows.get(experiment, measure) for head, rows in self.by_head.items()}
        known = {head: row for head, row in found.items() if row is not None}
        # With a single head the rows over all texts are its rows already.
        return known if len(self.by_head) > 1 else {}

    @property
    def unit(self) -> str:
        """Noun for the unit of the means."""
        # Means over several heads count rows. Other means count texts or positions.
        return ROW if self.audited and len(self.audited.names) > 1 else self.prediction_unit

    @property
    def heatmap(self) -> str:
        """The score that the verdict is about: ``shown`` if there is one, else ``attention``."""
        # The rows of a head say how its attention compares with the heatmap.
        shown = self.head is None and any(name.endswith(f"_{SHOWN}") for _, name in self.rows)
        return SHOWN if shown else "attention"

    def get(self, experiment: str, measure: str) -> dict[str, Any] | None:
        """Return the row of a measure; None if it has no value."""
        return self.rows.get((experiment, measure))

    def value(self, experiment: str, measure: str) -> float | None:
        """Return the value of a measure; None if it has none."""
        row = self.get(experiment, measure)
        return None if row is None else float(row["value"])

    def all_of(self, experiment: str, *measures: str) -> list[dict[str, Any]]:
        """Return the rows of several measures, or an empty list if one of them has no value."""
        found = [row for name in measures if (row := self.get(experiment, name)) is not None]
        return found if len(found) == len(measures) else []

    def family(self, experiment: str, prefix: str) -> dict[str, dict[str, Any]]:
        """Return the rows of measures named ``prefix`` + rest, by that rest."""
        return {
            measure.removeprefix(prefix): row
            for (name, measure), row in self.rows.items()
            if name == experiment and measure.startswith(prefix)
        }

    def texts(self, experiment: str, measure: str) -> int | None:
        """Return the number of texts behind a mean, each counted once; None if unknown."""
        row = self.get(experiment, measure)
        return None if row is None else texts(row)

    def tested(self, experiment: str = "") -> int:
        """Return the number of texts of an experiment, by default of the trace.

        A text without a value counts, too.
        """
        own = (row for (name, _), row in self.rows.items() if experiment in ("", name))
        return max((row.get("texts") or row["n"] + row["undefined"] for row in own), default=0)


def texts(row: Row) -> int | None:
    """Return the number of texts behind a summary row, each counted once."""
    return row.get("texts") or row.get("n")


def _prediction_unit(summary: pl.DataFrame) -> str:
    """Return the unit of a model without heads: a position if texts have several, else a text."""
    several = "texts" in summary.columns and (summary["texts"] < summary["n"]).any()
    return POSITION if several else TEXT


def _by_measure(rows: pl.DataFrame) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["experiment"], row["measure"]): row for row in rows.iter_rows(named=True)}

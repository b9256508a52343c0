"""The rows of a card: a question each, a figure with its interval, a reference value, and a sentence that claims no more than they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from attnaudit.results.words import figure, interval

CLASSES_APART = 0.1  # predicted classes whose means differ by this much, with intervals apart, are listed: the mean over all is no class's
FEWEST_OF_CLASS = 20
_PREDICTED = "predicted:"


@dataclass(frozen=True)
class CardRow:
    """One question of a card and its answer.

    ``value``, ``low``, ``high`` and ``mark`` (a reference value) lie on ``scale``, for drawing; ``figure``, ``interval`` and
    ``yardstick`` are their texts.
    """

    question: str
    measure: str
    figure: str
    interval: str
    yardstick: str
    sentence: str
    value: float
    low: float | None
    high: float | None
    mark: float | None
    scale: tuple[float, float]


@dataclass(frozen=True)
class SummaryRows:
    """The summary rows that have a value, by experiment and measure: ``rows`` of all instances, ``by_class`` of each predicted class."""

    rows: Mapping[tuple[str, str], dict[str, Any]]
    by_class: Mapping[tuple[str, str], Sequence[dict[str, Any]]] = field(default_factory=dict)

    @classmethod
    def of(cls, summary: pl.DataFrame) -> SummaryRows:
        known = summary.filter(pl.col("value").is_not_null(), pl.col("value").is_not_nan())
        overall, by_class = known.filter(group="all"), known.filter(pl.col("group").str.starts_with(_PREDICTED))
        rows = {(row["experiment"], row["measure"]): row for row in overall.iter_rows(named=True)}
        return cls(rows, by_class.rows_by_key(["experiment", "measure"], named=True, include_key=True))

    def get(self, experiment: str, measure: str) -> dict[str, Any] | None:
        return self.rows.get((experiment, measure))

    def value(self, experiment: str, measure: str) -> float | None:
        row = self.get(experiment, measure)
        return None if row is None else float(row["value"])

    def apart(self, experiment: str, measure: str, places: int = 2) -> str:
        """A sentence with the lowest and the highest class where the mean over all describes neither, else nothing."""
        rows = [row for row in self.by_class.get((experiment, measure), ()) if row["n"] >= FEWEST_OF_CLASS and row["low"] is not None]
        if len(rows) < 2:
            return ""
        least, most = min(rows, key=lambda row: row["value"]), max(rows, key=lambda row: row["value"])
        if most["value"] - least["value"] < CLASSES_APART or most["low"] <= least["high"]:
            return ""
        ends = (f"{row['group'].removeprefix(_PREDICTED)} {figure(row['value'], places)}" for row in (least, most))
        return f" By predicted class: {', '.join(ends)}."


def card_row(
    question: str, measure: str, row: Mapping[str, Any], yardstick: str, sentence: str, *,
    mark: float | None = None, scale: tuple[float, float] = (0.0, 1.0), places: int = 2,
) -> CardRow:  # fmt: skip
    """The card row of the summary row ``row``: ``value`` and interval, rounded, ``mark`` and ``scale`` for drawing."""
    value, low, high = float(row["value"]), row.get("low"), row.get("high")
    return CardRow(question, measure, figure(value, places), interval(row, places), yardstick, sentence, value, low, high, mark, scale)

"""The rows of a card: a question each, a figure with its interval, a reference value, and a sentence that claims no more than they do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from attnaudit.core.numbers import count
from attnaudit.results.heads import Head, Heads, head_of, in_words, named
from attnaudit.results.table import OF_HEAD
from attnaudit.results.words import INSTANCE, ROW, TEXT, figure, interval
from attnaudit.stats.inference import FEWEST

CLASSES_APART = 0.1  # predicted classes whose means differ by this much, with intervals apart, are listed: the mean over all is no class's
MOST_NAMED = 6  # of more classes only the lowest and the highest are named
WITHHELD = "No conclusion: see the line on top."
_PREDICTED = "predicted:"


@dataclass(frozen=True)
class Claim:
    """What a row adds to the line on top of its card: a ``clause`` that ``supports`` heatmaps as an explanation, or speaks against them.

    ``of_several`` says it of several classes with unlike figures; empty where the clause does. ``decided`` is the interval of the figure
    that decides; None where that is the row's.
    """

    supports: bool
    clause: str
    of_several: str = ""
    decided: tuple[float | None, float | None] | None = None

    @property
    def general(self) -> Claim:
        return Claim(self.supports, self.of_several or self.clause)


@dataclass(frozen=True)
class CardRow:
    """One question of a card and its answer.

    ``value``, ``low``, ``high`` and ``mark`` (a reference value) lie on ``scale``, for drawing; ``figure``, ``interval`` and
    ``yardstick`` are their texts. ``experiment`` and ``name`` are those of the summary row. A row ``of_model`` is about the model's own
    quality, and draws no conclusion about its attention. ``separates`` says how well the measure tells faithful from unfaithful attention
    where the truth is known; empty where nobody knows.
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
    experiment: str = ""
    name: str = ""
    claim: Claim | None = None
    of_model: bool = False
    separates: str = ""


@dataclass(frozen=True)
class SummaryRows:
    """The summary rows that have a value, by experiment and measure: ``rows`` of all instances, ``by_class`` of each predicted class.

    Of a model with heads ``audited`` says which, ``by_head`` has the rows of each alone, and ``head`` is the one that these rows are of;
    a head has a row for each ``row_of_head``, a text or a position.
    """

    rows: Mapping[tuple[str, str], dict[str, Any]]
    by_class: Mapping[tuple[str, str], Sequence[dict[str, Any]]] = field(default_factory=dict)
    audited: Heads | None = None
    by_head: Mapping[Head, SummaryRows] = field(default_factory=dict)
    head: Head | None = None
    row_of_head: str = TEXT

    @classmethod
    def of(cls, summary: pl.DataFrame) -> SummaryRows:
        known = summary.filter(pl.col("value").is_not_null(), pl.col("value").is_not_nan())
        overall, by_class = (
            known.filter(group="all"),
            known.filter(pl.col("group").str.starts_with(_PREDICTED)),
        )
        of_heads = known.filter(pl.col("group").str.starts_with(OF_HEAD)).partition_by(
            "group", as_dict=True
        )
        audited = Heads.of(summary)
        unit = TEXT if audited is None else audited.unit
        by_head = {
            (head := head_of(str(group))): cls(_by_measure(rows), head=head, row_of_head=unit)
            for (group,), rows in of_heads.items()
        }
        classes = by_class.rows_by_key(["experiment", "measure"], named=True, include_key=True)
        return cls(
            _by_measure(overall), classes, audited, dict(sorted(by_head.items())), row_of_head=unit
        )

    @property
    def predicted(self) -> set[str]:
        """The classes that some instance is predicted to be of; empty where the summary has no rows of classes."""
        return {
            row["group"].removeprefix(_PREDICTED) for rows in self.by_class.values() for row in rows
        }

    def of_class(self, name: str) -> SummaryRows:
        """The rows of the instances that are predicted to be of a class."""
        group = f"{_PREDICTED}{name}"
        own = {
            key: row for key, rows in self.by_class.items() for row in rows if row["group"] == group
        }
        return replace(self, rows=own, by_class={}, by_head={})

    @property
    def unit(self) -> str:
        """What these numbers are means over: instances, or of a model with heads the texts or positions of one, or rows of several."""
        if self.head is None and self.audited is None:
            return INSTANCE
        return ROW if self.audited is not None and len(self.audited.names) > 1 else self.row_of_head

    @property
    def text(self) -> str:
        """What a reader calls what has one prediction."""
        return INSTANCE if self.unit == INSTANCE else self.row_of_head

    @property
    def counted(self) -> str:
        """What `instances` counts: of several rows of a text the text."""
        return INSTANCE if self.unit == INSTANCE else TEXT

    @property
    def of_head(self) -> str:
        """Whose weights are replaced, to be put behind a word."""
        return (
            ""
            if self.unit == INSTANCE
            else " of this head"
            if self.head is not None
            else " of one head"
        )

    @property
    def heads(self) -> str:
        """``4 heads of layer 3``; empty where there are none."""
        return "" if self.audited is None else in_words(self.audited.names)

    def of_heads(self, experiment: str, measure: str) -> dict[Head, dict[str, Any]]:
        """The row of a measure for every head that has one; empty where only one head was audited."""
        found = {
            head: row
            for head, rows in self.by_head.items()
            if (row := rows.get(experiment, measure)) is not None
        }
        return found if len(self.by_head) > 1 else {}

    def get(self, experiment: str, measure: str) -> dict[str, Any] | None:
        return self.rows.get((experiment, measure))

    def instances(self, experiment: str, measure: str) -> int | None:
        """How many instances a measure is a mean over; of several rows each, such as those of heads, each counts once."""
        row = self.get(experiment, measure)
        return None if row is None else _instances(row)

    def value(self, experiment: str, measure: str) -> float | None:
        row = self.get(experiment, measure)
        return None if row is None else float(row["value"])

    def apart(self, experiment: str, measure: str, what: str, places: int = 2) -> str:
        """Sentences with the means of predicted classes, and of heads, where the mean over all describes none; else nothing.

        ``what`` names the measure: ``Mean change``.
        """
        return self._classes_apart(experiment, measure, what, places) + self._heads_apart(
            experiment, measure, what, places
        )

    def _classes_apart(self, experiment: str, measure: str, what: str, places: int) -> str:
        """The mean of each predicted class, in ascending order."""
        classes = self.by_class.get((experiment, measure), ())
        rows = sorted((row for row in classes if _may_differ(row)), key=lambda row: row["value"])
        if not _are_apart(rows):
            return ""
        listed = [
            f"{row['group'].removeprefix(_PREDICTED)} {figure(row['value'], places)}"
            for row in rows
        ]
        text = (
            ", ".join(listed)
            if len(listed) <= MOST_NAMED
            else f"{listed[0]} to {listed[-1]}, with {len(listed) - 2} between"
        )
        return f" {what} by predicted class{self._compared(len(rows), len(classes))}: {text}."

    def _heads_apart(self, experiment: str, measure: str, what: str, places: int) -> str:
        """The lowest and the highest head."""
        known = self.of_heads(experiment, measure).items()
        heads = sorted(
            ((head, row) for head, row in known if _may_differ(row)),
            key=lambda one: one[1]["value"],
        )
        if not _are_apart([row for _, row in heads]):
            return ""
        low, high = (
            f"{figure(row['value'], places)} ({named(head)})" for head, row in (heads[0], heads[-1])
        )
        return f" {what} by head{self._compared(len(heads), len(known))}: {low} to {high}."

    def _compared(self, shown: int, of: int) -> str:
        """Which of the groups are compared, where not all are."""
        return f" of {FEWEST} {self.counted}s or more" if shown < of else ""


def _by_measure(rows: pl.DataFrame) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["experiment"], row["measure"]): row for row in rows.iter_rows(named=True)}


def _instances(row: Mapping[str, Any]) -> int | None:
    """How many instances a row is a mean over, each once."""
    return row.get("texts") or row.get("n")


def _may_differ(row: Mapping[str, Any]) -> bool:
    """Whether a group has an interval, of instances enough."""
    return row["low"] is not None and (_instances(row) or 0) >= FEWEST


def _are_apart(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the first and the last of ``rows``, in ascending order, differ by `CLASSES_APART` with intervals apart."""
    return (
        len(rows) > 1
        and rows[-1]["value"] - rows[0]["value"] >= CLASSES_APART
        and rows[-1]["low"] > rows[0]["high"]
    )


def card_row(
    question: str,
    measure: str,
    row: Mapping[str, Any],
    yardstick: str,
    sentence: str,
    *,
    mark: float | None = None,
    scale: tuple[float, float] = (0.0, 1.0),
    places: int = 2,
    claim: Claim | None = None,
    of_model: bool = False,
) -> CardRow:
    """The card row of the summary row ``row``: ``value`` and interval, rounded, ``mark`` and ``scale`` for drawing."""
    value, low, high = float(row["value"]), row.get("low"), row.get("high")
    return CardRow(
        question,
        measure,
        figure(value, places),
        interval(row, places),
        yardstick,
        sentence,
        value,
        low,
        high,
        mark,
        scale,
        row.get("experiment", ""),
        row.get("measure", ""),
        claim,
        of_model,
    )


def of_enough(rows: Iterable[CardRow], found: SummaryRows) -> list[CardRow]:
    """The rows with their figures; sentences that conclude from fewer than `FEWEST` instances are withheld."""
    return [_of_enough(row, found) for row in rows]


def _of_enough(row: CardRow, found: SummaryRows) -> CardRow:
    number = found.instances(row.experiment, row.name)
    if row.of_model or number is None or number >= FEWEST:
        return row
    return replace(
        row,
        sentence=f"No conclusion from {count(number, found.counted)}: {FEWEST} or more are needed.",
        claim=None,
    )


def without_conclusions(rows: Iterable[CardRow]) -> list[CardRow]:
    """The rows with their figures; sentences that conclude from the attention of a model that learned nothing are withheld."""
    return [row if row.of_model else replace(row, sentence=WITHHELD, claim=None) for row in rows]


def listed(names: Sequence[str], last: str = "and") -> str:
    """``a, b and c``."""
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))

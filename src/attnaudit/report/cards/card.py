"""Cards and their rows: a question, a figure with its interval, a sentence, and a claim."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import polars as pl

from attnaudit.core import count
from attnaudit.experiments.findings import AGAINST, FEW, FOR, NEITHER, UNCLEAR, Finding
from attnaudit.report.charts.specs import FigureSpec
from attnaudit.report.charts.svg import Figure
from attnaudit.report.words import amount, interval
from attnaudit.results import TEXT, About, Row, SummaryRows
from attnaudit.stats.inference import FEWEST

WITHHELD = "No conclusion: see the line on top."


@dataclass(frozen=True)
class CardRow:
    """One question of a card and its answer.

    Attributes:
        question: The question.
        measure: Name of the figure.
        figure: The figure as text.
        interval: Its interval as text.
        yardstick: What to compare it with.
        sentence: What it says.
        value: The figure.
        low: Lower end of its interval.
        high: Upper end.
        experiment: Experiment of the summary row.
        name: Measure of the summary row.
        finding: What the measure decides about heatmaps; None if it decides nothing.
        clause: What the row of a study adds to the line on top.
        of_model: Whether the row is about the quality of the model, not about its attention.
        plain: What ✔ says of the row, in place of what the card states.
        shows: What its figure is in plain words, in place of what the card states.
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
    experiment: str = ""
    name: str = ""
    finding: Finding | None = None
    clause: str = ""
    of_model: bool = False
    plain: str = ""
    shows: str = ""

    @property
    def side(self) -> str:
        """The side that the row takes: for heatmaps, against them, or neither."""
        return NEITHER if self.finding is None else self.finding.side

    @property
    def sign(self) -> str:
        """Sign of the side: ✔, ✘ or –; empty for a row about the quality of the model."""
        return "" if self.of_model else {FOR: "✔", AGAINST: "✘"}.get(self.side, "–")

    @property
    def place(self) -> float | None:
        """Place on a scale from -1, against heatmaps, to 1, for them; None without sides."""
        found = self.finding
        return found.place if found and (found.side or found.code == UNCLEAR) else None


CardRows = Iterator[CardRow]


def card_row(
    question: str,
    measure: str,
    row: Row,
    yardstick: str,
    sentence: str,
    *,
    places: int = 2,
    **further: Any,
) -> CardRow:
    """Make the card row of a summary row.

    Args:
        question: The question that it answers.
        measure: Name of the figure.
        row: The summary row with value and interval.
        yardstick: What to compare the figure with.
        sentence: What it says.
        places: Decimal places of the figure and its interval.
        **further: Further attributes of the `CardRow`, such as its finding.
    """
    value = float(row["value"])
    return CardRow(
        question,
        measure,
        # A number that is not 0 is not shown as 0, which may say the opposite.
        amount(value, places).replace("less than", "<"),
        interval(row, places),
        yardstick,
        sentence,
        value,
        row.get("low"),
        row.get("high"),
        row.get("experiment", ""),
        row.get("measure", ""),
        **further,
    )


def of_enough(rows: Iterable[CardRow], found: SummaryRows) -> list[CardRow]:
    """Withhold sentences and claims that conclude from fewer than `FEWEST` texts."""

    def checked(row):
        number = found.texts(row.experiment, row.name)
        if row.of_model or number is None or number >= FEWEST:
            return row
        few = count(number, TEXT)
        said = f"No conclusion from {few}: {FEWEST} or more are needed."
        finding = row.finding and replace(row.finding, side=NEITHER, code=FEW)
        return replace(row, sentence=said, finding=finding)

    return [checked(row) for row in rows]


def without_conclusions(rows: Iterable[CardRow]) -> list[CardRow]:
    """Withhold sentences and claims about the attention of a model that learned nothing."""
    return [row if row.of_model else replace(row, sentence=WITHHELD, finding=None) for row in rows]


Rows = Callable[[SummaryRows, About], Iterable[CardRow]]
SummaryFigures = Callable[[SummaryRows], Iterable[Figure]]
StudyFigures = Callable[[pl.DataFrame, pl.DataFrame], Iterable[Figure]]


class Card(NamedTuple):
    """The part that one experiment has in a report.

    Attributes:
        question: The question that the experiment answers, a heading.
        rows: Turns summary rows into rows of the verdict card. It is called for all texts,
            for each predicted class and for each head.
        figures: Figures of the experiment's table.
        summary_figures: Turns summary rows into further figures.
        plain: What ✔ says of the row that is among the first of a card, in plain words.
        shows: What the figure of such a row is, in plain words, by its measure.
    """

    question: str = ""
    rows: Rows = lambda rows, about: ()
    figures: tuple[FigureSpec, ...] = ()
    summary_figures: SummaryFigures = lambda rows: ()
    plain: str = ""
    shows: Mapping[str, str] = {}


class StudyCard(NamedTuple):
    """The part that a study has in a report.

    Attributes:
        rows: Turns the summary rows of all studies of one base into card rows.
        figures: Turns the table and the summary of the study into figures.
    """

    rows: Rows
    figures: StudyFigures

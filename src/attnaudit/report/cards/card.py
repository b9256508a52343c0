"""Card: the words and figures of one experiment, read from the rows of its summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import polars as pl

from attnaudit.results.about import About
from attnaudit.results.card import CardRow, SummaryRows
from attnaudit.results.charts import FigureSpec, StudyFigure

Rows = Callable[[SummaryRows, About], Iterable[CardRow]]
SummaryFigures = Callable[[SummaryRows], Iterable[StudyFigure]]
StudyFigures = Callable[[pl.DataFrame, pl.DataFrame], Iterable[StudyFigure]]


class Card(NamedTuple):
    """The part that one experiment has in a report.

    Attributes:
        question: The question that the experiment answers, a heading.
        rows: Turns summary rows into rows of the verdict card. It is called for all instances,
            for each predicted class and for each head.
        figures: Figures of the experiment's table.
        summary_figures: Turns summary rows into further figures.
    """

    question: str = ""
    rows: Rows = lambda rows, about: ()
    figures: tuple[FigureSpec, ...] = ()
    summary_figures: SummaryFigures = lambda rows: ()


class StudyCard(NamedTuple):
    """The part that a study has in a report.

    Attributes:
        rows: Turns the summary rows of all studies of one base into card rows.
        figures: Turns the table and the summary of the study into figures.
    """

    rows: Rows
    figures: StudyFigures

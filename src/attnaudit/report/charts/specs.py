"""Figures as data: cards describe them, captions read the same rows, and the charts draw them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any

import polars as pl


@dataclass(frozen=True)
class Scale:
    """The measured axis of a chart: its title, ends and ticks."""

    title: str
    high: float = 1.0
    ticks: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    low: float = 0.0


@dataclass(frozen=True)
class Marker:
    """A vertical line at ``x`` with a word before it, or after it."""

    x: float
    text: str
    after: bool = False


Markers = Callable[[pl.DataFrame], Sequence[Marker]]


def _no_markers(rows: pl.DataFrame) -> Sequence[Marker]:
    return ()


def means_of(rows: pl.DataFrame, *columns: str) -> list[float]:
    """Return the means of columns over the rows where they are defined; NaN if there is none."""
    means = rows.select(pl.col(columns).cast(pl.Float64).fill_nan(None).mean().fill_null(nan))
    return list(means.row(0))


def upper_bound(column: str, least: float, high: float = 1.0) -> Markers:
    """Mark the mean upper bound of what a search found.

    Args:
        column: What was found; its bound is the column of this name with ``_upper``.
        least: A bound that is closer than this is not marked.
        high: End of the axis.
    """

    def markers(rows: pl.DataFrame) -> Sequence[Marker]:
        if f"{column}_upper" not in rows.columns:
            return ()
        found, upper = means_of(rows, column, f"{column}_upper")
        # Neither is a bound that is not known.
        seen = upper - found >= least
        return (Marker(upper, "mean upper bound", after=upper < high / 2),) if seen else ()

    return markers


@dataclass(frozen=True)
class Histogram:
    """The share of each predicted class's instances per bin of ``column``.

    Of more than two classes each has a row of its own.
    ``markers`` are lines that depend on the rows.
    """

    column: str
    scale: Scale
    title: str = ""
    bins: int = 40
    markers: Markers = _no_markers

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the chart reads."""
        return (self.column,)


@dataclass(frozen=True)
class Violins:
    """Densities of ``column``, from 0 on, by the largest attention weight and predicted class.

    ``fit`` ends the axis at the first round number that all values lie below.
    """

    column: str
    scale: Scale
    title: str = ""
    fit: bool = False
    markers: Markers = _no_markers

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the chart reads."""
        return (self.column, "max_alpha")


@dataclass(frozen=True)
class Scatter:
    """``y`` over ``x`` in [0, 1], with the share of points below y = 0 in each quarter of x."""

    x: str
    y: str
    x_title: str
    y_title: str
    title: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the chart reads."""
        return (self.x, self.y)


@dataclass(frozen=True)
class Crosstab:
    """Shares of the four combinations of two columns of true and false, called ``words``."""

    down: str
    across: str
    down_title: str
    across_title: str
    words: tuple[str, str]
    title: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the chart reads."""
        return (self.down, self.across)


@dataclass(frozen=True)
class Curves:
    """A line with its band for each name of ``points(rows)`` {name, x, value, low, high}.

    Values are from 0 to 1, x is on the axis ``scale``.
    ``points`` reads ``columns``, and ``instance``, whose rows belong together.
    """

    columns: tuple[str, ...]
    points: Callable[[pl.DataFrame], pl.DataFrame]
    scale: Scale
    y_title: str
    title: str = ""


@dataclass(frozen=True)
class Drawing:
    """A chart of one's own: ``draw(rows)`` returns an altair chart, or an ``<svg>`` as text."""

    columns: tuple[str, ...]
    draw: Callable[[pl.DataFrame], Any]
    title: str = ""


Chart = Histogram | Violins | Scatter | Crosstab | Curves | Drawing


@dataclass(frozen=True)
class FigureSpec:
    """A figure of the rows of a trace: charts side by side, a title above, a caption below.

    A chart whose columns are missing is not drawn; without any chart there is no figure.

    Attributes:
        name: Name of the figure within the page.
        title: Its title.
        charts: They see a row per instance with their columns and ``group``, the predicted class.
        caption: Text, or a function of the same rows.
        reads: Further columns that the caption reads.
        of: Selects the rows that the figure is about.
    """

    name: str
    title: str
    charts: tuple[Chart, ...]
    caption: str | Callable[[pl.DataFrame], str]
    reads: tuple[str, ...] = ()
    of: Callable[[pl.DataFrame], pl.DataFrame] = field(default=lambda rows: rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that the figure reads."""
        return tuple(
            dict.fromkeys((*(name for chart in self.charts for name in chart.columns), *self.reads))
        )

"""Figures as data: cards describe them, and each chart draws itself from rows of a trace."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from attnaudit.papers.published import MAX_ALPHA_BINS
from attnaudit.report.charts.marks import Scale as Scale
from attnaudit.report.charts.marks import box_chart, histogram
from attnaudit.report.charts.palette import Palette
from attnaudit.report.charts.svg import Drawing as Drawn

_OVERLAID = 2  # classes; of more, each has a box of its own
_MEANS = "Ticks mark class means."
_BOXES = "A line reaches from 5 to 95 % of a class, a bar has its quartiles, a tick its median."


@dataclass(frozen=True)
class Histogram:
    """The share of each predicted class's instances per bin; a box each of more than two classes.

    Attributes:
        column: The column.
        scale: Its axis.
        title: Title of the chart.
    """

    column: str
    scale: Scale
    title: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the chart reads; rows without a value in the first are not drawn."""
        return (self.column,)

    def how(self, palette: Palette) -> str:
        """Say how to read the chart."""
        return _BOXES if len(palette.groups) > _OVERLAID else _MEANS

    def draw(self, rows: pl.DataFrame, palette: Palette) -> Drawn:
        """Draw ``rows``, which have a ``group``."""
        if len(palette.groups) > _OVERLAID:
            values = rows.select(name="group", value=self.column)
            return box_chart(values, self.scale, palette.groups)
        return histogram(rows.select("group", value=self.column), self.scale, palette)


@dataclass(frozen=True)
class Violins(Histogram):
    """Boxes of a column by the largest attention weight and the predicted class."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the chart reads; rows without a value in the first are not drawn."""
        return (self.column, "max_alpha")

    def how(self, palette: Palette) -> str:
        """Say how to read the chart."""
        return _BOXES

    def draw(self, rows: pl.DataFrame, palette: Palette) -> Drawn:
        """Draw ``rows``, which have a ``group``."""
        names = list(MAX_ALPHA_BINS)
        place = (pl.col("max_alpha") * len(names)).floor().clip(0, len(names) - 1).cast(pl.Int64)
        weight = place.replace_strict(range(len(names)), names, return_dtype=pl.String)
        values = rows.select("group", name=weight, value=self.column)
        return box_chart(values, self.scale, names, palette, "largest attention weight")


@dataclass(frozen=True)
class Drawing:
    """A chart of one's own.

    Attributes:
        columns: Columns that it reads; rows without a value in the first are not drawn.
        make: Makes an altair chart, or an ``<svg>`` as text, of rows and the palette of their
            ``group``.
        title: Title of the chart.
    """

    columns: tuple[str, ...]
    make: Callable[[pl.DataFrame, Palette], Any]
    title: str = ""

    def how(self, palette: Palette) -> str:
        """Say nothing: the caption does."""
        return ""

    def draw(self, rows: pl.DataFrame, palette: Palette) -> Drawn | str:
        """Draw ``rows``, which have a ``group``."""
        return self.make(rows, palette)


Chart = Histogram | Drawing


@dataclass(frozen=True)
class FigureSpec:
    """A figure of the rows of a trace: charts side by side, a title above, a caption below.

    A chart whose columns are missing is not drawn; without any chart there is no figure.

    Attributes:
        name: Name of the figure within the page.
        title: Its title.
        charts: They see a row per instance with their columns and ``group``, the predicted class.
        caption: What was measured, and how to read it.
    """

    name: str
    title: str
    charts: tuple[Chart, ...]
    caption: str

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that the figure reads."""
        return tuple(dict.fromkeys(name for chart in self.charts for name in chart.columns))

"""The marks of all charts: histograms, boxes, lines, points, intervals and cells."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from attnaudit.report.charts.palette import Palette
from attnaudit.report.charts.svg import Drawing

# With its axis a chart is a third of a page wide, where letters are as large as they are set.
WIDTH, HEIGHT = 285, 200
_NAMED_WIDTH, _COUNTS, _LINE, _BOX = 320, 50, 30, 17  # with names and counts; a line of each
_QUANTILES = {"low": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "high": 0.95}
_BINS = 40
_UNSEEN = 0.002  # of a cell from the middle colour
_MOST_POINTS = 1200
_FEW_POINTS = 100  # fewer are drawn large
# Pixels of a letter of 12 pixels in wide fonts such as DejaVu Sans: a chart is measured here in
# another font than it is shown in.
_LETTER = 6.8
_INK = "currentColor"


@dataclass(frozen=True)
class Scale:
    """An axis of numbers.

    Attributes:
        title: Its title.
        high: Its upper end; None ends it at a round number above all values.
        low: Its lower end; None begins it at a round number below all values.
        format: Format of its numbers, as of d3.
        root: Whether it is a square-root axis.
    """

    title: str
    high: float | None = 1.0
    low: float | None = 0.0
    format: str = ""
    root: bool = False

    def x(self, field: str) -> alt.X:
        """Return the horizontal axis of a column."""
        return alt.X(f"{field}:Q", **self._options())

    def y(self, field: str) -> alt.Y:
        """Return the vertical axis of a column."""
        return alt.Y(f"{field}:Q", **self._options())

    def _options(self) -> dict[str, Any]:
        ends: dict[str, Any] = {"zero": self.low is not None, "nice": True}
        if self.high is not None:
            ends = {"domain": [self.low, self.high], "nice": False}
        axis: dict[str, Any] = {"tickCount": 4, "labelFlush": False}
        return {
            "title": self.title,
            "scale": alt.Scale(type="sqrt" if self.root else "linear", **ends),
            "axis": alt.Axis(
                format=self.format or alt.Undefined, labelOverlap=True, labelSeparation=8, **axis
            ),
        }


def name_width(names: Iterable[str], most: float = 215) -> float:
    """Return the pixels of the longest name in the widest of the usual fonts, at most ``most``."""
    return min(most, _LETTER * max(map(len, names), default=0))


def name_axis(names: Sequence[str], most: float = 215) -> alt.Axis:
    """Return a vertical axis of ``names``, `name_width` wide."""
    width = name_width(names, most)
    return alt.Axis(ticks=False, domain=False, grid=False, labelLimit=most, minExtent=width)


def histogram(rows: pl.DataFrame, scale: Scale, palette: Palette) -> Drawing:
    """Draw the share of each group's values per bin as filled steps, with a tick at its mean.

    Args:
        rows: {group, value}; values beyond the axis count in its first or last bin.
        scale: Axis of the values.
        palette: The groups.
    """
    low, high = scale.low or 0.0, scale.high or 1.0
    edges, frames = np.linspace(low, high, _BINS + 1), []
    # The last row of a group ends its last bin, and has no number.
    for (group,), part in rows.group_by("group", maintain_order=True):
        counts, _ = np.histogram(np.clip(part["value"].to_numpy(), low, high), bins=edges)
        share = counts / part.height
        columns = {
            "x": edges,
            "right": [*edges[1:], None],
            "share": [*share, share[-1]],
            "number": [*counts.tolist(), None],
        }
        frames.append(pl.DataFrame({"group": [group] * len(edges), **columns}))
    means = rows.group_by("group", maintain_order=True).agg(pl.col("value").mean())
    shares = Scale("share of the class", None, format=".0%")
    steps = alt.Chart(pl.concat(frames)).encode(
        x=scale.x("x"), y=shares.y("share").stack(None), color=palette.colour()
    )
    ticks = alt.Chart(means).mark_tick(orient="vertical", thickness=3, height=13)
    return alt.layer(
        steps.mark_area(opacity=0.28, interpolate="step-after"),
        steps.mark_line(interpolate="step-after", strokeWidth=1.6).encode(
            strokeDash=palette.dash()
        ),
        ticks.encode(x=scale.x("value"), y=alt.YValue(HEIGHT - 7), color=palette.colour()),
    ).properties(width=WIDTH, height=HEIGHT)


def box_chart(
    rows: pl.DataFrame,
    scale: Scale,
    names: Sequence[str],
    palette: Palette | None = None,
    title: str | None = None,
) -> Drawing:
    """Draw a line from 5 to 95 %, a bar of quartiles and the median, with the number of values.

    Args:
        rows: {name, value}, with the ``group`` if each group of a name has a box.
        scale: Axis of the values.
        names: The names, in order.
        palette: The groups.
        title: Title of the names.
    """
    value, height = pl.col("value"), _LINE * len(names)
    quantiles = (value.quantile(q, "linear").alias(end) for end, q in _QUANTILES.items())
    boxes = rows.group_by(["name", "group"] if palette else ["name"], maintain_order=True).agg(
        *quantiles, n=pl.format("n = {}", pl.len())
    )
    lines = alt.Scale(domain=list(names))
    y = alt.Y("name:N", title=title, sort=list(names), scale=lines, axis=name_axis(names))
    chart = alt.Chart(boxes).encode(y=y, color=alt.value(Palette.COLOURS[0]))
    if palette:
        offset = alt.YOffset("group:N", sort=list(palette.groups))
        chart = chart.encode(yOffset=offset, color=palette.colour())
        height = _BOX * len(palette.groups) * len(names)
    width = _NAMED_WIDTH - name_width(names) - _COUNTS
    text = chart.mark_text(align="left", dx=6, fontSize=11, opacity=0.75)
    return alt.layer(
        chart.mark_rule(strokeWidth=1.4).encode(x=scale.x("low"), x2="high"),
        chart.mark_bar(size=9, opacity=0.45).encode(x=scale.x("q25"), x2="q75"),
        chart.mark_tick(thickness=3, size=11).encode(x=scale.x("q50")),
        text.encode(x=alt.XValue(width), text=alt.Text("n:N"), color=alt.value(_INK)),
    ).properties(width=width, height=max(height, HEIGHT))


def interval_chart(rows: pl.DataFrame, title: str) -> Drawing:
    """Draw a dot with its interval for each of ``rows`` {name, value, low, high}, in order."""
    names, scale = rows["name"].to_list(), Scale(title, None, None)
    y = alt.Y("name:N", title=None, sort=names, axis=name_axis(names))
    chart = alt.Chart(rows).encode(y=y, color=alt.value(Palette.COLOURS[0]))
    return alt.layer(
        chart.mark_rule(strokeWidth=2).encode(x=scale.x("low"), x2="high"),
        chart.mark_point(filled=True, size=60, opacity=1).encode(x=scale.x("value")),
    ).properties(width=_NAMED_WIDTH - name_width(names), height=_LINE * len(names))


def line_chart(points: pl.DataFrame, x: Scale, y: Scale, palette: Palette | None = None) -> Drawing:
    """Draw the lines of groups, with a band if points have ends, and a legend below.

    Args:
        points: {group, x, value}, with ``low`` and ``high`` of a band, or with the ``seed`` that
            each line of a group is of.
        x: Horizontal axis.
        y: Vertical axis.
        palette: The groups; default: those of the points, in order.
    """
    palette = palette or Palette(tuple(points["group"].unique(maintain_order=True)))
    legend = alt.Legend(symbolType="stroke", symbolSize=500, symbolStrokeWidth=2)
    chart = alt.Chart(points).encode(x=x.x("x"), color=palette.colour(legend))
    if "seed" in points.columns:
        chart = chart.encode(detail="seed:N")
    layers = [
        chart.mark_line(strokeWidth=1.6).encode(y=y.y("value"), strokeDash=palette.dash(legend))
    ]
    if "low" in points.columns:
        layers.insert(0, chart.mark_area(opacity=0.16).encode(y=y.y("low"), y2="high"))
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def point_chart(
    rows: pl.DataFrame,
    x: Scale,
    y: Scale,
    palette: Palette | None = None,
    order: str = "",
    diagonal: bool = False,
) -> Drawing:
    """Draw points, of many rows some.

    Args:
        rows: {group, x, y}, with ``low`` and ``high`` of intervals of y.
        x: Horizontal axis.
        y: Vertical axis.
        palette: The groups, if the legend of the page has them; default: those of the rows, with a
            legend below if there are several.
        order: Column in whose order the points of a group are joined, where it is known.
        diagonal: Draw the line on which x and y are equal; both axes have the same ends.
    """
    groups = palette or Palette(tuple(rows["group"].unique(maintain_order=True)))
    legend = alt.Legend() if palette is None and len(groups.groups) > 1 else None
    chart = alt.Chart(rows.gather_every(-(-rows.height // _MOST_POINTS))).encode(
        x=x.x("x"), y=y.y("y"), color=groups.colour(legend)
    )
    few = rows.height <= _FEW_POINTS
    marks = chart.mark_point(filled=True, size=70 if few else 16, opacity=1 if few else 0.55)
    layers = [marks.encode(shape=groups.shape(legend))]
    if order:
        joined = chart.transform_filter(f"isValid(datum.{order})").mark_line(strokeWidth=1.6)
        layers.insert(0, joined.encode(strokeDash=groups.dash(), order=f"{order}:Q"))
    if "low" in rows.columns:
        layers.insert(0, chart.mark_rule(opacity=0.25).encode(y=y.y("low"), y2="high"))
    if diagonal:
        line = alt.Chart().mark_rule(color=_INK, opacity=0.4)
        start: dict[str, Any] = {"datum": x.low, "type": "quantitative"}
        end = alt.X2(datum=x.high), alt.Y2(datum=x.high)
        layers.insert(0, line.encode(alt.X(**start), alt.Y(**start), *end))
    return alt.layer(*layers).properties(width=WIDTH, height=WIDTH if diagonal else HEIGHT)


def cell_chart(
    rows: pl.DataFrame,
    ends: tuple[float, float, float],
    titles: tuple[str | None, str | None] = (None, None),
    cell: tuple[int, int] = (17, 17),
    numbers: bool = False,
) -> Drawing:
    """Draw a cell for each row, orange at the lower of the ``ends`` and blue at the upper.

    Args:
        rows: {x, y, value}, in the order of the cells.
        ends: Values without and with the deepest colours, in ascending order.
        titles: Titles of x and y.
        cell: Pixels of a cell, to the right and down.
        numbers: Write the value in each cell.
    """
    across, down = (rows[axis].unique(maintain_order=True).to_list() for axis in "xy")
    if set(across) == set(down):
        down = across  # a matrix without its diagonal has another name first
    shade = alt.Scale(
        domain=ends,
        range=[f"{Palette.COLOURS[1]}aa", "#8882", f"{Palette.COLOURS[0]}aa"],
        clamp=True,
    )
    # Names are all shown, of positions some.
    some = rows["x"].dtype.is_numeric()
    top = alt.Axis(orient="top", labelAngle=0 if some else -50, ticks=False, domain=False)
    left = name_axis(list(map(str, down)), 330)
    top["labelOverlap"] = left["labelOverlap"] = some
    # Cells of the middle colour need no mark: most weights of a text are hardly above 0.
    seen = (pl.col("value") - ends[1]).abs() > _UNSEEN
    chart = alt.Chart(rows if numbers else rows.filter(seen)).encode(
        x=alt.X("x:N", title=titles[0], scale=alt.Scale(domain=across), axis=top),
        y=alt.Y("y:N", title=titles[1], scale=alt.Scale(domain=down), axis=left),
    )
    layers = [chart.mark_rect().encode(color=alt.Color("value:Q", scale=shade, legend=None))]
    if numbers:
        layers.append(chart.mark_text(fontSize=11.5).encode(text=alt.Text("value:Q", format=".2f")))
    sides = {"width": cell[0] * len(across), "height": cell[1] * len(down)}
    return alt.layer(*layers).properties(**sides)

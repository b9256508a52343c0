"""Figures of a report, as cards describe them, from tables of a size that does not grow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import altair as alt
import numpy as np
import polars as pl
import polars.selectors as cs
from altair.utils.schemapi import debug_mode

from attnaudit.core.numbers import count
from attnaudit.experiments import EXPERIMENTS
from attnaudit.papers.published import MAX_ALPHA_BINS
from attnaudit.report.cards import card
from attnaudit.report.charts.palette import (
    QUANTILES,
    LegendEntry,
    Palette,
    box_layers,
    group_rows,
    legend,
    marker_layers,
    measured_axis,
    name_axis,
)
from attnaudit.report.charts.specs import (
    Chart,
    Crosstab,
    Curves,
    Drawing,
    FigureSpec,
    Histogram,
    Scale,
    Scatter,
    Violins,
)
from attnaudit.report.charts.svg import Drawing as Drawn
from attnaudit.report.charts.svg import Figure, Panel, drawn
from attnaudit.report.words import of_unit
from attnaudit.results.summary import INSTANCE, SummaryRows

# With its axis a chart is a third of a page wide, where letters are as large as they are set.
_WIDTH, _HEIGHT, _BOX_WIDTH, _BOX = 285, 200, 205, 13
_OVERLAID = 2  # classes; of more, each has a box of its own
_MEANS = "Ticks mark class means."
_BOXES = "A line reaches from 5 to 95 % of a class, a bar has its quartiles, a tick its median."
MOST_POINTS = 1200
NOTHING = "Undefined for every instance: nothing to draw."
BANDS = 4  # of x in a scatter, each a quarter of its range
_ENDS = alt.Scale(domain=[0, 1], nice=False)


def histogram(rows: pl.DataFrame, chart: Histogram) -> pl.DataFrame:
    """Return the outline of each group's shares per bin as a step line.

    {group, order, x, share}, with ``right`` and ``count`` of a bin where it begins.
    """
    low, high = chart.scale.low, chart.scale.high
    edges, frames = np.linspace(low, high, chart.bins + 1), []
    for (group,), part in rows.drop_nulls(chart.column).group_by("group", maintain_order=True):
        counts, _ = np.histogram(np.clip(part[chart.column].to_numpy(), low, high), bins=edges)
        share = counts / part.height
        corners = {
            "x": [low, *edges, high],
            "share": [0.0, *share, share[-1], 0.0],
            "right": [None, *edges[1:], None, None],
            "count": [None, *counts.tolist(), None, None],
        }
        frames.append(pl.DataFrame({"group": group, "order": range(len(edges) + 2)} | corners))
    return pl.concat(frames)


def _histogram_chart(rows: pl.DataFrame, chart: Histogram, palette: Palette) -> Drawn:
    """Draw each group's share of instances per bin as filled steps, with a tick at its mean."""
    steps, markers = histogram(rows, chart), chart.markers(rows)
    headroom = 1.3 if markers else 1.06  # above the highest bar, for the markers' words
    ends = alt.Scale(domain=[0, headroom * max(steps["share"].to_list())], nice=False)
    percents = alt.Axis(format=".0%", tickCount=4, labelExpr="datum.value > 1 ? '' : datum.label")
    x, colour = measured_axis(chart.scale, grid=False), palette.colour()
    y = alt.Y("share:Q", stack=None, title="share of the class", scale=ends, axis=percents)
    outline = alt.Chart(steps).encode(x=x, y=y, color=colour)
    means = rows.group_by("group", maintain_order=True).agg(mean=pl.col(chart.column).mean())
    ticks = alt.Chart(means).mark_tick(orient="vertical", thickness=3, height=13)
    return alt.layer(
        outline.mark_area(opacity=0.28, interpolate="step-after"),
        outline.mark_line(interpolate="step-after", strokeWidth=1.6).encode(
            order=alt.Order("order:Q"), strokeDash=palette.dash()
        ),
        ticks.encode(x=alt.X("mean:Q"), y=alt.YValue(_HEIGHT - 7), color=colour),
        *marker_layers(markers),
    ).properties(width=_WIDTH, height=_HEIGHT)


def _box_chart(rows: pl.DataFrame, chart: Histogram | Violins, palette: Palette) -> Drawn:
    """Draw quantiles of each group, or of each band of the largest weight and group.

    The number of instances stands at the right.
    """
    names, y = list(palette.groups), alt.Y("group:N", title=None)
    if isinstance(chart, Violins):
        names = list(MAX_ALPHA_BINS)
        band = (pl.col("max_alpha") * len(names)).floor().clip(0, len(names) - 1).cast(pl.Int64)
        weight = band.replace_strict(range(len(names)), names, return_dtype=pl.String)
        rows = rows.with_columns(weight=weight)
        y = alt.Y("weight:N", title="largest attention weight")
    keys = list(dict.fromkeys((str(y["shorthand"]).removesuffix(":N"), "group")))
    column = pl.col(chart.column)
    middle = [column.quantile(q, "linear").alias(name) for name, q in QUANTILES.items()]
    known = rows.drop_nulls(chart.column).group_by(keys, maintain_order=True)
    boxes = alt.Chart(known.agg(*middle, n=pl.format("n = {}", pl.len())))
    markers = chart.markers(rows)
    shown = [*[""] * any(marker.text for marker in markers), *names]  # a row for their words
    y["sort"], y["scale"], y["axis"] = shown, alt.Scale(domain=shown), name_axis(names, 84)
    if len(keys) > 1:
        boxes = boxes.encode(yOffset=alt.YOffset("group:N", sort=list(palette.groups)))
    x = measured_axis(chart.scale, grid=True, field="low")
    text = boxes.mark_text(align="left", dx=6, fontSize=11, opacity=0.75)
    rows_shown = len(shown) * (len(palette.groups) if len(keys) > 1 else 1)
    return alt.layer(
        *box_layers(boxes, x, y, palette.colour(), _BOX - 4),
        text.encode(x=alt.XValue(_BOX_WIDTH), y=y, text=alt.Text("n:N")),
        *marker_layers(markers),
    ).properties(width=_BOX_WIDTH, height=max(_HEIGHT, (_BOX + 4) * rows_shown))


def _scatter_chart(rows: pl.DataFrame, chart: Scatter, palette: Palette) -> Drawn:
    """Draw at most `MOST_POINTS` points; above, the share below 0 in each quarter of the range."""
    rows = rows.select("group", x=chart.x, y=chart.y)
    fifths = alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format=".1f", labelFlush=False)
    low, high = float(np.min(rows["y"].to_numpy())), float(np.max(rows["y"].to_numpy()))
    reach = max(high, -low, 0.05)
    # Around 0, and a little wider at the top for words.
    ends = alt.Scale(domain=[min(1.1 * low, -0.15 * reach), 1.25 * max(high, 0.3 * reach)])
    points = alt.Chart(rows.gather_every(-(-rows.height // MOST_POINTS)))
    zero = alt.Chart(pl.DataFrame({"y": [0.0]})).mark_rule(color="currentColor", opacity=0.7)
    below = alt.Chart(negative_shares(rows)).mark_text(baseline="top", fontSize=11.5, opacity=0.85)
    ends["nice"] = False
    return alt.layer(
        points.mark_point(filled=True, size=14, opacity=0.55).encode(
            x=alt.X("x:Q", title=chart.x_title, scale=_ENDS, axis=fifths),
            y=alt.Y("y:Q", title=chart.y_title, scale=ends, axis=alt.Axis(tickCount=5)),
            color=palette.colour(),
        ),
        zero.encode(y=alt.Y("y:Q")),
        below.encode(x=alt.X("x:Q"), y=alt.YValue(2), text=alt.Text("text:N")),
    ).properties(width=_WIDTH, height=_HEIGHT)


def negative_shares(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the share of ``y`` below 0 in every quarter of ``x`` that has rows: {x, text}."""
    band = (pl.col("x") * BANDS).floor().clip(0, BANDS - 1)
    share = (100 * (pl.col("y") < 0).mean()).round().cast(pl.Int64)
    return rows.group_by(x=(band + 0.5) / BANDS).agg(text=pl.format("{} % < 0", share)).sort("x")


def crosstab_chart(rows: pl.DataFrame, chart: Crosstab) -> Drawn:
    """Draw the four shares as shaded cells."""
    table, order = alt.Chart(crosstab(rows, chart)), list(chart.words)
    plain: dict[str, Any] = {"ticks": False, "domain": False}
    top = alt.Axis(orient="top", labelAngle=0, **plain)
    x = alt.X("across:N", title=chart.across_title, sort=order, axis=top)
    left = alt.Axis(minExtent=62, **plain)
    y = alt.Y("down:N", title=chart.down_title, sort=order, axis=left)
    shade = alt.Opacity("share:Q", scale=alt.Scale(domain=[0, 1], range=[0.06, 0.75]), legend=None)
    filled = table.mark_rect(color=Palette.COLOURS[0]).encode(x=x, y=y, opacity=shade)
    words = table.mark_text(fontSize=14).encode(x=x, y=y, text=alt.Text("text:N"))
    return alt.layer(filled, words).properties(width=_WIDTH, height=0.7 * _HEIGHT)


def crosstab(rows: pl.DataFrame, chart: Crosstab) -> pl.DataFrame:
    """{down, across, share, text}: the share of instances of each pair of answers."""
    names, cells = dict(zip((True, False), chart.words, strict=True)), []
    for down, across in product((True, False), repeat=2):
        both = (pl.col(chart.down) == down) & (pl.col(chart.across) == across)
        share = rows.select(both.mean()).item()
        cells.append((names[down], names[across], share, f"{100 * share:.1f} %"))
    return pl.DataFrame(cells, schema=["down", "across", "share", "text"], orient="row")


def _curves_chart(points: pl.DataFrame, chart: Curves) -> Drawn:
    """Draw a line with its band for each name of ``points`` {name, x, value, low, high}."""
    palette = Palette(tuple(points["name"].unique(maintain_order=True).to_list()), Palette.RANKINGS)
    colour, dash = palette.colour(), palette.dash()
    symbols = {"symbolSize": 500, "symbolStrokeWidth": 2, "symbolType": "stroke"}
    labels = {"labelColor": "currentColor", "labelLimit": _WIDTH, "labelFontSize": 12}
    place = {"orient": "bottom", "direction": "vertical", "columns": 2, "columnPadding": 24}
    colour["legend"] = dash["legend"] = alt.Legend(
        title=None, symbolOpacity=1, **symbols, **labels, **place
    )
    y = {"scale": _ENDS, "axis": alt.Axis(format=".0%", tickCount=5), "title": chart.y_title}
    lines = alt.Chart(points.rename({"name": "group"})).encode(
        x=measured_axis(chart.scale, grid=False), color=colour
    )
    return alt.layer(
        lines.mark_area(opacity=0.16, interpolate="step-after").encode(
            y=alt.Y("low:Q", title=chart.y_title), y2="high"
        ),
        lines.mark_line(strokeWidth=2, interpolate="step-after").encode(
            y=alt.Y("value:Q", **y), strokeDash=dash
        ),
    ).properties(width=_WIDTH, height=_HEIGHT)


def draw_figures(
    rows: pl.DataFrame,
    class_names: Sequence[str] = (),
    unit: str = INSTANCE,
    experiments: Iterable[str] | None = None,
) -> tuple[list[Figure], tuple[LegendEntry, ...]]:
    """Draw the figures that the columns of ``rows`` allow, and the legend that they share.

    Args:
        rows: Tables of experiments, joined.
        class_names: Classes in their order.
        unit: What a row is called.
        experiments: Draws figures of these only; default: of all that are registered.
    """
    if rows.height == 0 or "predicted" not in rows.columns:
        return [], ()
    grouped, palette = group_rows(rows.with_columns(cs.float().fill_nan(None)), class_names)
    # Else charts are checked against their schema a hundred times, half the time of a page.
    with debug_mode(False):
        made = [
            _figure(spec, grouped, palette, unit)
            for name in experiments or EXPERIMENTS
            for spec in card(name).figures
        ]
    return [figure for figure in made if figure is not None], legend(grouped, palette, unit)


def draw_summaries(
    summary: pl.DataFrame, unit: str = INSTANCE, experiments: Iterable[str] | None = None
) -> list[Figure]:
    """Draw the figures that all experiments, or these only, make of a summary."""
    rows = SummaryRows.of(summary)
    made = [
        figure for name in experiments or EXPERIMENTS for figure in card(name).summary_figures(rows)
    ]
    return [replace(figure, caption=of_unit(figure.caption, unit)) for figure in made]


def _figure(spec: FigureSpec, rows: pl.DataFrame, palette: Palette, unit: str) -> Figure | None:
    charts = [chart for chart in spec.charts if set(chart.columns) <= set(rows.columns)]
    if not charts:
        return None
    absent = [pl.lit(None, pl.Float64).alias(n) for n in spec.reads if n not in rows.columns]
    shown = spec.of(rows.with_columns(absent))
    if shown.height == 0:
        return None
    panels = tuple(
        _panel(chart, f"{spec.name}-{k}", spec.title, shown, palette, unit)
        for k, chart in enumerate(charts)
    )
    caption = spec.caption if isinstance(spec.caption, str) else spec.caption(shown)
    has_boxes = len(palette.groups) > _OVERLAID
    signs = {Histogram: _BOXES if has_boxes else _MEANS, Violins: _BOXES}
    told = dict.fromkeys(signs[type(chart)] for chart in charts if type(chart) in signs)
    return Figure(spec.name, spec.title, of_unit(" ".join([caption, *told]), unit), panels)


def _panel(
    chart: Chart, name: str, title: str, rows: pl.DataFrame, palette: Palette, unit: str
) -> Panel:
    """Draw one chart, with a note on what is not drawn."""
    notes = []
    if not isinstance(chart, Curves | Drawing):
        column = chart.columns[0]
        undefined = rows[column].null_count()
        if undefined == rows.height:
            return Panel(chart.title, note=of_unit(NOTHING, unit))
        if undefined:
            shown = f"{count(rows.height - undefined, unit)} of {rows.height}"
            notes.append(f"Drawn: {shown}; the others have no value.")
    if isinstance(chart, Violins) and chart.fit:
        chart = replace(chart, scale=_fitted(chart.scale, rows[chart.column]))
        if chart.scale.high < 1.0:
            notes.append(f"The axis ends at {chart.scale.high:g} of a possible 1.")
    made, note = _draw(chart, rows, palette), " ".join(notes)
    if isinstance(made, str):
        return Panel(chart.title, made, note)
    return drawn(chart.title, made, name, f"{type(chart).__name__}: {chart.title or title}", note)


def _draw(chart: Chart, rows: pl.DataFrame, palette: Palette) -> Drawn | str:
    match chart:
        case Histogram() if len(palette.groups) <= _OVERLAID:
            return _histogram_chart(rows, chart, palette)
        case Histogram() | Violins():
            return _box_chart(rows, chart, palette)
        case Scatter():
            return _scatter_chart(rows.drop_nulls(chart.columns), chart, palette)
        case Crosstab():
            return crosstab_chart(rows.drop_nulls(chart.columns), chart)
        case Curves():
            return _curves_chart(chart.points(rows), chart)
        case Drawing():
            return chart.draw(rows)


def _fitted(scale: Scale, values: pl.Series) -> Scale:
    """Return the scale from 0 to the first round number above all values, 1 at most."""
    largest = float(np.max(values.drop_nulls().to_numpy()))
    high = next((end for end in (0.05, 0.1, 0.2, 0.5) if largest <= end), 1.0)
    return replace(scale, high=high, ticks=tuple(round(high * k / 5, 2) for k in range(6)))

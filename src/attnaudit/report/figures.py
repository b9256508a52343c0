"""The figures of a report, drawn from the descriptions that experiments give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl
from altair.utils.schemapi import debug_mode

from attnaudit.experiments import EXPERIMENTS, facts
from attnaudit.published.reference import MAX_ALPHA_BINS
from attnaudit.report.charts.instances import box_chart, crosstab_chart, histogram_chart, scatter_chart, violin_chart
from attnaudit.report.charts.palette import LegendEntry, Palette, group_rows, legend
from attnaudit.report.charts.svg import Drawing as Drawn
from attnaudit.report.charts.svg import Figure, Panel, render
from attnaudit.results.charts import Boxes, Chart, Crosstab, Drawing, FigureSpec, Histogram, Scale, Scatter, Violins
from attnaudit.results.words import count

NOTHING = "Undefined for every instance: nothing to draw."


def draw_figures(rows: pl.DataFrame, class_names: Sequence[str] = ()) -> tuple[list[Figure], tuple[LegendEntry, ...]]:
    """All figures of registered experiments that the columns of ``rows`` (their tables joined) allow, and the legend they share."""
    if rows.height == 0 or "predicted" not in rows.columns:
        return [], ()
    grouped, palette = group_rows(rows, class_names)
    with debug_mode(False):  # charts are checked against their schema a hundred times over otherwise, half the time of a page
        made = [_figure(spec, grouped, palette) for name in EXPERIMENTS for spec in facts(name).figures]
    return [figure for figure in made if figure is not None], legend(grouped, palette)


def _figure(spec: FigureSpec, rows: pl.DataFrame, palette: Palette) -> Figure | None:
    charts = [chart for chart in spec.charts if set(chart.columns) <= set(rows.columns)]
    absent = [pl.lit(None, pl.Float64).alias(name) for name in spec.reads if name not in rows.columns]
    shown = spec.of(rows.with_columns(absent)) if charts else rows.clear()
    if shown.height == 0:
        return None
    panels = tuple(_panel(chart, f"{spec.name}-{k}", spec.title, shown, palette) for k, chart in enumerate(charts))
    return Figure(spec.name, spec.title, spec.caption if isinstance(spec.caption, str) else spec.caption(shown), panels)


def _panel(chart: Chart, name: str, title: str, rows: pl.DataFrame, palette: Palette) -> Panel:
    """The drawing of one chart, with a note on what is not drawn."""
    notes = []
    if isinstance(chart, Histogram | Violins | Scatter | Crosstab):
        first = next(iter(chart.columns))
        undefined = rows[first].fill_nan(None).null_count() if rows[first].dtype.is_float() else rows[first].null_count()
        if undefined == rows.height:
            return Panel(chart.title, note=NOTHING)
        notes += [f"Undefined, and not drawn, for {count(undefined, 'instance')}."] if undefined else []
    if isinstance(chart, Violins) and chart.fit:
        chart = replace(chart, scale=_fitted(chart.scale, rows[chart.column]))
        notes += [f"The axis ends at {chart.scale.high:g} of a possible 1."] if chart.scale.high < 1.0 else []
    drawn = _draw(chart, rows, palette)
    label = f"{type(chart).__name__}: {chart.title or title}"
    return Panel(chart.title, drawn if isinstance(drawn, str) else render(drawn, name, label), " ".join(notes))


def _draw(chart: Chart, rows: pl.DataFrame, palette: Palette) -> Drawn | str:
    match chart:
        case Histogram():
            return histogram_chart(rows, chart.column, chart.scale, palette, chart.markers(rows), chart.bins)
        case Violins():
            last = len(MAX_ALPHA_BINS) - 1
            banded = rows.with_columns(band=(pl.col("max_alpha") * 4).floor().clip(0, last).cast(pl.Int64))
            return violin_chart(banded, chart.column, chart.scale, MAX_ALPHA_BINS, palette, chart.markers(rows))
        case Scatter():
            return scatter_chart(rows.drop_nulls(chart.columns), chart, palette)
        case Crosstab():
            return crosstab_chart(rows.drop_nulls(chart.columns), chart)
        case Boxes():
            return box_chart(rows, chart)
        case Drawing():
            return chart.draw(rows)


def _fitted(scale: Scale, values: pl.Series) -> Scale:
    """The scale from 0 to the first round number that all values lie below, 1 at most."""
    largest = values.fill_nan(None).max()
    high = next((end for end in (0.05, 0.1, 0.2, 0.5) if isinstance(largest, float) and largest <= end), 1.0)
    return replace(scale, high=high, ticks=tuple(round(high * k / 5, 2) for k in range(6)))

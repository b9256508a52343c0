"""Figures of a report, as cards describe them, from tables of a size that does not grow."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import polars as pl
import polars.selectors as cs
from altair.utils.schemapi import debug_mode

from attnaudit.core import count
from attnaudit.experiments import EXPERIMENTS
from attnaudit.report.cards import card
from attnaudit.report.charts.palette import LegendEntry, Palette, group_rows, legend
from attnaudit.report.charts.specs import Chart, FigureSpec
from attnaudit.report.charts.svg import Figure, Panel, drawn
from attnaudit.report.words import of_unit
from attnaudit.results import TEXT, SummaryRows

NOTHING = "Undefined for every text: nothing to draw."


def draw_figures(
    rows: pl.DataFrame,
    class_names: Sequence[str] = (),
    unit: str = TEXT,
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
    return [figure for figure in made if figure.panels], legend(grouped, palette, unit)


def draw_summaries(
    summary: pl.DataFrame, unit: str = TEXT, experiments: Iterable[str] | None = None
) -> list[Figure]:
    """Draw the figures that all experiments, or these only, make of a summary."""
    rows = SummaryRows.of(summary)
    made = [
        figure for name in experiments or EXPERIMENTS for figure in card(name).summary_figures(rows)
    ]
    return [replace(figure, caption=of_unit(figure.caption, unit)) for figure in made]


def _figure(spec: FigureSpec, rows: pl.DataFrame, palette: Palette, unit: str) -> Figure:
    charts = [chart for chart in spec.charts if set(chart.columns) <= set(rows.columns)]
    panels = tuple(
        _panel(chart, f"{spec.name}-{k}", spec.title, rows, palette, unit)
        for k, chart in enumerate(charts)
    )
    captions = dict.fromkeys([spec.caption, *(chart.how(palette) for chart in charts)])
    return Figure(spec.name, spec.title, of_unit(" ".join(filter(None, captions)), unit), panels)


def _panel(
    chart: Chart, name: str, title: str, rows: pl.DataFrame, palette: Palette, unit: str
) -> Panel:
    """Draw one chart, with a note on what is not drawn."""
    known, note = rows.drop_nulls(chart.columns[0]), ""
    if known.is_empty():
        return Panel(chart.title, note=of_unit(NOTHING, unit))
    if known.height < rows.height:
        note = f"Drawn: {count(known.height, unit)} of {rows.height}; the others have no value."
    made = chart.draw(known, palette)
    if isinstance(made, str):
        return Panel(chart.title, made, note)
    return drawn(chart.title, made, name, chart.title or title, note)

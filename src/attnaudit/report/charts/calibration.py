"""Chart of the calibration: measures by constructions."""

from __future__ import annotations

import altair as alt
import polars as pl

from attnaudit.report.charts.palette import Palette, legend_of, name_axis
from attnaudit.report.charts.svg import Drawing

_CELL, _NAMES = 17, 330
TRUTHS = ("faithful", "unfaithful", "between", "none")


def matrix_chart(rows: pl.DataFrame, measures: list[str]) -> Drawing:
    """Draw a cell for each of ``rows`` {measure, construction, truth, rank}, by truth."""
    shown = alt.Scale(domain=[0, 0.5, 1], range=[Palette.COLOURS[1], "#8888", Palette.COLOURS[0]])
    legend = legend_of(title="rank among all, 1 the best", titleColor="currentColor")
    names_axis = name_axis(measures, _NAMES)
    names_axis.labelLimit = 0.85 * _NAMES  # of the narrower font in which it is drawn here
    parts = []
    for truth in (one for one in TRUTHS if rows.filter(truth=one).height):
        own = rows.filter(truth=truth)
        names = own["construction"].unique(maintain_order=True).to_list()
        title = truth if truth != "none" else "nothing learned"
        axis = alt.Axis(labelAngle=-60, orient="top")
        left = None if parts else names_axis
        cells = (
            alt.Chart(own)
            .mark_rect()
            .encode(
                x=alt.X("construction:N", title=title, sort=names, axis=axis),
                y=alt.Y("measure:N", title=None, sort=measures, axis=left),
                color=alt.Color("rank:Q", scale=shown, legend=legend),
            )
        )
        parts.append(cells.properties(width=_CELL * len(names), height=_CELL * len(measures)))
    return alt.hconcat(*parts, spacing=10)

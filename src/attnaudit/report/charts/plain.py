"""Charts of a few numbers of each instance: scatter, crosstab, boxes."""

from __future__ import annotations

from itertools import product

import altair as alt
import numpy as np
import polars as pl

from attnaudit.report.charts.palette import Palette
from attnaudit.report.charts.svg import Drawing
from attnaudit.results.charts import Boxes, Crosstab, Scatter

MOST_POINTS = 1200
BANDS = 4  # of x in a scatter, each a quarter of its range
_WIDTH, _HEIGHT = 330, 210
_FIFTHS = alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format=".1f")
_NARROW = 220  # with its labels at both sides as wide as the others
_ENDS = alt.Scale(domain=[0, 1], nice=False)
_BOX = ("low", "q25", "q50", "q75", "high")


def scatter_chart(rows: pl.DataFrame, chart: Scatter, palette: Palette) -> Drawing:
    """At most `MOST_POINTS` points of ``rows``, whose values are defined; above, the share below 0 in each quarter of the range."""
    rows = rows.select("group", x=chart.x, y=chart.y)
    points = alt.Chart(rows.gather_every(-(-rows.height // MOST_POINTS)))
    x = alt.X("x:Q", title=chart.x_title, scale=_ENDS, axis=_FIFTHS)
    y = alt.Y("y:Q", title=chart.y_title, scale=alt.Scale(domain=list(_ends(rows["y"])), nice=False), axis=alt.Axis(tickCount=5))
    dots = points.mark_point(filled=True, size=14, opacity=0.55).encode(x=x, y=y, color=palette.colour())
    zero = alt.Chart(pl.DataFrame({"y": [0.0]})).mark_rule(color="currentColor", opacity=0.7).encode(y=alt.Y("y:Q"))
    below = alt.Chart(negative_shares(rows)).mark_text(baseline="top", fontSize=11.5, opacity=0.85)
    return alt.layer(dots, zero, below.encode(x=alt.X("x:Q"), y=alt.YValue(2), text=alt.Text("text:N"))).properties(
        width=_WIDTH, height=_HEIGHT
    )


def negative_shares(rows: pl.DataFrame) -> pl.DataFrame:
    """The share of ``y`` below 0 in every quarter of [0, 1] of ``x``: {x, text}, without quarters that have no row."""
    band = (pl.col("x") * BANDS).floor().clip(0, BANDS - 1)
    shares = rows.group_by(band.alias("band")).agg((pl.col("y") < 0).mean().alias("share"), pl.len().alias("n")).sort("band")
    words = [f"{share:.0%} < 0".replace("%", " %") for share in shares["share"].to_list()]
    return pl.DataFrame({"x": ((shares["band"] + 0.5) / BANDS).to_list(), "text": words}, schema={"x": pl.Float64, "text": pl.String})


def _ends(values: pl.Series) -> tuple[float, float]:
    """A range from below 0 to above it that all values fit in, a little wider at the top for words."""
    low, high = float(np.min(values.to_numpy())), float(np.max(values.to_numpy()))
    reach = max(high, -low, 0.05)
    return min(1.1 * low, -0.15 * reach), 1.25 * max(high, 0.3 * reach)


def crosstab_chart(rows: pl.DataFrame, chart: Crosstab) -> Drawing:
    """The four shares as shaded cells."""
    table, order = alt.Chart(crosstab(rows, chart)), list(chart.words)
    x = alt.X("across:N", title=chart.across_title, sort=order, axis=alt.Axis(orient="top", labelAngle=0, ticks=False, domain=False))
    y = alt.Y("down:N", title=chart.down_title, sort=order, axis=alt.Axis(ticks=False, domain=False, minExtent=62))
    shade = alt.Opacity("share:Q", scale=alt.Scale(domain=[0, 1], range=[0.06, 0.75]), legend=None)
    filled = table.mark_rect(color=Palette.COLOURS[0]).encode(x=x, y=y, opacity=shade)
    words = table.mark_text(fontSize=14).encode(x=x, y=y, text=alt.Text("text:N"))
    return alt.layer(filled, words).properties(width=_WIDTH, height=0.7 * _HEIGHT)


def crosstab(rows: pl.DataFrame, chart: Crosstab) -> pl.DataFrame:
    """{down, across, share, text}: the share of instances of each pair of answers."""
    names, cells = dict(zip((True, False), chart.words, strict=True)), []
    for down, across in product((True, False), repeat=2):
        share = rows.select(((pl.col(chart.down) == down) & (pl.col(chart.across) == across)).mean()).item()
        cells.append((names[down], names[across], share, f"{100 * share:.1f} %"))
    return pl.DataFrame(cells, schema=["down", "across", "share", "text"], orient="row")


def box_chart(rows: pl.DataFrame, chart: Boxes) -> Drawing:
    """A box of quartiles, a line from 5 to 95 %, the median, and at the right the share of rows without a value."""
    boxes, order = box_rows(rows, chart), list(chart.names.values())
    y = alt.Y("name:N", title=None, sort=order, axis=alt.Axis(ticks=False, domain=False, labelLimit=150))
    x = alt.X("low:Q", title=chart.scale.title, scale=_ENDS, axis=_FIFTHS)
    drawn = alt.Chart(boxes)
    marked = alt.FieldOneOfPredicate("name", list(chart.marked))
    colour = alt.condition(marked, alt.value(Palette.COLOURS[5]), alt.value(Palette.COLOURS[0]))
    layers = [
        drawn.mark_rule(strokeWidth=1.4).encode(x=x, x2=alt.X2("high"), y=y, color=colour),
        drawn.mark_bar(size=16, opacity=0.45).encode(x=alt.X("q25:Q"), x2=alt.X2("q75"), y=y, color=colour),
        drawn.mark_tick(thickness=3, size=18).encode(x=alt.X("q50:Q"), y=y, color=colour),
        drawn.mark_text(align="left", dx=6, fontSize=11, opacity=0.75).encode(x=alt.XValue(_NARROW), y=y, text=alt.Text("missing:N")),
    ]
    return alt.layer(*layers).properties(width=_NARROW, height=34 * boxes.height)


def box_rows(rows: pl.DataFrame, chart: Boxes) -> pl.DataFrame:
    """{name, low, q25, q50, q75, high, missing} of every column over the rows that have a value; ``missing`` names the share without."""
    found = []
    for column, name in chart.names.items():
        values = rows[column].drop_nulls()
        ends = [values.quantile(q, "linear") for q in (0.05, 0.25, 0.5, 0.75, 0.95)] if values.len() else [None] * len(_BOX)
        found.append((name, *ends, f"{chart.missing}: {100 * (1 - values.len() / rows.height):.0f} %"))
    return pl.DataFrame(found, schema={"name": pl.String, **dict.fromkeys(_BOX, pl.Float64), "missing": pl.String}, orient="row")

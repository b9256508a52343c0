"""Violins of one measure, a row for each band of the largest attention weight and each class."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from attnaudit.report.charts import densities
from attnaudit.report.charts.palette import Palette, marker_layers, measured_axis
from attnaudit.report.charts.svg import Drawing
from attnaudit.results.charts import Marker, Scale

_WIDTH = 270  # with the labels at both sides as wide as a histogram
_HALF = 0.44  # half the height of a violin, in rows
_GAP = 0.4  # between bands, in rows


def violin_chart(
    rows: pl.DataFrame, column: str, scale: Scale, bands: Sequence[str], palette: Palette, markers: Sequence[Marker] = ()
) -> Drawing:
    """Densities with quartiles (bars) and medians (dots), the number of instances at the right; few values stand one by one.

    ``rows`` has ``band`` (an index of ``bands``), ``group`` and ``column``, whose values lie in [0, ``scale.high``].
    """
    rows, place = rows.select("band", "group", column), _places(len(bands), palette.groups)
    lines = 0.6 + place["centre"].to_list()[-1]
    down = alt.Scale(domain=[lines, 0.0], nice=False, zero=False)
    y = alt.Y("top:Q", scale=down, title="largest attention weight", axis=_band_axis(place, bands))
    body = densities.violins(rows, column, scale.high).join(place, on=["band", "group"])
    edges = body.with_columns(top=pl.col("centre") - _HALF * pl.col("density"), bottom=pl.col("centre") + _HALF * pl.col("density"))
    area = (
        alt.Chart(edges)
        .mark_area(opacity=0.5)
        .encode(x=measured_axis(scale, grid=True), y=y, y2=alt.Y2("bottom"), color=palette.colour(), detail=["band:O"])
    )
    layers = [area, *_inside(rows, column, place, palette), *marker_layers(markers)]
    return alt.layer(*layers).properties(width=_WIDTH, height=22 * lines + 8)


def _inside(rows: pl.DataFrame, column: str, place: pl.DataFrame, palette: Palette) -> list[alt.Chart]:
    """Single values, quartiles, medians and the numbers of instances."""
    box = alt.Chart(densities.quartiles(rows, column).join(place, on=["band", "group"]).with_columns(n=pl.format("n = {}", "n")))
    few = alt.Chart(densities.singles(rows, column).join(place, on=["band", "group"]))
    colour = palette.colour()
    return [
        few.mark_point(size=22, opacity=0.9).encode(x=alt.X("x:Q"), y=alt.Y("centre:Q"), color=colour),
        box.mark_rule(strokeWidth=3).encode(x=alt.X("q25:Q"), x2=alt.X2("q75"), y=alt.Y("centre:Q"), color=colour),
        box.mark_point(filled=True, size=44, opacity=1, stroke="white", strokeWidth=1.2).encode(
            x=alt.X("q50:Q"), y=alt.Y("centre:Q"), color=colour
        ),
        box.mark_text(align="left", dx=6, fontSize=11, opacity=0.75).encode(
            x=alt.XValue(_WIDTH), y=alt.Y("centre:Q"), text=alt.Text("n:N")
        ),
    ]


def _places(bands: int, groups: Sequence[str]) -> pl.DataFrame:
    """Where each violin stands, in rows from the top: {band, group, centre}."""
    entries = [(b, group, 0.6 + b * (len(groups) + _GAP) + k) for b in range(bands) for k, group in enumerate(groups)]
    return pl.DataFrame(entries, schema={"band": pl.Int64, "group": pl.String, "centre": pl.Float64}, orient="row")


def _band_axis(place: pl.DataFrame, bands: Sequence[str]) -> alt.Axis:
    """A label in the middle of each band; labels of a number axis are found by their number."""
    middles = place.group_by("band", maintain_order=True).agg(pl.col("centre").mean())["centre"].to_list()
    chosen = " : ".join(f"abs(datum.value - {middle}) < 0.01 ? '{name}'" for middle, name in zip(middles, bands, strict=True))
    return alt.Axis(values=middles, labelExpr=f"{chosen} : ''", minExtent=50, grid=False, ticks=False, domain=False)

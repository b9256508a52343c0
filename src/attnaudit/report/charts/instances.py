"""Figures of a report, as cards describe them, from tables of a size that does not grow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

import altair as alt
import numpy as np
import polars as pl
from altair.utils.schemapi import debug_mode
from jaxtyping import Float

from attnaudit.core.numbers import count
from attnaudit.experiments import EXPERIMENTS
from attnaudit.papers.published import MAX_ALPHA_BINS
from attnaudit.report.cards import card
from attnaudit.report.charts.palette import (
    LegendEntry,
    Palette,
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
    Marker,
    Scale,
    Scatter,
    Violins,
)
from attnaudit.report.charts.studies import draw_study
from attnaudit.report.charts.svg import Drawing as Drawn
from attnaudit.report.charts.svg import Figure, Panel, drawn
from attnaudit.report.words import of_unit
from attnaudit.results.summary import INSTANCE, SummaryRows

_BARS = {
    "group": pl.String,
    "left": pl.Float64,
    "right": pl.Float64,
    "share": pl.Float64,
    "count": pl.Int64,
}
_CURVE = {"band": pl.Int64, "group": pl.String, "x": pl.Float64, "density": pl.Float64}
_BARS_WIDTH, _BARS_HEIGHT = (
    285,
    190,
)  # with the axis a third of a page, where letters are as large as they are set
_VIOLINS_WIDTH = 220  # with the labels at both sides as wide as a histogram
_OVERLAID = 2  # classes; of more, each has a row of its own
_ROW, _ROW_NAMES = 30, 84  # pixels of such a row and of its name
_HALF = 0.44  # half the height of a violin, in rows
_GAP = 0.4  # between bands, in rows
FEW = 8  # fewer values than this are drawn one by one: a density of them would invent a shape

MOST_POINTS = 1200
_STACKED = (
    "Each class is scaled to its own highest bin, with a tick at its mean; fewer than "
    f"{FEW} values are shown as points."
)
NOTHING = "Undefined for every instance: nothing to draw."
BANDS = 4  # of x in a scatter, each a quarter of its range
_WIDTH, _HEIGHT = 285, 210
_FIFTHS = alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format=".1f", labelFlush=False)
_ENDS = alt.Scale(domain=[0, 1], nice=False)


def histogram(rows: pl.DataFrame, column: str, low: float, high: float, bins: int) -> pl.DataFrame:
    """Count each ``group``'s defined values per bin: {group, left, right, share, count}."""
    edges = np.linspace(low, high, bins + 1)
    frames = [pl.DataFrame(schema=_BARS)]
    for group, values in _by_group(rows, column).items():
        counts, _ = np.histogram(np.clip(values, low, high), bins=edges)
        columns = (edges[:-1], edges[1:], counts / len(values), counts)
        frames.append(pl.DataFrame(dict(zip(_BARS, ([group] * bins, *columns), strict=True))))
    return pl.concat(frames)


def outline(bars: pl.DataFrame) -> pl.DataFrame:
    """Return the upper edge of a histogram as a step line.

    {group, x, share}, with ``right`` and ``count`` of a bin where it begins.
    """
    groups = bars.group_by("group", maintain_order=True)
    first, last = groups.first(), groups.last()
    starts = first.select("group", x="left", share=pl.lit(0.0), order=pl.lit(-1.0))
    steps = bars.select("group", "right", "count", x="left", share="share", order="left")
    ends = [
        last.select("group", x="right", share=share, order=pl.lit(order))
        for share, order in (("share", 9.0), (pl.lit(0.0), 10.0))
    ]
    return pl.concat([starts, steps, *ends], how="diagonal")


def means(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """{group, mean} of the defined values."""
    found = {group: float(values.mean()) for group, values in _by_group(rows, column).items()}
    return pl.DataFrame(
        {"group": list(found), "mean": list(found.values())},
        schema={"group": pl.String, "mean": pl.Float64},
    )


def quartiles(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """{band, group, q25, q50, q75, n} of the defined values of every band and group."""
    defined = rows.filter(pl.col(column).is_not_null() & pl.col(column).is_not_nan())
    middle = [pl.col(column).quantile(q / 100, "linear").alias(f"q{q}") for q in (25, 50, 75)]
    return (
        defined.group_by("band", "group", maintain_order=True)
        .agg(*middle, pl.len().alias("n"))
        .sort("band", "group")
    )


def violins(rows: pl.DataFrame, column: str, high: float) -> pl.DataFrame:
    """Return the density of bands and groups of `FEW` values or more: {band, group, x, density}."""
    frames = [pl.DataFrame(schema=_CURVE)]
    for (band, group), part in rows.group_by("band", "group", maintain_order=True):
        values = _defined(part, column)
        if len(values) >= FEW:
            x, density = kernel_density(values, high)
            frames.append(
                pl.DataFrame(
                    {"band": [band] * len(x), "group": [group] * len(x), "x": x, "density": density}
                )
            )
    return pl.concat(frames)


def singles(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """Return the values of bands and groups too small for a density: {band, group, x}."""
    small = rows.filter(pl.col(column).is_not_null(), pl.len().over("band", "group") < FEW)
    return small.select("band", "group", x=column)


def kernel_density(
    values: Float[np.ndarray, " n"], high: float, points: int = 60
) -> tuple[np.ndarray, np.ndarray]:
    """Return a Gaussian kernel density on a grid, ``(x, density)``, scaled to a maximum of 1.

    The grid reaches from the smallest to the largest value. Values are counted into 400 cells of
    [0, high] first, so that the cost does not grow with their number. The bandwidth is Silverman's,
    at least a hundredth of the range shown.
    """
    cells = np.linspace(0.0, high, 401)
    counts, _ = np.histogram(np.clip(values, 0.0, high), bins=cells)
    middles = 0.5 * (cells[1:] + cells[:-1])
    scale = min(
        float(values.std()), float(np.subtract(*np.percentile(values, [75, 25]))) / 1.34
    ) or float(values.std())
    bandwidth = max(0.9 * scale * len(values) ** -0.2, high / 100)
    x = (
        np.linspace(values.min(), values.max(), points)
        if values.max() > values.min()
        else values.min() + bandwidth * np.linspace(-1, 1, 9)
    )
    density = np.exp(-0.5 * ((x[:, None] - middles) / bandwidth) ** 2) @ counts
    return x, density / density.max()


def _by_group(rows: pl.DataFrame, column: str) -> dict[str, np.ndarray]:
    found = {
        str(group): _defined(part, column)
        for (group,), part in rows.group_by("group", maintain_order=True)
    }
    return {group: values for group, values in found.items() if len(values)}


def _defined(rows: pl.DataFrame, column: str) -> np.ndarray:
    return rows[column].drop_nulls().drop_nans().to_numpy()


def histogram_chart(
    rows: pl.DataFrame,
    column: str,
    scale: Scale,
    palette: Palette,
    markers: Sequence[Marker] = (),
    bins: int = 40,
) -> Drawn:
    """Draw each group's share of instances per bin as filled steps, with a tick at its mean."""
    rows = rows.select("group", column)
    bars = histogram(rows, column, scale.low, scale.high, bins)
    headroom = 1.3 if markers else 1.06  # above the highest bar, for the markers' words
    top = headroom * max(bars["share"].to_list())
    steps = alt.Chart(outline(bars))
    percents = alt.Axis(format=".0%", tickCount=4, labelExpr="datum.value > 1 ? '' : datum.label")
    y = alt.Y(
        "share:Q",
        stack=None,
        title="share of the class",
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=percents,
    )
    colour = palette.colour()
    filled = steps.mark_area(opacity=0.28, interpolate="step-after").encode(
        x=measured_axis(scale, grid=False), y=y, color=colour
    )
    line = steps.mark_line(interpolate="step-after", strokeWidth=1.6)
    stepped = line.encode(
        x=alt.X("x:Q"),
        y=alt.Y("share:Q"),
        order=alt.Order("order:Q"),
        color=colour,
        strokeDash=palette.dash(),
    )
    averages = alt.Chart(means(rows, column)).mark_tick(orient="vertical", thickness=3, height=13)
    mean = averages.encode(x=alt.X("mean:Q"), y=alt.YValue(_BARS_HEIGHT - 7), color=colour)
    return alt.layer(filled, stepped, mean, *marker_layers(markers)).properties(
        width=_BARS_WIDTH, height=_BARS_HEIGHT
    )


def stacked_histograms(
    rows: pl.DataFrame,
    column: str,
    scale: Scale,
    palette: Palette,
    markers: Sequence[Marker] = (),
    bins: int = 40,
) -> Drawn:
    """Draw a histogram of each group in its own row, scaled to its largest bin, with its mean.

    Groups of fewer than `FEW` values have a point for each.
    """
    rows = rows.select("group", x=column).drop_nulls().filter(pl.col("x").is_not_nan())
    base = pl.DataFrame({"group": palette.groups, "base": np.arange(1.0, len(palette.groups) + 1)})
    sizes = (
        rows.group_by("group")
        .agg(pl.len().alias("n"), pl.col("x").mean())
        .join(base, on="group")
        .sort("base")
    )
    large = pl.col("group").is_in(sizes.filter(pl.col("n") >= FEW)["group"].to_list())
    steps = outline(histogram(rows.filter(large), "x", scale.low, scale.high, bins // 2)).join(
        base, on="group", maintain_order="left"
    )
    steps = steps.with_columns(
        top=pl.col("base") - 0.85 * pl.col("share") / pl.col("share").max().over("group")
    )
    down = alt.Scale(
        domain=[len(palette.groups) + 0.1, -0.5 if markers else 0.0], nice=False, zero=False
    )
    y, colour = alt.Y("top:Q", title=None, scale=down, axis=_row_axis(base)), palette.colour()
    filled = alt.Chart(steps).mark_area(opacity=0.28, interpolate="step-after")
    line = alt.Chart(steps).mark_line(strokeWidth=1.4, interpolate="step-after")
    single = alt.Chart(
        rows.filter(~large).join(base, on="group").with_columns(top=pl.col("base") - 0.3)
    )
    counts = alt.Chart(
        sizes.with_columns(pl.format("n = {}", "n").alias("n"), top=pl.col("base") - 0.3)
    )
    layers = [
        filled.encode(x=measured_axis(scale, grid=True), y=y, y2=alt.Y2("base"), color=colour),
        line.encode(x=alt.X("x:Q"), y=alt.Y("top:Q"), order=alt.Order("order:Q"), color=colour),
        single.mark_point(size=22, opacity=0.9).encode(
            x=alt.X("x:Q"), y=alt.Y("top:Q"), color=colour
        ),
        counts.mark_tick(orient="vertical", thickness=3, height=9).encode(
            x=alt.X("x:Q"), y=alt.Y("base:Q"), color=colour
        ),
        counts.mark_text(align="left", dx=6, fontSize=11, opacity=0.75).encode(
            x=alt.XValue(_VIOLINS_WIDTH), y=alt.Y("top:Q"), text=alt.Text("n:N")
        ),
    ]
    return alt.layer(*layers, *marker_layers(markers)).properties(
        width=_VIOLINS_WIDTH, height=_ROW * (len(palette.groups) + 1)
    )


def _row_axis(base: pl.DataFrame) -> alt.Axis:
    """Return the axis with the name of each group in the middle of its row."""
    axis = name_axis(base["group"], _ROW_NAMES)
    axis["values"], axis["labelExpr"] = _labels(
        {centre - 0.3: name for name, centre in base.iter_rows()}
    )
    return axis


def _labels(names: Mapping[float, str]) -> tuple[list[float], str]:
    """Return values of a number axis, and the expression that shows ``names`` at them."""
    chosen = " : ".join(
        f"abs(datum.value - {value}) < 0.01 ? {json.dumps(name)}" for value, name in names.items()
    )
    return list(names), f"{chosen} : ''"


def violin_chart(
    rows: pl.DataFrame,
    column: str,
    scale: Scale,
    bands: Sequence[str],
    palette: Palette,
    markers: Sequence[Marker] = (),
) -> Drawn:
    """Draw densities with quartiles (bars) and medians (dots), few values one by one.

    ``rows`` has ``band`` (an index of ``bands``), ``group`` and ``column``, whose values lie in
    [0, ``scale.high``]. The number of instances stands at the right.
    """
    rows = rows.select("band", "group", column)
    place = _places(rows, len(bands), palette.groups).with_columns(
        weight=pl.col("band").replace_strict(dict(enumerate(bands)), default="")
    )
    lines = 0.6 + place["centre"].to_list()[-1]
    down = alt.Scale(domain=[lines, 0.0], nice=False, zero=False)
    y = alt.Y("top:Q", scale=down, title="largest weight", axis=_band_axis(place, bands))
    body = violins(rows, column, scale.high).join(place, on=["band", "group"])
    edges = body.with_columns(
        top=pl.col("centre") - _HALF * pl.col("density"),
        bottom=pl.col("centre") + _HALF * pl.col("density"),
    )
    area = (
        alt.Chart(edges)
        .mark_area(opacity=0.5)
        .encode(
            x=measured_axis(scale, grid=True),
            y=y,
            y2=alt.Y2("bottom"),
            color=palette.colour(),
            detail=["band:O"],
        )
    )
    layers = [area, *_inside(rows, column, place, palette), *marker_layers(markers)]
    return alt.layer(*layers).properties(width=_VIOLINS_WIDTH, height=22 * lines + 8)


def _inside(
    rows: pl.DataFrame, column: str, place: pl.DataFrame, palette: Palette
) -> list[alt.Chart]:
    """Single values, quartiles, medians and the numbers of instances."""
    box = alt.Chart(
        quartiles(rows, column)
        .join(place, on=["band", "group"])
        .with_columns(n=pl.format("n = {}", "n"))
    )
    few = alt.Chart(singles(rows, column).join(place, on=["band", "group"]))
    colour, band = (
        palette.colour(),
        alt.Detail("weight:N", title="largest attention weight"),
    )  # for the table behind the chart
    return [
        few.mark_point(size=22, opacity=0.9).encode(
            x=alt.X("x:Q"), y=alt.Y("centre:Q"), color=colour, detail=band
        ),
        box.mark_rule(strokeWidth=3).encode(
            x=alt.X("q25:Q"), x2=alt.X2("q75"), y=alt.Y("centre:Q"), color=colour, detail=band
        ),
        box.mark_point(filled=True, size=44, opacity=1, stroke="white", strokeWidth=1.2).encode(
            x=alt.X("q50:Q"), y=alt.Y("centre:Q"), color=colour
        ),
        box.mark_text(align="left", dx=6, fontSize=11, opacity=0.75).encode(
            x=alt.XValue(_VIOLINS_WIDTH), y=alt.Y("centre:Q"), text=alt.Text("n:N")
        ),
    ]


def _places(rows: pl.DataFrame, bands: int, groups: Sequence[str]) -> pl.DataFrame:
    """Place each violin in rows from the top: {band, group, centre}, of an empty band one."""
    found, entries, down = set(rows.drop_nulls().select("band", "group").iter_rows()), [], 0.6
    for band in range(bands):
        shown = [group for group in groups if (band, group) in found] or groups[:1]
        entries += [(band, group, down + k) for k, group in enumerate(shown)]
        down += len(shown) + _GAP
    return pl.DataFrame(
        entries, schema={"band": pl.Int64, "group": pl.String, "centre": pl.Float64}, orient="row"
    )


def _band_axis(place: pl.DataFrame, bands: Sequence[str]) -> alt.Axis:
    """Return the axis with a label in the middle of each band."""
    middles = (
        place.group_by("band", maintain_order=True).agg(pl.col("centre").mean())["centre"].to_list()
    )
    values, shown = _labels(dict(zip(middles, bands, strict=True)))
    return alt.Axis(
        values=values,
        labelExpr=shown,
        minExtent=60,
        labelPadding=9,
        grid=False,
        ticks=False,
        domain=False,
    )


def scatter_chart(rows: pl.DataFrame, chart: Scatter, palette: Palette) -> Drawn:
    """Draw at most `MOST_POINTS` points; above, the share below 0 in each quarter of the range."""
    rows = rows.select("group", x=chart.x, y=chart.y)
    points = alt.Chart(rows.gather_every(-(-rows.height // MOST_POINTS)))
    x = alt.X("x:Q", title=chart.x_title, scale=_ENDS, axis=_FIFTHS)
    y = alt.Y(
        "y:Q",
        title=chart.y_title,
        scale=alt.Scale(domain=list(_ends(rows["y"])), nice=False),
        axis=alt.Axis(tickCount=5, titlePadding=10),
    )
    dots = points.mark_point(filled=True, size=14, opacity=0.55).encode(
        x=x, y=y, color=palette.colour()
    )
    zero = (
        alt.Chart(pl.DataFrame({"y": [0.0]}))
        .mark_rule(color="currentColor", opacity=0.7)
        .encode(y=alt.Y("y:Q"))
    )
    below = alt.Chart(negative_shares(rows)).mark_text(baseline="top", fontSize=11.5, opacity=0.85)
    return alt.layer(
        dots, zero, below.encode(x=alt.X("x:Q"), y=alt.YValue(2), text=alt.Text("text:N"))
    ).properties(width=_WIDTH, height=_HEIGHT)


def negative_shares(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the share of ``y`` below 0 in every quarter of ``x`` that has rows: {x, text}."""
    band = (pl.col("x") * BANDS).floor().clip(0, BANDS - 1)
    shares = (
        rows.group_by(band.alias("band"))
        .agg((pl.col("y") < 0).mean().alias("share"), pl.len().alias("n"))
        .sort("band")
    )
    words = [f"{share:.0%} < 0".replace("%", " %") for share in shares["share"].to_list()]
    return pl.DataFrame(
        {"x": ((shares["band"] + 0.5) / BANDS).to_list(), "text": words},
        schema={"x": pl.Float64, "text": pl.String},
    )


def _ends(values: pl.Series) -> tuple[float, float]:
    """Return a range around 0 that all values fit in, a little wider at the top for words."""
    low, high = float(np.min(values.to_numpy())), float(np.max(values.to_numpy()))
    reach = max(high, -low, 0.05)
    return min(1.1 * low, -0.15 * reach), 1.25 * max(high, 0.3 * reach)


def crosstab_chart(rows: pl.DataFrame, chart: Crosstab) -> Drawn:
    """Draw the four shares as shaded cells."""
    table, order = alt.Chart(crosstab(rows, chart)), list(chart.words)
    x = alt.X(
        "across:N",
        title=chart.across_title,
        sort=order,
        axis=alt.Axis(orient="top", labelAngle=0, ticks=False, domain=False),
    )
    y = alt.Y(
        "down:N",
        title=chart.down_title,
        sort=order,
        axis=alt.Axis(ticks=False, domain=False, minExtent=62),
    )
    shade = alt.Opacity("share:Q", scale=alt.Scale(domain=[0, 1], range=[0.06, 0.75]), legend=None)
    filled = table.mark_rect(color=Palette.COLOURS[0]).encode(x=x, y=y, opacity=shade)
    words = table.mark_text(fontSize=14).encode(x=x, y=y, text=alt.Text("text:N"))
    return alt.layer(filled, words).properties(width=_WIDTH, height=0.7 * _HEIGHT)


def crosstab(rows: pl.DataFrame, chart: Crosstab) -> pl.DataFrame:
    """{down, across, share, text}: the share of instances of each pair of answers."""
    names, cells = dict(zip((True, False), chart.words, strict=True)), []
    for down, across in product((True, False), repeat=2):
        share = rows.select(
            ((pl.col(chart.down) == down) & (pl.col(chart.across) == across)).mean()
        ).item()
        cells.append((names[down], names[across], share, f"{100 * share:.1f} %"))
    return pl.DataFrame(cells, schema=["down", "across", "share", "text"], orient="row")


def curves_chart(points: pl.DataFrame, chart: Curves) -> Drawn:
    """Draw a line with its band for each name of ``points`` {name, x, value, low, high}."""
    palette = Palette(tuple(points["name"].unique(maintain_order=True).to_list()), Palette.RANKINGS)
    x = measured_axis(chart.scale, grid=False)
    y = alt.Y("value:Q", title=chart.y_title, scale=_ENDS, axis=alt.Axis(format=".0%", tickCount=5))
    colour, dash = palette.colour(), palette.dash()
    colour["legend"] = dash["legend"] = alt.Legend(
        title=None,
        orient="bottom",
        direction="vertical",
        columns=2,
        labelColor="currentColor",
        labelLimit=_WIDTH,
        labelFontSize=12,
        columnPadding=24,
        symbolSize=500,
        symbolStrokeWidth=2,
        symbolType="stroke",
        symbolOpacity=1,
    )
    drawn = alt.Chart(points.rename({"name": "group"}))
    return alt.layer(
        drawn.mark_area(opacity=0.16, interpolate="step-after").encode(
            x=x, y=alt.Y("low:Q", title=chart.y_title), y2="high", color=colour
        ),
        drawn.mark_line(strokeWidth=2, interpolate="step-after").encode(
            x=x, y=y, color=colour, strokeDash=dash
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
    grouped, palette = group_rows(rows, class_names)
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
    return [draw_study(replace(figure, caption=of_unit(figure.caption, unit))) for figure in made]


def _figure(spec: FigureSpec, rows: pl.DataFrame, palette: Palette, unit: str) -> Figure | None:
    charts = [chart for chart in spec.charts if set(chart.columns) <= set(rows.columns)]
    absent = [
        pl.lit(None, pl.Float64).alias(name) for name in spec.reads if name not in rows.columns
    ]
    shown = spec.of(rows.with_columns(absent)) if charts else rows.clear()
    if shown.height == 0:
        return None
    panels = tuple(
        _panel(chart, f"{spec.name}-{k}", spec.title, shown, palette, unit)
        for k, chart in enumerate(charts)
    )
    caption = of_unit(spec.caption if isinstance(spec.caption, str) else spec.caption(shown), unit)
    stacked = len(palette.groups) > _OVERLAID and any(
        isinstance(chart, Histogram) for chart in charts
    )
    return Figure(spec.name, spec.title, f"{caption} {_STACKED}" if stacked else caption, panels)


def _panel(
    chart: Chart, name: str, title: str, rows: pl.DataFrame, palette: Palette, unit: str
) -> Panel:
    """Draw one chart, with a note on what is not drawn."""
    notes = []
    if isinstance(chart, Histogram | Violins | Scatter | Crosstab):
        first = next(iter(chart.columns))
        undefined = (
            rows[first].fill_nan(None).null_count()
            if rows[first].dtype.is_float()
            else rows[first].null_count()
        )
        if undefined == rows.height:
            return Panel(chart.title, note=of_unit(NOTHING, unit))
        if undefined:
            shown = f"{count(rows.height - undefined, unit)} of {rows.height}"
            notes.append(f"Drawn: {shown}; the others have no value.")
    if isinstance(chart, Violins) and chart.fit:
        chart = replace(chart, scale=_fitted(chart.scale, rows[chart.column]))
        notes += (
            [f"The axis ends at {chart.scale.high:g} of a possible 1."]
            if chart.scale.high < 1.0
            else []
        )
    made = _draw(chart, rows, palette)
    label = f"{type(chart).__name__}: {chart.title or title}"
    note = " ".join(notes)
    return (
        Panel(chart.title, made, note)
        if isinstance(made, str)
        else drawn(chart.title, made, name, label, note)
    )


def _draw(chart: Chart, rows: pl.DataFrame, palette: Palette) -> Drawn | str:
    match chart:
        case Histogram():
            drawn = histogram_chart if len(palette.groups) <= _OVERLAID else stacked_histograms
            return drawn(rows, chart.column, chart.scale, palette, chart.markers(rows), chart.bins)
        case Violins():
            last = len(MAX_ALPHA_BINS) - 1
            banded = rows.with_columns(
                band=(pl.col("max_alpha") * 4).floor().clip(0, last).cast(pl.Int64)
            )
            return violin_chart(
                banded, chart.column, chart.scale, MAX_ALPHA_BINS, palette, chart.markers(rows)
            )
        case Scatter():
            return scatter_chart(rows.drop_nulls(chart.columns), chart, palette)
        case Crosstab():
            return crosstab_chart(rows.drop_nulls(chart.columns), chart)
        case Curves():
            return curves_chart(chart.points(rows), chart)
        case Drawing():
            return chart.draw(rows)


def _fitted(scale: Scale, values: pl.Series) -> Scale:
    """Return the scale from 0 to the first round number above all values, 1 at most."""
    largest = values.fill_nan(None).max()
    high = next(
        (end for end in (0.05, 0.1, 0.2, 0.5) if isinstance(largest, float) and largest <= end), 1.0
    )
    return replace(scale, high=high, ticks=tuple(round(high * k / 5, 2) for k in range(6)))

"""Parts of all charts: colours of the classes, their legend, and marked lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import altair as alt
import polars as pl

from attnaudit.core.numbers import count
from attnaudit.report.charts.specs import Marker, Scale
from attnaudit.results.summary import INSTANCE

OTHER = "other classes"
QUANTILES = {"low": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "high": 0.95}  # of a box
# Okabe and Ito's colours, told apart under the common colour blindnesses; black and yellow do not
# show on both kinds of page.
_CLASSES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (4, 4), (1, 3))
# Pixels of a letter of 12 pixels in wide fonts such as DejaVu Sans: a chart is measured here in
# another font than it is shown in.
_LETTER = 6.8


@dataclass(frozen=True)
class Palette:
    """A colour and a dash pattern for each group: colour alone never distinguishes two lines.

    The groups of all charts of a page but one are its classes. `RANKINGS` are the colours of the
    orders of removal, the random one first.
    """

    groups: tuple[str, ...]
    colours: tuple[str, ...] = _CLASSES
    dashes: tuple[tuple[int, ...], ...] = _DASHES

    COLOURS: ClassVar = _CLASSES
    RANKINGS: ClassVar = ("#808080", *_CLASSES[2:])  # no colour of two classes
    DASHES: ClassVar = _DASHES

    def colour(self, legend: alt.Legend | None = None) -> alt.Color:
        """Return the colour channel of ``group``."""
        return alt.Color("group:N", scale=self._scale(self.colours), legend=legend)

    def dash(self, legend: alt.Legend | None = None) -> alt.StrokeDash:
        """Return the dash channel of ``group``."""
        return alt.StrokeDash("group:N", scale=self._scale(self.dashes), legend=legend)

    def _scale(self, values: Sequence[Any]) -> alt.Scale:
        return alt.Scale(domain=self.groups, range=values[: len(self.groups)])


def legend_of(**options: Any) -> alt.Legend:
    """Return the legend of one chart, below it unless ``options`` say otherwise."""
    plain = {"title": None, "orient": "bottom", "labelColor": "currentColor", "labelFontSize": 12}
    return alt.Legend(**{**plain, "symbolOpacity": 1, **options})


@dataclass(frozen=True)
class LegendEntry:
    """A class as charts draw it, with its SVG dash pattern and the number of its instances."""

    name: str
    colour: str
    dash: str
    size: str


def group_rows(rows: pl.DataFrame, class_names: Sequence[str]) -> tuple[pl.DataFrame, Palette]:
    """Add ``group``: the predicted class, the rarer ones together if classes exceed colours."""
    sizes = dict(
        rows.group_by("predicted")
        .len()
        .sort("len", "predicted", descending=[True, False])
        .iter_rows()
    )
    order = {name: k for k, name in enumerate(class_names)}
    limit = len(Palette.COLOURS)
    kept = list(sizes) if len(sizes) <= limit else list(sizes)[: limit - 1]
    kept.sort(key=lambda name: (order.get(name, len(order)), name))
    groups = tuple(kept) if len(kept) == len(sizes) else (*kept, OTHER)
    named = (
        pl.when(pl.col("predicted").is_in(kept))
        .then("predicted")
        .otherwise(pl.lit(OTHER))
        .alias("group")
    )
    return rows.with_columns(named), Palette(groups)


def legend(rows: pl.DataFrame, palette: Palette, unit: str = INSTANCE) -> tuple[LegendEntry, ...]:
    """Return the entries of a palette, with the number of ``rows`` of each."""
    sizes = dict(rows.group_by("group").len().iter_rows())
    entries = zip(palette.groups, Palette.COLOURS, Palette.DASHES, strict=False)
    return tuple(
        LegendEntry(name, hue, " ".join(map(str, dash)), count(sizes.get(name, 0), unit))
        for name, hue, dash in entries
    )


def measured_axis(scale: Scale, grid: bool, field: str = "x") -> alt.X:
    """Return the horizontal axis of the measured figure."""
    digits = ".2f" if scale.high < 0.2 else ".1f"
    ends = alt.Scale(domain=[scale.low, scale.high], nice=False)
    axis = alt.Axis(grid=grid, values=list(scale.ticks), labelFlush=False, format=digits)
    return alt.X(f"{field}:Q", title=scale.title, scale=ends, axis=axis)


def name_width(names: Iterable[str], most: float = 215) -> float:
    """Return the pixels of the longest name in the widest of the usual fonts, at most ``most``."""
    return min(most, _LETTER * max(map(len, names), default=0))


def name_axis(names: Iterable[str], most: float = 215, offset: float = 0) -> alt.Axis:
    """Return a vertical axis of ``names``, `name_width` wide."""
    return alt.Axis(
        ticks=False,
        domain=False,
        grid=False,
        labelLimit=most,
        minExtent=name_width(names, most),
        offset=offset,
    )


def marker_layers(markers: Sequence[Marker]) -> list[alt.Chart]:
    """Draw lines and their words, each word a line of text lower than the one before."""
    layers = []
    for k, marker in enumerate(markers):
        chart = alt.Chart(pl.DataFrame({"x": [marker.x], "text": [marker.text]}))
        layers.append(
            chart.mark_rule(strokeDash=[5, 3], color="currentColor", opacity=0.8).encode(
                x=alt.X("x:Q")
            )
        )
        side = {"align": "left", "dx": 5} if marker.after else {"align": "right", "dx": -5}
        word = chart.mark_text(baseline="top", fontSize=11.5, fontStyle="italic", **side)
        layers.append(
            word.encode(x=alt.X("x:Q"), y=alt.YValue(4 + 15 * k), text=alt.Text("text:N"))
        )
    return layers


def box_table(groups: Iterable[tuple[str, pl.Series]]) -> pl.DataFrame:
    """Return the 5, 25, 50, 75 and 95 % quantiles of groups: {name, low, q25, q50, q75, high}."""
    rows = [
        (name, *(values.quantile(q, "linear") for q in QUANTILES.values()))
        for name, values in groups
    ]
    schema = {"name": pl.String, **dict.fromkeys(QUANTILES, pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row")


def box_layers(chart: alt.Chart, x: alt.X, y: alt.Y, colour: Any, size: int) -> list[alt.Chart]:
    """Draw a line from 5 to 95 %, a bar of quartiles and the median of a `box_table`'s rows."""
    return [
        chart.mark_rule(strokeWidth=1.4).encode(x=x, x2=alt.X2("high"), y=y, color=colour),
        chart.mark_bar(size=size, opacity=0.45).encode(
            x=alt.X("q25:Q"), x2=alt.X2("q75"), y=y, color=colour
        ),
        chart.mark_tick(thickness=3, size=size + 2).encode(x=alt.X("q50:Q"), y=y, color=colour),
    ]

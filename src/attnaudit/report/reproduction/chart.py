"""One measure on one corpus: the authors' two values as a pale bar, ours with its interval on it, a line for each model and class."""

from __future__ import annotations

import json
from collections.abc import Sequence

import altair as alt
import polars as pl

from attnaudit.report.charts.palette import Palette, measured_axis
from attnaudit.report.charts.svg import Drawing
from attnaudit.report.reproduction.numbers import Model
from attnaudit.results.charts import Scale

SHAPES = ("circle", "square", "triangle-up", "triangle-down", "cross", "diamond")
_WIDTH = 205
_LINE, _GAP = 15.0, 7.0  # height of a line, and the room between two models


def agreement_chart(rows: pl.DataFrame, scale: Scale, models: Sequence[Model], groups: Sequence[str]) -> Drawing:
    """``rows`` are numbers of one corpus and measure, one for each model and group; a group has a colour and a shape."""
    placed = rows.join(_lines(rows, models, groups), on=["encoder", "attention", "group"])
    height = float(placed["y"].to_numpy().max()) + _LINE / 2 + 2
    down = alt.Scale(domain=[0.0, height], range=[0.0, height], nice=False, zero=False)
    y = alt.Y("y:Q", scale=down, title=None, axis=_model_axis(placed, models))
    colour, shape = Palette(tuple(groups)).colour(), _shape(groups)
    chart = alt.Chart(placed.select("y", "group", "paper", "rerun", "ours", "low", "high"))
    known, published = chart.transform_filter("datum.ours !== null"), chart.transform_filter("datum.paper !== null || datum.rerun !== null")
    both = chart.transform_filter("datum.paper !== null && datum.rerun !== null")
    x = measured_axis(scale, grid=True)
    layers = [
        published.transform_calculate(x="datum.paper === null ? datum.rerun : datum.paper").mark_point(opacity=0).encode(x=x, y=y),
        both.mark_rule(strokeWidth=9, opacity=0.32).encode(x=alt.X("paper:Q"), x2=alt.X2("rerun"), y=y, color=colour),
        published.transform_filter("datum.paper !== null").mark_tick(
            orient="vertical", thickness=2, height=11, opacity=0.9).encode(x=alt.X("paper:Q"), y=y, color=colour),
        published.transform_filter("datum.rerun !== null").mark_point(
            shape="diamond", size=42, strokeWidth=1.4, opacity=0.9).encode(x=alt.X("rerun:Q"), y=y, color=colour),
        known.mark_rule(strokeWidth=1.6, color="currentColor", clip=True).encode(x=alt.X("low:Q"), x2=alt.X2("high"), y=y),
        known.mark_point(filled=True, size=40, opacity=1, fill="currentColor").encode(x=alt.X("ours:Q"), y=y, shape=shape),
    ]  # fmt: skip
    return alt.layer(*layers).properties(width=_WIDTH, height=height)


def _lines(rows: pl.DataFrame, models: Sequence[Model], groups: Sequence[str]) -> pl.DataFrame:
    """Where each line stands, in points from the top; groups that a model lacks take no room."""
    known = set(rows.select("encoder", "attention", "group").iter_rows())
    entries, top = [], 2.0
    for encoder, attention in models:
        shown = [group for group in groups if (encoder, attention, group) in known]
        entries += [(encoder, attention, group, top + _LINE * (k + 0.5)) for k, group in enumerate(shown)]
        top += _LINE * len(shown) + (_GAP if shown else 0.0)
    return pl.DataFrame(entries, schema={"encoder": pl.String, "attention": pl.String, "group": pl.String, "y": pl.Float64}, orient="row")


def _model_axis(placed: pl.DataFrame, models: Sequence[Model]) -> alt.Axis:
    """A model's name in the middle of its lines; labels of a number axis are found by their number."""
    heights = {model: placed.filter(encoder=model[0], attention=model[1])["y"].to_numpy() for model in models}
    named = [(float(height.mean()), json.dumps(" ".join(model))) for model, height in heights.items() if len(height)]
    chosen = " : ".join(f"abs(datum.value - {middle}) < 0.01 ? {name}" for middle, name in named)
    return alt.Axis(
        values=[middle for middle, _ in named], labelExpr=f"{chosen} : ''", minExtent=98, maxExtent=98, labelLimit=96, grid=False,
        ticks=False, domain=False,
    )  # fmt: skip


def _shape(groups: Sequence[str]) -> alt.Shape:
    shapes = [SHAPES[k % len(SHAPES)] for k in range(len(groups))]
    return alt.Shape("group:N", scale=alt.Scale(domain=list(groups), range=shapes), legend=None)

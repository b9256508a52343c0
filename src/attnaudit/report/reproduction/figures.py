"""The figures of a reproduction: one for each measure, with a panel for each corpus, all on the same axis.

In a panel each model and class has a line: the authors' two values as a pale bar, ours with its interval on it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl

from attnaudit.core.numbers import count
from attnaudit.published.reproduction import (
    TAUS,
    Model,
    Tally,
    groups_of,
    means_by_class,
    models,
    tally,
)
from attnaudit.report.charts.palette import Palette, measured_axis
from attnaudit.report.charts.specs import Scale
from attnaudit.report.charts.svg import Drawing, Figure, Panel, drawn
from attnaudit.report.reproduction.tables import MARKS
from attnaudit.report.sections.numbers import group_label

SHAPES = ("circle", "square", "triangle-up", "triangle-down", "cross", "diamond")
_WIDTH = 205
_LINE, _GAP = 15.0, 7.0  # height of a line, and the room between two models
_SIGNS = dict(zip(SHAPES, "●■▲▼✚◆", strict=True))
_READ = {
    "tau-gradient": "1: attention and gradient order the tokens alike, 0: unrelated, −1: reversed.",
    "tau-loo": "1: attention and leave-one-out order the tokens alike, 0: unrelated, −1: reversed.",
    "emax-jsd": "How different an attention gives nearly the same output; no two attentions differ by more than ln 2 = 0.693.",
    "score": "F1, or accuracy where the paper tells no F1: each panel says which, and has its own axis.",
}
_SCORES = {"f1": "F1", "roc_auc": "ROC-AUC"}


def agreement_figures(
    numbers: pl.DataFrame, titles: Mapping[str, str], scores: Mapping[str, str]
) -> list[Figure]:
    """A figure for each of τ gradient, τ LOO, ε-max JSD and score (``scores`` by corpus), with ``titles`` of the corpora in their order."""
    same = {name: dict.fromkeys(titles, name) for name in (*TAUS, "emax_jsd")}
    expected = (
        ("tau-gradient", "Kendall τ, attention – gradient", "mean Kendall τ", same[TAUS[0]]),
        ("tau-loo", "Kendall τ, attention – leave-one-out", "mean Kendall τ", same[TAUS[1]]),
        ("emax-jsd", "ε-max JSD", "mean ε-max JSD", same["emax_jsd"]),
        ("score", "Prediction score", "score", scores),
    )
    made = [
        _figure(numbers, name, title, axis, titles, measures)
        for name, title, axis, measures in expected
    ]
    return [one for one in made if one.panels]


def _figure(
    numbers: pl.DataFrame,
    name: str,
    title: str,
    axis: str,
    titles: Mapping[str, str],
    measures: Mapping[str, str],
) -> Figure:
    parts = {
        corpus: means_by_class(numbers.filter(corpus=corpus), measures[corpus]) for corpus in titles
    }
    parts = {corpus: part for corpus, part in parts.items() if part.height}
    drawn = pl.concat(parts.values()) if parts else numbers.clear()
    panels = tuple(
        _panel(
            part,
            f"{name}-{k}",
            titles[corpus],
            title,
            _scale(axis, name, part if name == "score" else drawn),
        )
        for k, (corpus, part) in enumerate(parts.items())
    )
    counted = _short_count(tally(title, drawn.filter(pl.col("spread").is_not_null())))
    return Figure(name, title, f"{_READ[name]} {counted}".strip(), panels)


def _short_count(tally: Tally) -> str:
    """A tally in one short sentence; empty where nothing was judged."""
    if not tally.judged:
        return ""
    shares = zip(MARKS.values(), tally.counts[:-1], strict=False)
    parts = [f"{number} {symbol} {head}" for (symbol, head), number in shares if number]
    return f"Of {count(tally.judged, 'number')} that both of the authors' runs have: {', '.join(parts)}."


def _panel(part: pl.DataFrame, name: str, corpus: str, title: str, scale: Scale) -> Panel:
    measure = part["measure"][0]
    groups = groups_of(part, measure)
    groups += [group for group in part["group"].unique() if group not in groups]
    named = {group: str(group_label(group)).removeprefix("predicted ") for group in groups}
    names = (
        [_SCORES.get(measure, str(measure))]
        if name.startswith("score")
        else [named[group] for group in groups]
    )
    shown = zip(names, Palette.COLOURS, (_SIGNS[shape] for shape in SHAPES), strict=False)
    label = f"{title} on {corpus}: the authors' two values and ours, for {len(models(part))} models"
    return drawn(
        corpus, agreement_chart(part, scale, models(part), groups), name, label, legend=tuple(shown)
    )


def _scale(title: str, name: str, part: pl.DataFrame) -> Scale:
    """An axis that holds every value; intervals may go beyond."""
    if name == "emax-jsd":
        return Scale(title, 0.7, (0.0, 0.2, 0.4, 0.6))
    values = [
        value
        for column in ("paper", "rerun", "ours")
        for value in part[column].drop_nulls().to_list()
    ]
    if name == "score":
        return _around(title, [*values, 0.9, 1.0], 0.1, 0.0)
    return _around(title, [*values, 0.0, 0.6], 0.2, -1.0)


def _around(title: str, values: Sequence[float], step: float, least: float) -> Scale:
    """From the round number below all values, no lower than ``least``, to the one above them, no higher than 1."""
    low, high = math.floor(min(values) / step - 0.1), math.ceil(max(values) / step + 0.1)
    low, high = max(low, round(least / step)), min(high, round(1 / step))
    stride = 1 if high - low <= 5 else 2
    ticks = tuple(round(k * step, 1) for k in range(low, high + 1) if k % stride == 0)
    return Scale(title, round(high * step, 1), ticks, round(low * step, 1))


def agreement_chart(
    rows: pl.DataFrame, scale: Scale, models: Sequence[Model], groups: Sequence[str]
) -> Drawing:
    """``rows`` are numbers of one corpus and measure, one for each model and group; a group has a colour and a shape."""
    placed = rows.join(_lines(rows, models, groups), on=["encoder", "attention", "group"])
    height = float(placed["y"].to_numpy().max()) + _LINE / 2 + 2
    down = alt.Scale(domain=[0.0, height], range=[0.0, height], nice=False, zero=False)
    y = alt.Y("y:Q", scale=down, title=None, axis=_model_axis(placed, models))
    colour, shapes = (
        Palette(tuple(groups)).colour(),
        [SHAPES[k % len(SHAPES)] for k in range(len(groups))],
    )
    shape = alt.Shape("group:N", scale=alt.Scale(domain=list(groups), range=shapes), legend=None)
    chart = alt.Chart(placed.select("y", "group", "paper", "rerun", "ours", "low", "high"))
    known, published = (
        chart.transform_filter("datum.ours !== null"),
        chart.transform_filter("datum.paper !== null || datum.rerun !== null"),
    )
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
        entries += [
            (encoder, attention, group, top + _LINE * (k + 0.5)) for k, group in enumerate(shown)
        ]
        top += _LINE * len(shown) + (_GAP if shown else 0.0)
    return pl.DataFrame(
        entries,
        schema={"encoder": pl.String, "attention": pl.String, "group": pl.String, "y": pl.Float64},
        orient="row",
    )


def _model_axis(placed: pl.DataFrame, models: Sequence[Model]) -> alt.Axis:
    """A model's name in the middle of its lines; labels of a number axis are found by their number."""
    heights = {
        model: placed.filter(encoder=model[0], attention=model[1])["y"].to_numpy()
        for model in models
    }
    named = [
        (float(height.mean()), json.dumps(" ".join(model)))
        for model, height in heights.items()
        if len(height)
    ]
    chosen = " : ".join(f"abs(datum.value - {middle}) < 0.01 ? {name}" for middle, name in named)
    return alt.Axis(
        values=[middle for middle, _ in named], labelExpr=f"{chosen} : ''", minExtent=98, maxExtent=98, labelLimit=96, grid=False,
        ticks=False, domain=False,
    )  # fmt: skip

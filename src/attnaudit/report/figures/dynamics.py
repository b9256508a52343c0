"""Curves over the steps of a training: what attention agrees with, what comes first, and how well the models do."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import polars as pl

from attnaudit.report.charts.palette import Palette
from attnaudit.report.charts.svg import Drawing, Figure, Panel, render
from attnaudit.results.words import count

STEP = "step:"
WITH_ALPHA = {
    "relevance": "its own relevance r", "uniform": "r trained under uniform attention", "loo": "leave-one-out",
    "embedding": "mean embedding", "logistic": "logistic regression",
}  # fmt: skip
_WIDTH, _HEIGHT = 300, 230
_PARTS = (40, 8, 4, 2)  # of the last step: near these an axis has ticks


def agreement_figure(table: pl.DataFrame, summary: pl.DataFrame) -> Figure:
    """Agreement and τ of attention with all that it is compared with, and of relevance with that of the model with uniform attention."""
    chance = {"chance": "chance"}
    first = {f"agreement_alpha_{name}": word for name, word in WITH_ALPHA.items()}
    others = {
        "agreement_relevance_uniform": "r and r under uniform attention",
        "agreement_loo_uniform": "leave-one-out and r under uniform attention",
    }  # fmt: skip
    panels = (
        _panel(summary, "First in attention, at the top of …", "agreement", first, chance),
        _panel(summary, "τ between attention and …", "Kendall's τ", {f"tau_alpha_{name}": word for name, word in WITH_ALPHA.items()}),
        _panel(summary, "First in one, at the top of the other", "agreement", others, chance),
    )
    return Figure("agreement", "What does attention agree with while it is learned?", _agreement_caption(table), panels)


def order_figure(table: pl.DataFrame, summary: pl.DataFrame) -> Figure:
    """Relevance under uniform attention and attention of fresh seeds, on their way to the reference's attention; accuracy; entropy."""
    ways = {
        "agreement_reference_alpha": "attention of the other seeds", "agreement_reference_relevance_uniform": "r under uniform attention",
        "agreement_reference_relevance_elsewhere_uniform": "the same of other texts",
    }  # fmt: skip
    accuracy = {"accuracy": "learned attention", "accuracy_uniform": "uniform attention"}
    panels = (
        _panel(summary, "First in the reference's attention, at the top of …", "agreement", ways, {"chance": "chance"}),
        _panel(summary, "Accuracy with …", "accuracy", accuracy),
        _panel(summary, "Entropy of attention", "share of ln T", {"entropy": "learned attention"}),
    )
    caption = (
        "Left: the reference is the finished model of the first seed. Relevance that grows before attention finds the same tokens is what "
        "attention can learn from; what it has of other texts of the same length is positional habit (texts of a "
        "unique length do not count there). Middle: accuracy on the probe. Right: 1 is uniform attention, 0 all of it on one token. "
        "Bands: 95 % bootstrap intervals over seeds and instances."
    )
    return Figure("order", "What comes first, relevance or attention?", caption, panels)


def _agreement_caption(table: pl.DataFrame) -> str:
    probe = table.filter(pl.col("model") == "base", pl.col("step").is_not_null())
    instances, seeds = (count(probe[name].n_unique(), noun) for name, noun in (("instance", "instance"), ("seed", "seed")))
    gold = "the log-probability of the gold token" if "query" in table.columns else "what a position says for the gold class"
    on_it = "that position" if "query" in table.columns else "it"
    return (
        f"On {instances} of test, {seeds}; steps on a square-root axis. Agreement: how often the position that the one puts first is among "
        f"the top 5 % of the other; relevance r is {gold}, were all attention on {on_it}. The dotted line is agreement with a shuffled "
        "score. Bands: 95 % bootstrap intervals over seeds and instances. The curves end with the weights of the last step; the finished "
        "models of the verdict and of the first table have those of their best epoch on dev, and are measured on all of test."
    )


def _panel(
    summary: pl.DataFrame, title: str, axis: str, lines: Mapping[str, str], marked: Mapping[str, str] | None = None
) -> Panel:  # fmt: skip
    points = _points(summary, lines)
    if points.is_empty():
        return Panel(title, note="One seed alone: there is no other to compare with the reference.")
    name = f"dynamics-{next(iter(lines)).replace('_', '-')}"
    label = f"{title} {', '.join(points['group'].unique(maintain_order=True))}, by optimizer step"
    return Panel(title, render(step_chart(points, axis, _points(summary, marked or {})), name, label))


def step_chart(points: pl.DataFrame, axis: str, marked: pl.DataFrame) -> Drawing:
    """A line with its band for each group of ``points`` {group, step, value, low, high}; those of ``marked`` dotted, in ink."""
    palette, steps = Palette(tuple(points["group"].unique(maintain_order=True).to_list())), points["step"].unique().sort().to_list()
    scale = alt.Scale(type="sqrt", domain=[0, steps[-1]], nice=False)
    x = alt.X("step:Q", title="optimizer steps", scale=scale, axis=alt.Axis(values=step_ticks(steps), grid=False, labelOverlap=True))
    y = alt.Y("value:Q", title=axis, scale=alt.Scale(zero=True, nice=True), axis=alt.Axis(tickCount=6))
    colour, dash = palette.colour(), palette.dash()
    colour["legend"] = dash["legend"] = alt.Legend(
        title=None, orient="bottom", direction="vertical", labelColor="currentColor", labelLimit=_WIDTH, labelFontSize=12, symbolSize=500,
        symbolStrokeWidth=2, symbolType="stroke", symbolOpacity=1,
    )  # fmt: skip
    chart = alt.Chart(points)
    layers = [
        chart.mark_area(opacity=0.16).encode(x=x, y=alt.Y("low:Q", title=axis), y2=alt.Y2("high"), color=colour),
        chart.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash),
    ]
    if not marked.is_empty():
        layers.append(
            alt.Chart(marked).mark_line(strokeDash=[1, 3], color="currentColor", strokeWidth=1.5).encode(x=x, y=y, detail="group:N")
        )
    return alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT)


def step_ticks(steps: list[int]) -> list[int]:
    """Those of the ``steps`` that were measured, in ascending order, which the square root sets well apart."""
    expected = (steps[0], *(steps[-1] / part for part in _PARTS), steps[-1])
    return sorted({min(steps, key=lambda step, near=near: abs(step - near)) for near in expected})


def _points(summary: pl.DataFrame, measures: Mapping[str, str]) -> pl.DataFrame:
    """{group, step, value, low, high} of the measures at every step at which they have a value."""
    at_steps = summary.filter(pl.col("group").str.starts_with(STEP), pl.col("value").is_not_null())
    named = pl.DataFrame({"measure": list(measures), "name": list(measures.values())}, schema={"measure": pl.String, "name": pl.String})
    found = named.join(at_steps, on="measure", how="inner", maintain_order="left_right")
    return found.select(
        pl.col("name").alias("group"), pl.col("group").str.strip_prefix(STEP).cast(pl.Int64).alias("step"), "value", "low", "high"
    )

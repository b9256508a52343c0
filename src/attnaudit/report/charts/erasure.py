"""Charts of the erasure study: one weight against another, which of two flips the decision, and how much has to go."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import altair as alt
import numpy as np
import polars as pl

from attnaudit.report.charts.palette import Palette
from attnaudit.report.charts.svg import Drawing

MOST_POINTS = 1200
BANDS = 4  # of the difference of weights, each a quarter of its range
RANKINGS = {
    "random": "random", "attention": "attention", "gradient": "gradient", "gradient_attention": "gradient × attention",
    "minimum": "smallest set",
}  # fmt: skip
_WIDTH, _HEIGHT = 330, 210
_FLIPS, _STAYS = "flips", "does not"
_FIFTHS = alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format=".1f")
_NARROW = 220  # with its labels at both sides as wide as the others
_ENDS = alt.Scale(domain=[0, 1], nice=False)
_BOX = ("low", "q25", "q50", "q75", "high")


def scatter_chart(rows: pl.DataFrame, palette: Palette) -> Drawing:
    """``delta_js`` over ``delta_alpha``, at most `MOST_POINTS` of them; above, the share below 0 in each quarter of the range.

    ``rows`` has both, defined, and ``group``.
    """
    ends = _ends(rows["delta_js"])
    step = -(-rows.height // MOST_POINTS)
    points = alt.Chart(rows.gather_every(step).select("group", x="delta_alpha", y="delta_js"))
    x = alt.X("x:Q", title="Δα: largest weight less the other", scale=_ENDS, axis=_FIFTHS)
    y = alt.Y("y:Q", title="ΔJS", scale=alt.Scale(domain=list(ends), nice=False), axis=alt.Axis(tickCount=5))
    dots = points.mark_point(filled=True, size=14, opacity=0.55).encode(x=x, y=y, color=palette.colour())
    zero = alt.Chart(pl.DataFrame({"y": [0.0]})).mark_rule(color="currentColor", opacity=0.7).encode(y=alt.Y("y:Q"))
    told = alt.Chart(negative_shares(rows)).mark_text(baseline="top", fontSize=11.5, opacity=0.85)
    return alt.layer(dots, zero, told.encode(x=alt.X("x:Q"), y=alt.YValue(2), text=alt.Text("text:N"))).properties(
        width=_WIDTH, height=_HEIGHT
    )


def negative_shares(rows: pl.DataFrame) -> pl.DataFrame:
    """The share of ``delta_js`` below 0 in every quarter of [0, 1] of ``delta_alpha``: {x, text}; quarters without a row are left out."""
    band = (pl.col("delta_alpha") * BANDS).floor().clip(0, BANDS - 1)
    shares = rows.group_by(band.alias("band")).agg((pl.col("delta_js") < 0).mean().alias("share"), pl.len().alias("n")).sort("band")
    words = [f"{share:.0%} < 0".replace("%", " %") for share in shares["share"].to_list()]
    return pl.DataFrame({"x": ((shares["band"] + 0.5) / BANDS).to_list(), "text": words}, schema={"x": pl.Float64, "text": pl.String})


def _ends(values: pl.Series) -> tuple[float, float]:
    """A range from below 0 to above it that all values fit in, a little wider at the top for words."""
    low, high = float(np.min(values.to_numpy())), float(np.max(values.to_numpy()))
    reach = max(high, -low, 0.05)
    return min(1.1 * low, -0.15 * reach), 1.25 * max(high, 0.3 * reach)


def flip_chart(rows: pl.DataFrame) -> Drawing:
    """The flip table, its four shares as shaded cells."""
    table = alt.Chart(flip_shares(rows))
    order = [_FLIPS, _STAYS]
    x = alt.X("other:N", title="without the other", sort=order, axis=alt.Axis(orient="top", labelAngle=0, ticks=False, domain=False))
    y = alt.Y("largest:N", title="without the largest", sort=order, axis=alt.Axis(ticks=False, domain=False, minExtent=62))
    shade = alt.Opacity("share:Q", scale=alt.Scale(domain=[0, 1], range=[0.06, 0.75]), legend=None)
    filled = table.mark_rect(color=Palette.COLOURS[0]).encode(x=x, y=y, opacity=shade)
    words = table.mark_text(fontSize=14).encode(x=x, y=y, text=alt.Text("text:N"))
    return alt.layer(filled, words).properties(width=_WIDTH, height=0.7 * _HEIGHT)


def flip_shares(rows: pl.DataFrame) -> pl.DataFrame:
    """{largest, other, share, text}: how many instances each pair of answers holds for."""
    cells = []
    for largest, other in product((True, False), repeat=2):
        share = rows.select(((pl.col("flip_max") == largest) & (pl.col("flip_random") == other)).mean()).item()
        names = (_FLIPS if flips else _STAYS for flips in (largest, other))
        cells.append((*names, share, f"{100 * share:.1f} %"))
    return pl.DataFrame(cells, schema=["largest", "other", "share", "text"], orient="row")


def removal_chart(rows: pl.DataFrame) -> Drawing:
    """Share of the tokens that is gone at the first flip: a box of quartiles, a line from 5 to 95 %, the median, and who never flips."""
    boxes = removal_boxes(rows)
    order = list(RANKINGS.values())
    y = alt.Y("name:N", title=None, sort=order, axis=alt.Axis(ticks=False, domain=False, labelLimit=150))
    x = alt.X("low:Q", title="share of the tokens removed", scale=_ENDS, axis=_FIFTHS)
    chart = alt.Chart(boxes)
    colour = alt.condition(alt.datum.name == RANKINGS["minimum"], alt.value(Palette.COLOURS[5]), alt.value(Palette.COLOURS[0]))
    layers = [
        chart.mark_rule(strokeWidth=1.4).encode(x=x, x2=alt.X2("high"), y=y, color=colour),
        chart.mark_bar(size=16, opacity=0.45).encode(x=alt.X("q25:Q"), x2=alt.X2("q75"), y=y, color=colour),
        chart.mark_tick(thickness=3, size=18).encode(x=alt.X("q50:Q"), y=y, color=colour),
        chart.mark_text(align="left", dx=6, fontSize=11, opacity=0.75).encode(x=alt.XValue(_NARROW), y=y, text=alt.Text("never:N")),
    ]
    return alt.layer(*layers).properties(width=_NARROW, height=34 * boxes.height)


def removal_boxes(rows: pl.DataFrame) -> pl.DataFrame:
    """{name, low, q25, q50, q75, high, never} of every ranking over the ``rows`` that it flips; ``never`` tells the share it does not."""
    found = []
    for ranking, name in RANKINGS.items():
        values = rows[f"removed_{ranking}"].drop_nulls()
        ends = [values.quantile(q, "linear") for q in (0.05, 0.25, 0.5, 0.75, 0.95)] if values.len() else [None] * len(_BOX)
        found.append((name, *ends, f"never: {100 * (1 - values.len() / rows.height):.0f} %"))
    return pl.DataFrame(found, schema={"name": pl.String, **dict.fromkeys(_BOX, pl.Float64), "never": pl.String}, orient="row")


def rankings_in(columns: Sequence[str]) -> bool:
    """Whether the table of the study is there."""
    return {"delta_js", "delta_alpha", "flip_max", "flip_random", *(f"removed_{name}" for name in RANKINGS)} <= set(columns)

"""The figures of the erasure study, and the sentence that says what is read from each."""

from __future__ import annotations

import polars as pl
import polars.selectors as cs

from attnaudit.report.charts.erasure import RANKINGS, flip_chart, rankings_in, removal_chart, scatter_chart
from attnaudit.report.charts.figure import Figure, Panel
from attnaudit.report.charts.palette import Palette
from attnaudit.report.charts.svg import render
from attnaudit.results.words import count, figure, percent


def one_weight_figure(rows: pl.DataFrame, palette: Palette) -> Figure | None:
    """The largest weight removed against another one removed."""
    if not rankings_in(rows.columns):
        return None
    known = rows.select("group", "delta_js", "delta_alpha", "flip_max", "flip_random").filter(pl.col("delta_js").is_not_null())
    left_out = rows.height - known.height
    told = f" {count(left_out, 'instance')} of one token, or with all weight on one, left out." if left_out else ""
    if known.height == 0:
        return Figure("erasure", _ONE, "Undefined for every instance.", (Panel("", note="Nothing to draw."),))
    negative = known.select((pl.col("delta_js") < 0).mean()).item()
    only = known.select((pl.col("flip_max") & ~pl.col("flip_random")).mean()).item()
    caption = (
        "How much more the output moves (JSD) without the largest weight than without one drawn at random from the others, by how much "
        f"larger it is. Mean {figure(_mean(known, 'delta_js'), 3)}; below 0 for {percent(negative)}: there the other one mattered more. "
        f"Right: whether each removal flips the decision; only that of the largest weight does for {percent(only)}. Points near 0 far to "
        f"the right would mean that a much larger weight is no more needed.{told}"
    )
    scatter = render(
        scatter_chart(known, palette), "erasure-scatter", "Scatter of the difference of divergence against that of the weights"
    )
    flips = render(flip_chart(known), "erasure-flips", "Shares of instances whose decision each of two removals flips")
    return Figure(
        "erasure", _ONE, caption, (Panel("One weight against another", scatter), Panel("Whose removal flips the decision", flips))
    )


_ONE = "Is the highest weight the one that matters?"


def removal_figure(rows: pl.DataFrame, palette: Palette) -> Figure | None:
    """How many tokens have to go, by ranking, beside the fewest there are."""
    if not rankings_in(rows.columns):
        return None
    able = rows.select(cs.starts_with("removed_"), "times_minimum_attention", "minimum_proven").filter(
        pl.col("minimum_proven").is_not_null()
    )
    if able.height == 0:
        return None
    times = able["times_minimum_attention"].median()
    proven = able["minimum_proven"].mean()
    beside = f" Where it flips it takes a median of {times:.1f} times as many as the smallest set." if isinstance(times, float) else ""
    shown = f"proven for {percent(proven)}" if isinstance(proven, float) else ""
    caption = (
        "Tokens removed in the order of a ranking until the decision flips, as a share of all: quartiles (bar), 5 to 95 % (line), median "
        f"of the instances that flip.{beside} The smallest set ({shown}) is what no ranking undercuts: where it is large, the decision "
        "hangs on many tokens, and a ranking far to its right names others than those it hangs on."
    )
    label = "Shares of tokens removed at the first flip, by ranking: " + ", ".join(RANKINGS.values())
    panel = Panel("", render(removal_chart(able), "erasure-removal", label))
    return Figure("removal", "How much must go before the decision flips?", caption, (panel,))


def _mean(rows: pl.DataFrame, column: str) -> float | None:
    value = rows[column].mean()
    return value if isinstance(value, float) else None

"""The figures of a report: which tables they show, and the sentence that says what is read from each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl
from altair.utils.schemapi import debug_mode

from attnaudit.published.reference import MAX_ALPHA_BINS
from attnaudit.report.charts.figure import Figure, Panel
from attnaudit.report.charts.histogram import histogram_chart
from attnaudit.report.charts.palette import LegendEntry, Marker, Palette, Scale, group_rows, legend
from attnaudit.report.charts.svg import Drawing, render
from attnaudit.report.charts.violin import violin_chart
from attnaudit.report.figures.erasure import one_weight_figure, removal_figure
from attnaudit.report.words.card_rows import SEEN_GAP
from attnaudit.results.words import LN2, count, figure, percent

_JSD_TICKS = (0.0, 0.2, 0.4, 0.6)
_TAUS = (
    ("tau_gradient", "attention and gradient"),
    ("tau_loo", "attention and leave-one-out"),
    ("tau_gradient_loo", "gradient and leave-one-out"),
)


def draw_figures(rows: pl.DataFrame, class_names: Sequence[str] = ()) -> tuple[list[Figure], tuple[LegendEntry, ...]]:
    """All figures that the columns of ``rows`` (the experiments' tables side by side) allow, and the legend they share."""
    if rows.height == 0 or "predicted" not in rows.columns:
        return [], ()
    grouped, palette = group_rows(rows, class_names)
    makers = (_tau_figure, _permutation_figure, _adversary_histogram, _adversary_violins, removal_figure, one_weight_figure)
    with debug_mode(False):  # charts are checked against their schema a hundred times over otherwise, half the time of a page
        made = [maker(grouped, palette) for maker in makers]
    return [one for one in made if one is not None], legend(grouped, palette)


def _tau_figure(rows: pl.DataFrame, palette: Palette) -> Figure | None:
    shown = [(column, pair) for column, pair in _TAUS if column in rows.columns]
    if not shown:
        return None
    read = [f"{pair} {figure(_mean(rows, column))}" for column, pair in shown]
    caption = (
        "Kendall τ of each instance, as shares of its predicted class; ticks at the bottom mark the class means. 1: the same order of "
        f"tokens, 0: unrelated, −1: reversed. Mean τ over all instances: {'; '.join(read)}. The last panel is the yardstick: how far two "
        "measures of importance agree with each other."
    )
    panels = tuple(_tau_panel(rows, column, pair, palette) for column, pair in shown)
    return Figure("tau", "Does attention rank tokens as importance measures do?", caption, panels)


def _tau_panel(rows: pl.DataFrame, column: str, pair: str, palette: Palette) -> Panel:
    scale = Scale("Kendall τ", 1.0, (-1.0, -0.5, 0.0, 0.5, 1.0), low=-1.0)
    label = f"Histogram of Kendall τ between {pair}"
    return _panel(rows, column, column.replace("_", "-"), label, lambda: histogram_chart(rows, column, scale, palette), pair.capitalize())


def _permutation_figure(rows: pl.DataFrame, palette: Palette) -> Figure | None:
    if not {"median_delta_y", "max_alpha"} <= set(rows.columns):
        return None
    still = rows.select((pl.col("median_delta_y") < 0.05).mean()).item()
    caption = (
        "Median change of the output over random shuffles of the weights, by the largest weight of the instance. Dots are medians, bars "
        f"quartiles. {percent(still or 0.0)} of all instances move by less than 0.05. {_peaked(rows, 'median_delta_y')} Peaked attention "
        "(lower rows) that can be shuffled without effect (left) would not point at what the output depends on."
    )
    scale = _zoomed("median Δŷ under shuffling", rows["median_delta_y"])
    if scale.high < 1.0:
        caption += f" The axis ends at {scale.high:g} of a possible 1."
    panel = _violins(rows, "median_delta_y", scale, palette, "Violins of the change of output under shuffled attention")
    return Figure("permutation", "Does the output change when attention is shuffled?", caption, (panel,))


def _adversary_histogram(rows: pl.DataFrame, palette: Palette) -> Figure | None:
    if "emax_jsd" not in rows.columns:
        return None
    upper = _mean(rows, "emax_jsd_upper") if "emax_jsd_upper" in rows.columns else None
    found = _mean(rows, "emax_jsd")
    proven = upper is not None and found is not None and upper - found < SEEN_GAP
    markers = [Marker(LN2, "ln 2", after=True)]
    if upper is not None and not proven:
        markers.append(Marker(upper, "mean upper bound", after=upper < LN2 / 2))
    caption = (
        "How far, in Jensen–Shannon divergence, the most different attention found lies from the model's own while the output stays within "
        f"ε. Mean {figure(found, 3)}{', proven to be the largest there is' if proven else ''}; no two attentions differ by more than "
        "ln 2 = 0.693"
        + ("" if upper is None or proven else f", and under this constraint by no more than {figure(upper, 3)} on average")
        + ". The farther right, the less the output pins the weights down."
    )
    scale = Scale("ε-max JSD", 0.7, _JSD_TICKS)
    label = "Histogram of the largest divergence of an attention with nearly the same output"
    panel = _panel(rows, "emax_jsd", "emax-jsd", label, lambda: histogram_chart(rows, "emax_jsd", scale, palette, markers, bins=35))
    return Figure("emax", "How different an attention gives nearly the same output?", caption, (panel,))


def _adversary_violins(rows: pl.DataFrame, palette: Palette) -> Figure | None:
    if not {"emax_jsd", "max_alpha"} <= set(rows.columns):
        return None
    caption = (
        "The same divergence by the largest weight of the instance. Dots are medians, bars quartiles. "
        f"{_peaked(rows, 'emax_jsd')} Low values there would mean that peaked attention cannot be replaced."
    )
    label = "Violins of the largest divergence by largest attention weight"
    panel = _violins(rows, "emax_jsd", Scale("ε-max JSD", 0.7, _JSD_TICKS), palette, label, [Marker(LN2, "")])
    return Figure("emax-by-weight", "… and does peaked attention resist?", caption, (panel,))


def _violins(rows: pl.DataFrame, column: str, scale: Scale, palette: Palette, label: str, markers: Sequence[Marker] = ()) -> Panel:
    last = len(MAX_ALPHA_BINS) - 1
    banded = rows.with_columns(band=(pl.col("max_alpha") * 4).floor().clip(0, last).cast(pl.Int64))
    name = f"{column}-violins".replace("_", "-")
    return _panel(rows, column, name, label, lambda: violin_chart(banded, column, scale, MAX_ALPHA_BINS, palette, markers))


def _panel(rows: pl.DataFrame, column: str, name: str, label: str, draw: Callable[[], Drawing], title: str = "") -> Panel:
    undefined = rows[column].fill_nan(None).null_count()
    if undefined == rows.height:
        return Panel(title, note="Undefined for every instance: nothing to draw.")
    note = f"Undefined, and not drawn, for {count(undefined, 'instance')}." if undefined else ""
    return Panel(title, render(draw(), name, label), note)


def _zoomed(title: str, values: pl.Series) -> Scale:
    """An axis from 0 to the first round number that all values fit below, 1 at most."""
    largest = values.fill_nan(None).max()
    high = next((end for end in (0.05, 0.1, 0.2, 0.5) if isinstance(largest, float) and largest <= end), 1.0)
    return Scale(title, high, tuple(round(high * k / 5, 2) for k in range(6)))


def _peaked(rows: pl.DataFrame, column: str) -> str:
    peaked = rows.filter(pl.col("max_alpha") >= 0.5)
    middle = peaked[column].median()
    if not isinstance(middle, float):
        return "No instance puts half of its attention or more on one token."
    return f"Where one token holds half of the attention or more ({count(peaked.height, 'instance')}), the median is {figure(middle, 3)}."


def _mean(rows: pl.DataFrame, column: str) -> float | None:
    value = rows[column].fill_nan(None).mean()
    return float(value) if isinstance(value, float) else None

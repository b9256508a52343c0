"""Do measures of importance agree with each other? (Neely et al. 2021, Krishna et al. 2024)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from attnaudit.experiments.agreement import AND
from attnaudit.report.cards.card import Axis, Card, CardRow, card_row
from attnaudit.report.charts.studies import pair_matrix_chart
from attnaudit.report.charts.svg import Figure, drawn
from attnaudit.report.words import figure, with_interval
from attnaudit.results.about import About
from attnaudit.results.measures import SCORES
from attnaudit.results.summary import SummaryRows

QUESTION = "Do measures of importance agree with each other?"
_CAPTION = (
    "Mean over instances for each pair of measures; a stronger colour is a number further from 0, "
    "orange a negative one. Left: Kendall τ over all tokens, 1 for the same order, 0 for unrelated "
    "orders. Right: share of the most important quarter of the tokens by one measure that are "
    "among the most important quarter by the other; a random order has {chance}."
)

Pairs = Mapping[tuple[str, str], Mapping[str, Any]]


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Word the pairs that agree most and least, by τ."""
    pairs = sorted(_pairs(rows, "tau").items(), key=lambda one: -one[1]["value"])
    if len(pairs) < 2 or rows.head is not None:
        return
    (most, best), (least, worst) = pairs[0], pairs[-1]
    said = (
        f"{' and '.join(most)} agree most (τ {figure(best['value'])}), {' and '.join(least)} least "
        f"(τ {figure(worst['value'])})."
    )
    # The extremes of many pairs are biased outwards: overlapping ends are not called different.
    if best["low"] is None or worst["high"] is None or best["low"] <= worst["high"]:
        said = "none is shown to agree better than another: their intervals overlap."
    yield card_row(
        QUESTION,
        f"largest mean Kendall τ of two measures, {' – '.join(most)}",
        best,
        f"least: {' – '.join(least)}, τ {with_interval(worst)}",
        f"Of {len(pairs)} pairs of measures {said}",
        axis=Axis(mark=float(worst["value"]), ends=(-1.0, 1.0)),
    )


def summary_figures(rows: SummaryRows) -> Iterator[Figure]:
    """Draw a matrix of measures for each kind of agreement."""
    kinds = {"tau": "Kendall τ", "precision": "Share of the top quarter in common"}
    panels = tuple(
        drawn(
            title,
            pair_matrix_chart(_both_ways(_pairs(rows, kind))),
            f"agreement-{kind}",
            f"{title} of every two measures of importance",
        )
        for kind, title in kinds.items()
        if _pairs(rows, kind)
    )
    if panels:
        chance = figure(rows.value("agreement", "precision_by_chance"))
        yield Figure("agreement", QUESTION, _CAPTION.format(chance=chance), panels)


def _pairs(rows: SummaryRows, kind: str) -> Pairs:
    """Return the summary row of every pair that has a value, by the names of the two measures."""
    found = {}
    for (experiment, measure), row in rows.rows.items():
        if experiment == "agreement" and measure.startswith(f"{kind}_") and AND in measure:
            a, b = (
                SCORES.get(name, name.replace("_", " "))
                for name in measure.removeprefix(f"{kind}_").split(AND)
            )
            found[a, b] = row
    return found


def _both_ways(pairs: Pairs) -> pl.DataFrame:
    """Return {measure, other, value} of every pair, in both directions."""
    cells = [
        (one, other, row["value"])
        for pair, row in pairs.items()
        for one, other in (pair, pair[::-1])
    ]
    schema = {"measure": pl.String, "other": pl.String, "value": pl.Float64}
    return pl.DataFrame(cells, schema=schema, orient="row")


CARD = Card(QUESTION, card_rows, summary_figures=summary_figures)

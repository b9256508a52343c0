"""Do measures of importance agree with each other? (Neely et al. 2021, Krishna et al. 2024)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import polars as pl

from attnaudit.core.numbers import count
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

Pair = tuple[str, str]
Ranked = Sequence[tuple[Pair, Mapping[str, Any]]]


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Word the pairs that agree most and least, by τ."""
    pairs = sorted(_pairs(rows, "tau").items(), key=lambda one: -one[1]["value"])
    if len(pairs) < 2 or rows.head is not None:
        return
    (most, best), (least, worst) = pairs[0], pairs[-1]
    yield card_row(
        QUESTION,
        f"largest mean Kendall τ of two measures, {_named(most)}",
        best,
        f"least: {_named(least)}, τ {with_interval(worst)}",
        _sentence(pairs),
        axis=Axis(mark=float(worst["value"]), ends=(-1.0, 1.0)),
    )


def summary_figures(rows: SummaryRows) -> Iterator[Figure]:
    """Draw a matrix of measures for each kind of agreement."""
    if not _names(rows):
        return
    kinds = {"tau": "Kendall τ", "precision": "Share of the top quarter in common"}
    panels = tuple(
        drawn(
            title,
            pair_matrix_chart(_matrix(rows, kind)),
            f"agreement-{kind}",
            f"{title} of every two measures of importance",
        )
        for kind, title in kinds.items()
    )
    chance = figure(rows.value("agreement", "precision_by_chance"))
    yield Figure("agreement", QUESTION, _CAPTION.format(chance=chance), panels)


def _names(rows: SummaryRows) -> list[str]:
    """Return the measures that are compared, in the order of the trace's columns."""
    begin = f"tau_attention{AND}"
    others = [
        measure.removeprefix(begin)
        for experiment, measure in rows.rows
        if experiment == "agreement" and measure.startswith(begin)
    ]
    return ["attention", *others] if others else []


def _pairs(rows: SummaryRows, kind: str) -> dict[Pair, dict[str, Any]]:
    """Return the summary row of every pair that has a value."""
    return {
        (a, b): row
        for a, b in combinations(_names(rows), 2)
        if (row := rows.get("agreement", f"{kind}_{a}{AND}{b}")) is not None
    }


def _matrix(rows: SummaryRows, kind: str) -> pl.DataFrame:
    """Return {measure, other, value} of every pair, in both directions."""
    names, known = _names(rows), _pairs(rows, kind)
    cells = [
        (_label(a), _label(b), row["value"])
        for a in names
        for b in names
        if (row := known.get((a, b)) or known.get((b, a)))
    ]
    schema = {"measure": pl.String, "other": pl.String, "value": pl.Float64}
    return pl.DataFrame(cells, schema=schema, orient="row")


def _label(name: str) -> str:
    return SCORES.get(name, name.replace("_", " "))


def _named(pair: Pair) -> str:
    return " – ".join(map(_label, pair))


def _sentence(pairs: Ranked) -> str:
    """Say which pairs agree most and least, if their intervals lie apart."""
    (_, best), (_, worst) = pairs[0], pairs[-1]
    known = all(row["low"] is not None and row["high"] is not None for _, row in pairs)
    # The extremes of many pairs are biased outwards: overlapping ends are not called different.
    if not known or best["low"] <= worst["high"]:
        return (
            f"Of {len(pairs)} pairs of measures none is shown to agree better than another: their "
            "intervals overlap."
        )
    near_best = sum(row["high"] >= best["low"] for _, row in pairs[1:])
    near_worst = sum(row["low"] <= worst["high"] for _, row in pairs[:-1])
    ends = (_end("most", pairs[0], near_best), _end("least", pairs[-1], near_worst))
    return f"Of {len(pairs)} pairs of measures {' and '.join(ends)}."


def _end(which: str, ranked: tuple[Pair, Mapping[str, Any]], near: int) -> str:
    (a, b), row = ranked
    others = f"; {count(near, 'other pair')} within overlapping intervals" if near else ""
    return f"{_label(a)} and {_label(b)} agree {which} (τ {figure(row['value'])}{others})"


CARD = Card(QUESTION, card_rows, summary_figures=summary_figures)

"""Do measures of importance agree with each other? (Neely et al. 2021, Krishna et al. 2024)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import polars as pl

from attnaudit.core.numbers import count
from attnaudit.experiments.agreement import AND
from attnaudit.report.cards.card import Card
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, SummaryRows, card_row
from attnaudit.results.charts import PairMatrix, StudyFigure, StudyPanel
from attnaudit.results.measures import SCORES
from attnaudit.results.words import figure, interval

QUESTION = "Do measures of importance agree with each other?"

_CAPTION = (
    "Mean over instances for each pair of measures; a stronger colour is a number further from 0, orange a negative one. Left: "
    "Kendall τ over all tokens, 1 for the same order, 0 for unrelated orders. Right: share of the most important quarter of the tokens "
    "by one measure that are among the most important quarter by the other; a random order has {chance}."
)


Pair = tuple[str, str]


def _names(rows: SummaryRows) -> list[str]:
    """The measures that are compared, in the order of the trace's columns."""
    begin = f"tau_attention{AND}"
    others = [
        measure.removeprefix(begin)
        for experiment, measure in rows.rows
        if experiment == "agreement" and measure.startswith(begin)
    ]
    return ["attention", *others] if others else []


def _pairs(rows: SummaryRows, kind: str, names: Sequence[str]) -> dict[Pair, dict[str, Any]]:
    """The summary row of every pair that has a value."""
    found = {
        (a, b): rows.get("agreement", f"{kind}_{a}{AND}{b}") for a, b in combinations(names, 2)
    }
    return {pair: row for pair, row in found.items() if row is not None}


def _matrix(rows: SummaryRows, kind: str, names: Sequence[str]) -> pl.DataFrame:
    """{measure, other, value} of every pair, in both directions."""
    known = _pairs(rows, kind, names)
    both = known | {(b, a): row for (a, b), row in known.items()}
    cells = [
        (_label(a), _label(b), both[a, b]["value"]) for a in names for b in names if (a, b) in both
    ]
    return pl.DataFrame(
        cells, schema={"measure": pl.String, "other": pl.String, "value": pl.Float64}, orient="row"
    )


def _label(name: str) -> str:
    return SCORES.get(name, name.replace("_", " "))


def _named(pair: Pair) -> str:
    return " – ".join(map(_label, pair))


def _said(pairs: Sequence[tuple[Pair, Mapping[str, Any]]]) -> str:
    """Which pairs agree most and least, as far as their intervals lie apart; ``pairs`` are in descending order."""
    (most, best), (least, worst) = pairs[0], pairs[-1]
    intervals = [row["low"] is not None and row["high"] is not None for _, row in pairs]
    if not all(intervals) or best["low"] <= worst["high"]:
        return f"Of {len(pairs)} pairs of measures none is shown to agree better than another: their intervals overlap."
    ends = (
        _one_end("most", most, best, sum(row["high"] >= best["low"] for _, row in pairs[1:])),
        _one_end("least", least, worst, sum(row["low"] <= worst["high"] for _, row in pairs[:-1])),
    )
    return f"Of {len(pairs)} pairs of measures {' and '.join(ends)}."


def _one_end(which: str, pair: Pair, row: Mapping[str, Any], near: int) -> str:
    a, b = map(_label, pair)
    others = f"; {count(near, 'other pair')} within overlapping intervals" if near else ""
    return f"{a} and {b} agree {which} (τ {figure(row['value'])}{others})"


def summary_figures(rows: SummaryRows) -> Iterator[StudyFigure]:
    """A matrix of measures for each kind of agreement."""
    names, chance = _names(rows), rows.get("agreement", "precision_by_chance")
    if not names:
        return
    kinds = {"tau": "Kendall τ", "precision": "Share of the top quarter in common"}
    panels = tuple(
        StudyPanel(
            title,
            PairMatrix(_matrix(rows, kind, names)),
            f"agreement-{kind}",
            f"{title} of every two measures of importance",
        )
        for kind, title in kinds.items()
    )
    said = _CAPTION.format(chance=figure(None if chance is None else chance["value"]))
    yield StudyFigure("agreement", QUESTION, said, panels)


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """The pairs that agree most and least, by τ."""
    pairs = sorted(_pairs(rows, "tau", _names(rows)).items(), key=lambda one: -one[1]["value"])
    if len(pairs) < 2 or rows.head is not None:
        return
    (most, best), (least, worst) = pairs[0], pairs[-1]
    yield card_row(
        QUESTION,
        f"largest mean Kendall τ of two measures, {_named(most)}",
        best,
        f"least: {_named(least)}, τ {figure(worst['value'])} {interval(worst)}".rstrip(),
        _said(pairs),
        mark=float(worst["value"]),
        scale=(-1.0, 1.0),
    )


CARD = Card(question=QUESTION, rows=card_rows, summary_figures=summary_figures)

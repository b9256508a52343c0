"""Do measures of importance agree with each other? (Neely et al. 2021, Krishna et al. 2024)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from attnaudit.core.numbers import count
from attnaudit.core.papers import KRISHNA2024, NEELY2021
from attnaudit.experiments.rows import importance_scores, keys, over_words, taken_names
from attnaudit.results import summarise_means
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, SummaryRows, card_row
from attnaudit.results.charts import PairMatrix, StudyFigure, StudyPanel
from attnaudit.results.groups import OF_HEAD, by_group
from attnaudit.results.measures import SCORES, Measure
from attnaudit.results.words import figure, interval
from attnaudit.stats.agreement import chance_agreement, top_overlaps
from attnaudit.stats.kendall import kendall_tau
from attnaudit.trace import Trace

TOP = 25  # per cent of the tokens, rounded up to a whole one
FEWEST = 2  # columns importance_<name>; what a trace has with fewer is compared by correlation
AND = "_and_"
_CAPTION = (
    "Mean over instances for each pair of measures; a stronger colour is a number further from 0, orange a negative one. Left: "
    "Kendall τ over all tokens, 1 for the same order, 0 for unrelated orders. Right: share of the most important quarter of the tokens "
    "by one measure that are among the most important quarter by the other; a random order has {chance}."
)

Pair = tuple[str, str]


@dataclass(frozen=True)
class Agreement:
    """Agreement of every two measures of importance: attention, gradient, leave-one-out and every ``importance_<name>`` of the trace.

    Over all tokens, or those that are not special where the trace has a column ``special``. ``tau_<a>_and_<b>`` is Kendall's tau-b, null
    where one of the two is constant or T < 2. ``precision_<a>_and_<b>`` is the share of the top ⌈T/4⌉ tokens by the one that are among
    the top ⌈T/4⌉ by the other, the feature agreement of Krishna et al.: the same in both directions, ties in expectation, null where
    T < 2. ``precision_by_chance`` is what a random order reaches on average.
    """

    name = "agreement"
    needs = ()
    scope = "traces with several importance scores"
    question = "Do measures of importance agree with each other?"
    papers = (KRISHNA2024, NEELY2021)
    measures = (
        Measure(
            "tau_{score}_and_{score}",
            "Kendall τ, {score} – {score}",
            "Kendall τ-b of two measures of importance over the tokens of an instance, −1 to 1.",
        ),
        Measure(
            "precision_{score}_and_{score}",
            "share of the top quarter in common, {score} – {score}",
            "Share of the top ⌈T/4⌉ tokens by one measure of importance that are among the top ⌈T/4⌉ by the other, 0 to 1.",
        ),
        Measure(
            "precision_by_chance",
            "share of the top quarter in common, random order",
            "Share of the top ⌈T/4⌉ tokens that a random order of the tokens has in common with another, on average.",
        ),
    )
    seed = 0  # no setting: specifications of runs name the settings of experiments, and those made before it have none

    def refuses(self, trace: Trace) -> str | None:
        names = [name for name in trace.table.column_names if name.startswith("importance_")]
        if len(names) < FEWEST:
            return f"for {self.scope} only, {FEWEST} columns importance_<name> or more"
        joined = ", ".join(name for name in names if AND in name.removeprefix("importance"))
        if joined:
            return f"the name of column {joined} has {AND} in it, which joins the names of two measures"
        return taken_names(trace, ("attention", "gradient", "loo"), "a score of every trace")

    def __call__(self, trace: Trace) -> pl.DataFrame:
        scores = over_words(trace, {"attention": trace.alpha, **importance_scores(trace)})
        pairs, lengths = list(combinations(scores, 2)), scores["attention"].lengths
        overlaps = top_overlaps(list(scores.values()), TOP)
        columns = {f"tau_{a}{AND}{b}": kendall_tau(scores[a], scores[b])[0] for a, b in pairs}
        columns |= {
            f"precision_{a}{AND}{b}": overlap
            for (a, b), overlap in zip(pairs, overlaps, strict=True)
        }
        columns["precision_by_chance"] = np.where(
            lengths < 2, np.nan, chance_agreement(lengths, TOP)
        )
        return keys(trace).with_columns(
            pl.Series(name, values, nan_to_null=True) for name, values in columns.items()
        )

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        """Of single heads only what is compared with attention: the other measures are of a text, alike for all of its heads."""

        def measured(rows: pl.LazyFrame) -> pl.LazyFrame:
            return rows.select(pl.col("^(tau|precision)_.*$"))

        summary = summarise_means(self.name, by_group(table, measured), self.seed)
        return summary.filter(
            ~pl.col("group").str.starts_with(OF_HEAD)
            | pl.col("measure").str.contains(f"_attention{AND}", literal=True)
        )

    @staticmethod
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
        yield StudyFigure("agreement", Agreement.question, said, panels)

    @staticmethod
    def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
        """The pairs that agree most and least, by τ."""
        pairs = sorted(_pairs(rows, "tau", _names(rows)).items(), key=lambda one: -one[1]["value"])
        if len(pairs) < 2 or rows.head is not None:
            return
        (most, best), (least, worst) = pairs[0], pairs[-1]
        yield card_row(
            Agreement.question,
            f"largest mean Kendall τ of two measures, {_named(most)}",
            best,
            f"least: {_named(least)}, τ {figure(worst['value'])} {interval(worst)}".rstrip(),
            _said(pairs),
            mark=float(worst["value"]),
            scale=(-1.0, 1.0),
        )


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

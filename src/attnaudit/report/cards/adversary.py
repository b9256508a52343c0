"""How different can attention be while the output stays the same? (Jain & Wallace 2019)."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from attnaudit.experiments.verdict import FOR, furthest
from attnaudit.report.cards.card import Axis, Card, CardRow, Claim, card_row
from attnaudit.report.charts.specs import (
    FigureSpec,
    Histogram,
    Marker,
    Scale,
    Violins,
    means_of,
    upper_bound,
)
from attnaudit.report.words import difference, figure, percent
from attnaudit.results.about import About
from attnaudit.results.summary import SummaryRows
from attnaudit.stats.measures import LN2

QUESTION = "How different can attention be with nearly the same output?"
NEARLY_ALL = 5e-3  # of JSD: with a bound this close nothing is said of what a search missed
SEEN_GAP = 5e-4  # a bound closer than this has the same three decimals as the figure


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Word the divergence of the most different attention found."""
    row, upper = rows.get("adversary", "emax_jsd"), rows.value("adversary", "emax_jsd_upper")
    if row is None:
        return
    finding, value = furthest(rows), row["value"]
    gap = 0.0 if upper is None else upper - value
    loose, certified = gap > SEEN_GAP, rows.value("adversary", "certified")
    differs = f"differ from the model's own {difference(value)}"
    sentence = (
        f"On average {'a search found' if loose else 'there are'} attention weights that {differs} "
        f"and keep the output {within_epsilon(about, 'adversary')} of the original"
        f"{'; others may differ more' if gap >= NEARLY_ALL else ''}. That they exist does not mean "
        "that training would find them (Wiegreffe & Pinter 2019)."
    )
    if certified is not None:
        sentence += (
            f" The weights found are proven to be the most different for {percent(certified)} of "
            f"{rows.unit}s."
        )
    possible = "nearly the same output is possible"
    claim = Claim(
        finding,
        f"{possible} with weights that differ from its own {difference(value)}",
        f"{possible} with quite different weights",
    )
    if finding is not None and finding.side == FOR:
        claim = Claim(finding, f"{possible} only with weights close to its own")
    yield card_row(
        QUESTION,
        "mean ε-max JSD, found",
        row,
        (f"at most {figure(upper, 3)} (upper bound), " if loose else "")
        + "ln 2 = 0.693 (maximum of any two attentions)",
        sentence,
        axis=Axis(mark=upper if loose else LN2, ends=(0.0, LN2), places=3),
        claim=claim,
    )


def within_epsilon(about: About, experiment: str) -> str:
    """Say how much the output may change: ``within ε = 0.01``."""
    epsilon = about.setting(experiment, "epsilon")
    return f"within ε = {epsilon:g}" if isinstance(epsilon, int | float) else "within ε"


def _markers(rows: pl.DataFrame) -> list[Marker]:
    bound = upper_bound("emax_jsd", SEEN_GAP, LN2)(rows)
    return [Marker(LN2, "ln 2", after=True), *bound]


def _caption(rows: pl.DataFrame) -> str:
    found, upper = means_of(rows, "emax_jsd", "emax_jsd_upper")
    return (
        "Jensen–Shannon divergence from the model's own attention to the most different attention "
        "found whose output stays within ε"
        f"{', proven to be the maximum' if upper - found < SEEN_GAP else ''}. No two attentions "
        "differ by more than ln 2. The farther right, the less the output determines the weights."
    )


_PEAKED = (
    "The same divergence by the largest weight of the instance. "
    "Low values in the lower rows would mean that peaked attention cannot be replaced."
)
_AXIS = Scale("ε-max JSD", 0.7, (0.0, 0.2, 0.4, 0.6))
_FIGURES = (
    FigureSpec(
        "emax",
        QUESTION,
        (Histogram("emax_jsd", _AXIS, bins=35, markers=_markers),),
        _caption,
        reads=("emax_jsd_upper",),
    ),
    FigureSpec(
        "emax-by-weight",
        "… and does peaked attention resist?",
        (Violins("emax_jsd", _AXIS, markers=lambda rows: [Marker(LN2, "")]),),
        _PEAKED,
    ),
)
CARD = Card(QUESTION, card_rows, _FIGURES)

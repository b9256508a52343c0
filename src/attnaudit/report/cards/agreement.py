"""Do measures of importance agree with each other? (Neely et al. 2021, Krishna et al. 2024)."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from attnaudit.experiments.agreement import AND
from attnaudit.report.cards.card import Card, CardRows, card_row
from attnaudit.report.cards.wording import name_score
from attnaudit.report.charts.marks import cell_chart
from attnaudit.report.charts.svg import Figure, drawn
from attnaudit.report.words import figure, with_interval
from attnaudit.results import About, SummaryRows

QUESTION = "Do measures of importance agree with each other?"
_CAPTION = (
    "Mean over texts for each pair of measures, blue above 0 and orange below. Left: Kendall τ "
    "over all tokens, 1 for the same order, 0 for unrelated orders. Right: share of the most "
    "important quarter of the tokens by one measure that are among the most important quarter by "
    "the other; a random order has {chance}."
)


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word the pairs that agree most and least, by τ."""
    pairs = [(f"{one} and {other}", row) for one, other, row in _pairs(rows, "tau")]
    if len(pairs) < 2 or rows.head is not None:
        return
    pairs.sort(key=lambda pair: -pair[1]["value"])
    (most, best), (least, worst) = pairs[0], pairs[-1]
    said = (
        f"{most} agree most (τ {figure(best['value'])}), {least} least "
        f"(τ {figure(worst['value'])})."
    )
    # The extremes of many pairs are biased outwards: overlapping ends are not called different.
    if best["low"] is None or worst["high"] is None or best["low"] <= worst["high"]:
        said = "none is shown to agree better than another: their intervals overlap."
    yield card_row(
        QUESTION,
        f"largest mean Kendall τ of two measures, {most}",
        best,
        f"least: {least}, τ {with_interval(worst)}",
        f"Of {len(pairs)} pairs of measures {said}",
    )


def summary_figures(rows: SummaryRows) -> Iterator[Figure]:
    """Draw a matrix of measures for each kind of agreement."""
    panels = []
    for kind, title in (("tau", "Kendall τ"), ("precision", "Share of the top quarter in common")):
        pairs = [(one, other, row["value"]) for one, other, row in _pairs(rows, kind)]
        pairs += [(other, one, value) for one, other, value in pairs]
        if pairs:
            cells = pl.DataFrame(pairs, schema=["x", "y", "value"], orient="row").sort("x", "y")
            chart = cell_chart(cells, (-1, 0, 1), cell=(36, 27), numbers=True)
            label = f"{title} of every two measures of importance"
            panels.append(drawn(title, chart, f"agreement-{kind}", label))
    if panels:
        chance = figure(rows.value("agreement", "precision_by_chance"))
        yield Figure("agreement", QUESTION, _CAPTION.format(chance=chance), tuple(panels))


def _pairs(rows: SummaryRows, kind: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the names of two measures and their summary row, of every pair that has a value."""
    for measure, row in rows.family("agreement", f"{kind}_").items():
        if AND in measure:
            one, other = map(name_score, measure.split(AND))
            yield one, other, row


CARD = Card(QUESTION, card_rows, summary_figures=summary_figures)

"""Does the prediction depend on the largest weights? (Serrano & Smith 2019)."""

import polars as pl

from attnaudit.experiments.erasure.curves import COLUMNS, MINIMUM, flip_curves
from attnaudit.report.cards.card import Card, CardRows, card_row
from attnaudit.report.cards.wording import of_head
from attnaudit.report.charts.marks import Scale, line_chart, point_chart
from attnaudit.report.charts.palette import Palette
from attnaudit.report.charts.specs import Drawing, FigureSpec
from attnaudit.report.charts.svg import Drawing as Drawn
from attnaudit.report.words import percent, with_interval
from attnaudit.results import About, SummaryRows

QUESTION = "How many tokens must be removed before the prediction flips?"
_NAMES = {
    "random": "random order",
    "attention": "attention",
    "gradient": "gradient",
    "gradient_attention": "gradient × attention",
    MINIMUM: "smallest set",
}


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word how soon predictions flip in the order of attention."""
    row, never = rows.get("erasure", "area_attention"), rows.value("erasure", "never_attention")
    if row is None or never is None:
        return
    areas = {name: rows.get("erasure", f"area_{name}") for name in (MINIMUM, "random")}
    known = [f"{_NAMES[name]} {with_interval(area)}" for name, area in areas.items() if area]
    possible = rows.value("erasure", f"never_{MINIMUM}")
    sentence = (
        f"Removing tokens{of_head(rows).replace(' of', ' from')} from the attention, the largest "
        f"weight first, flips {percent(1.0 - never)} of predictions"
    )
    if possible is not None:
        sentence += f"; removing the smallest set that can flip them, {percent(1 - possible)}"
    sentence += (
        ". The words stay in the text that the model reads. The area is 0 if no prediction ever "
        "flips and 1 if all flip at once."
    )
    yield card_row(
        QUESTION,
        "area under the flip curve, by attention",
        row,
        ", ".join(known) or "–",
        sentence,
    )


def _curves(rows: pl.DataFrame, palette: Palette) -> Drawn:
    curves = flip_curves(rows, _NAMES).rename({"name": "group"})
    names = tuple(curves["group"].unique(maintain_order=True))
    axes = Scale("share of the tokens removed"), Scale("share of predictions flipped", format=".0%")
    return line_chart(curves, *axes, Palette(names, Palette.RANKINGS))


def _differences(rows: pl.DataFrame, palette: Palette) -> Drawn:
    points = rows.select("group", x="delta_alpha", y="delta_js")
    return point_chart(
        points, Scale("Δα: largest weight minus the other"), Scale("ΔJS", None), palette
    )


_FIGURES = (
    FigureSpec(
        "removal",
        "How much must be removed before the prediction flips?",
        (Drawing(("minimum_proven", *COLUMNS), _curves),),
        "The share of predictions that have flipped once this share of the tokens is removed in "
        "the order of a ranking, with 95 % bands, over all texts of more than one token; those "
        "that never flip stay below. No ranking flips a prediction with fewer tokens than the "
        "smallest set: where that curve is low, the predictions depend on many tokens.",
    ),
    FigureSpec(
        "erasure",
        "Is the largest weight the one that matters?",
        (Drawing(("delta_js", "delta_alpha"), _differences),),
        "Up: how much more the output moves (JSD) without the largest weight than without another, "
        "drawn at random; below 0 the other mattered more. Right: how much larger the largest "
        "weight is. Points far right near 0 mean that a much larger weight matters no more than "
        "another.",
    ),
)
CARD = Card(QUESTION, card_rows, _FIGURES)

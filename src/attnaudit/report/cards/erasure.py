"""Does the prediction depend on the largest weights? (Serrano & Smith 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from attnaudit.core.numbers import count
from attnaudit.experiments.erasure.curves import COLUMNS, MINIMUM, flip_curves
from attnaudit.experiments.verdict import AGAINST, POLICY, removal
from attnaudit.report.cards.card import Axis, Card, CardRow, Claim, card_row
from attnaudit.report.cards.wording import of_head
from attnaudit.report.charts.specs import Crosstab, Curves, FigureSpec, Scale, Scatter
from attnaudit.report.words import figure, percent, with_interval
from attnaudit.results.about import About
from attnaudit.results.summary import SummaryRows

QUESTION = "How many tokens must be removed before the prediction flips?"
_NAMES = {
    "random": "random order",
    "attention": "attention",
    "gradient": "gradient",
    "gradient_attention": "gradient × attention",
    MINIMUM: "smallest set",
}
_REMOVING = "removing tokens from the attention, the largest weight first,"
_LATER = f"{_REMOVING} is not shown to flip predictions almost as soon as possible"


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Word how soon predictions flip in the order of attention."""
    row, absent = (rows.get("erasure", f"{kind}_attention") for kind in ("area", "never"))
    if row is None or absent is None:
        return
    known = {
        _NAMES[name]: found
        for name in (MINIMUM, "random")
        if (found := rows.get("erasure", f"area_{name}")) is not None
    }
    least = known.get("smallest set")
    compared = ", ".join(f"{name} {with_interval(one)}" for name, one in known.items())
    yield card_row(
        QUESTION,
        "area under the flip curve, by attention",
        row,
        compared or "–",
        _sentence(row, absent, rows),
        axis=Axis(mark=None if least is None else float(least["value"])),
        claim=_claim(rows),
    )


def _claim(rows: SummaryRows) -> Claim:
    finding = removal(rows)
    clause = f"{_REMOVING} flips predictions almost as soon as possible"
    if finding is None or finding.side != AGAINST:
        return Claim(finding, clause)
    sooner = "no sooner than a random order does"
    clause = sooner if finding.code == "no_sooner" else "later than necessary"
    return Claim(finding, f"{_REMOVING} flips predictions {clause}", _LATER)


def _sentence(row: Mapping[str, Any], absent: Mapping[str, Any], rows: SummaryRows) -> str:
    finding = removal(rows)
    never, lost, gain = (
        rows.value("erasure", name)
        for name in (f"never_{MINIMUM}", "exhausted_attention", "gain_attention")
    )
    text = (
        f"Removing tokens{of_head(rows).replace(' of', ' from')} from the attention, the largest "
        f"weight first, flips {percent(1.0 - absent['value'])} of predictions"
    )
    if never is not None:
        text += f"; removing the smallest set of tokens that does flips {percent(1.0 - never)}"
    text += ". The words stay in the text that the model reads."
    areas = [rows.value("erasure", f"area_{name}") for name in ("random", MINIMUM)]
    if None in areas:
        return text
    chance, least = map(figure, areas)
    text += (
        " Area under the flip curve, from 0 (none ever flips) to 1 (all flip at once): random "
        f"order {chance}, smallest set {least}, attention {figure(row['value'])}"
    )
    if gain is not None:
        possible = f"{percent(gain)} of the possible gain over chance"
        text += f", {possible}" if gain > 0 else ", no better than chance"
    text += "."
    if lost:
        text += (
            f" For {percent(lost)} no weight is left before a flip; their later flips are "
            "estimated from the others."
        )
    if finding is not None and finding.code == "few_flip":
        text += (
            f" No conclusion: it is not shown that {percent(POLICY.flips)} of predictions, or "
            "more, can flip at all."
        )
    return text


def _removal_caption(rows: pl.DataFrame) -> str:
    proven = rows["minimum_proven"].mean()
    shown = f" (proven for {percent(proven)})" if isinstance(proven, float) else ""
    return (
        "The share of predictions that have flipped once this share of the tokens is removed in "
        f"the order of a ranking, with 95 % bands, over {count(rows.height, 'instance')} of more "
        "than one token; those that never flip stay below. No ranking flips a prediction with "
        f"fewer tokens than the smallest set{shown}: where that curve is low, the predictions "
        "depend on many tokens."
    )


def _one_caption(rows: pl.DataFrame) -> str:
    known = rows["delta_js"].count()
    note = ""
    if excluded := rows.height - known:
        instances = count(excluded, "instance")
        note = f" Excluded: {instances} with one token, or with all weight on one."
    if known == 0:
        return f"Undefined for every instance.{note}"
    return (
        "How much more the output moves (JSD) without the largest weight than without one drawn at "
        "random from the others, by how much larger it is; below 0 the other weight mattered more. "
        "Right: whether each removal flips the prediction. Points near 0 far to the right would "
        f"mean that a much larger weight matters no more than another.{note}"
    )


_FIGURES = (
    FigureSpec(
        "removal",
        "How much must be removed before the prediction flips?",
        (
            Curves(
                COLUMNS,
                lambda rows: flip_curves(rows, _NAMES),
                Scale("share of the tokens removed"),
                "share of predictions flipped",
            ),
        ),
        _removal_caption,
        reads=("minimum_proven",),
        of=lambda rows: rows.filter(pl.col("minimum_proven").is_not_null()),
    ),
    FigureSpec(
        "erasure",
        "Is the largest weight the one that matters?",
        (
            Scatter(
                "delta_alpha",
                "delta_js",
                "Δα: largest weight minus the other",
                "ΔJS",
                "One weight against another",
            ),
            Crosstab(
                "flip_max",
                "flip_random",
                "without the largest",
                "without the other",
                ("flips", "does not"),
                "Whose removal flips the prediction",
            ),
        ),
        _one_caption,
    ),
)
CARD = Card(QUESTION, card_rows, _FIGURES)

"""Does the prediction depend on the largest weights? (Serrano & Smith 2019)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from attnaudit.core.numbers import count
from attnaudit.experiments.erasure.curves import (
    COLUMNS,
    MINIMUM,
    flip_curves,
)
from attnaudit.report.cards.card import Card
from attnaudit.report.cards.wording import of_kept_words
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import Crosstab, Curves, FigureSpec, Scale, Scatter
from attnaudit.results.words import figure, interval, percent
from attnaudit.stats.inference import FEWEST

QUESTION = "How many tokens must be removed before the prediction flips?"

NEARLY = 0.8  # of the area that the smallest set has above a random order: from here on attention is supported


_NAMES = {
    "random": "random order",
    "attention": "attention",
    "gradient": "gradient",
    "gradient_attention": "gradient × attention",
    MINIMUM: "smallest set",
}


_REMOVAL = Curves(
    COLUMNS,
    lambda rows: flip_curves(rows, _NAMES),
    Scale("share of the tokens removed"),
    "share of predictions flipped",
)


def _removal_caption(rows: pl.DataFrame) -> str:
    proven = rows["minimum_proven"].mean()
    shown = f" (proven for {percent(proven)})" if isinstance(proven, float) else ""
    return (
        "The share of predictions that have flipped once this share of the tokens is removed in the order of a ranking, with 95 % bands, "
        f"over {count(rows.height, 'instance')} of more than one token; those that never flip stay below. No ranking flips a prediction "
        f"with fewer tokens than the smallest set{shown}: where that curve is low, the predictions depend on many tokens."
    )


def _one_caption(rows: pl.DataFrame) -> str:
    known = rows.filter(pl.col("delta_js").is_not_null())
    excluded = rows.height - known.height
    note = (
        f" Excluded: {count(excluded, 'instance')} with one token, or with all weight on one."
        if excluded
        else ""
    )
    if known.height == 0:
        return f"Undefined for every instance.{note}"
    return (
        "How much more the output moves (JSD) without the largest weight than without one drawn at random from the others, by how much "
        "larger it is; below 0 the other weight mattered more. Right: whether each removal flips the prediction. Points near 0 far to the "
        f"right would mean that a much larger weight matters no more than another.{note}"
    )


def _flips(absent: Mapping[str, Any], rows: SummaryRows) -> str:
    least = rows.value("erasure", f"never_{MINIMUM}")
    most = (
        ""
        if least is None
        else f"; removing the smallest set of tokens that does flips {percent(1.0 - least)}"
    )
    head = rows.of_head.replace(" of", " from")
    return (
        f"Removing tokens{head} from the attention, the largest weight first, flips {percent(1.0 - absent['value'])} of predictions{most}. "
        "The words stay in the text that the model reads."
    )


def _compared(rows: SummaryRows) -> str:
    """How soon attention, the smallest set and a random order flip; nothing of a summary written before there were areas."""
    row, least, chance, gain = (
        rows.value("erasure", name)
        for name in ("area_attention", "area_minimum", "area_random", "gain_attention")
    )
    lost = rows.value("erasure", "exhausted_attention")
    if row is None or least is None or chance is None:
        return ""
    way = (
        ""
        if gain is None
        else f", {percent(gain)} of the possible gain over chance"
        if gain > 0
        else ", no better than chance"
    )
    used = (
        f" For {percent(lost)} no weight is left before a flip; their later flips are estimated from the others."
        if lost
        else ""
    )
    return (
        f" Area under the flip curve, from 0 (none ever flips) to 1 (all flip at once): random order {figure(chance)}, smallest set "
        f"{figure(least)}, attention {figure(row)}{way}.{used}"
    )


_REMOVING = "removing tokens from the attention, the largest weight first,"


_LATER = f"{_REMOVING} is not shown to flip predictions almost as soon as possible"


def _claim(rows: SummaryRows) -> Claim | None:
    better, least, gain = (
        rows.get("erasure", name)
        for name in ("area_attention_minus_area_random", "never_minimum", "gain_attention")
    )
    if (
        better is None
        or least is None
        or gain is None
        or better["n"] < FEWEST
        or least["value"] == 1.0
    ):
        return None
    share = gain["low"], gain["high"]
    if better["high"] is not None and better["high"] <= 0:
        return Claim(
            False,
            f"{_REMOVING} flips predictions no sooner than a random order does",
            _LATER,
            share,
        )
    if better["low"] is None or better["low"] <= 0:
        return Claim(
            False,
            f"{_REMOVING} is not shown to flip predictions sooner than a random order does",
            _LATER,
            share,
        )
    if gain["value"] >= NEARLY:
        return Claim(
            True, f"{_REMOVING} flips predictions almost as soon as possible", decided=share
        )
    return Claim(False, f"{_REMOVING} flips predictions later than necessary", _LATER, share)


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    row, absent = (rows.get("erasure", f"{kind}_attention") for kind in ("area", "never"))
    if absent is None:
        return
    kind, label, what = "area", "area under the flip curve", "Mean area"
    if row is None:
        kind, label, what = "never", "share that never flips", "Share that never flips"
    known = {
        "smallest set": rows.get("erasure", f"{kind}_{MINIMUM}"),
        "random order": rows.get("erasure", f"{kind}_random"),
    }
    compared = ", ".join(
        f"{name} {figure(one['value'])} {interval(one)}" for name, one in known.items() if one
    )
    least = known["smallest set"]
    yield card_row(
        QUESTION,
        f"{label}, by attention",
        row or absent,
        compared or "–",
        _flips(absent, rows)
        + _compared(rows)
        + rows.apart("erasure", f"{kind}_attention", what)
        + of_kept_words(rows),
        mark=None if least is None else float(least["value"]),
        claim=_claim(rows),
    )


CARD = Card(
    question=QUESTION,
    rows=card_rows,
    figures=(
        FigureSpec(
            "removal",
            "How much must be removed before the prediction flips?",
            (_REMOVAL,),
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
    ),
)

"""The row of the verdict card that says where a model is among the constructions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnaudit.calibration import CONSTRUCTIONS
from attnaudit.calibration.degree import Degree, Standing, standing
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, SummaryRows, card_row
from attnaudit.results.words import figure, interval
from attnaudit.stats.inference import FEWEST

QUESTION = "Is it closer to models with faithful or with unfaithful attention?"
MEASURE = (
    "degree: 0 like the unfaithful constructions, 1 like the faithful ones; bracket: constructions drawn again, each measure at the "
    "ends of its own interval"
)


def standing_row(rows: SummaryRows, about: About, degree: Degree | None) -> CardRow | None:
    """The row of a classifier of two classes with one attention a text; None for other models, where there is no degree, and where one of
    its measures is of fewer than `FEWEST` instances.

    The constructions are such classifiers: of others nothing is known.
    """
    if degree is None or not is_of_a_calibrated_kind(rows, about):
        return None
    if any(
        (rows.instances(experiment, measure) or 0) < FEWEST
        for experiment, measure, _ in degree.measures
    ):
        return None
    ends = {
        key: (row["low"], row["high"])
        for key, row in rows.rows.items()
        if None not in (row["low"], row["high"])
    }
    found = standing(degree, {key: float(row["value"]) for key, row in rows.rows.items()}, ends)
    if found is None:
        return None
    row = {
        "value": found.degree,
        "low": found.low,
        "high": found.high,
        "experiment": "calibration",
        "measure": "degree",
    }
    return card_row(
        QUESTION, MEASURE, row, _between(found), f"{_judgement(found)}{_quality(degree)}"
    )


def is_of_a_calibrated_kind(rows: SummaryRows, about: About) -> bool:
    """Whether the constructions are models like this one: classifiers of two classes with one attention a text. False where that is
    unknown."""
    one_a_text = rows.audited is None and all(
        row.get("texts") in (None, row["n"]) for row in rows.rows.values()
    )
    return one_a_text and about.has_two_classes and not about.translates and not about.has_question


def _between(found: Standing) -> str:
    """The titles of the constructions next to it."""
    below, above = (
        CONSTRUCTIONS[name].title if name in CONSTRUCTIONS else name
        for name in (found.below, found.above)
    )
    if below and above:
        return f"between “{below}” and “{above}”"
    return (
        f"above all constructions; nearest: “{below}”"
        if below
        else f"below all constructions; nearest: “{above}”"
    )


def _judgement(found: Standing) -> str:
    if found.truth is None:
        return f"No judgement: {found.reason}."
    return f"The nearest models are {found.truth} by construction."


def _quality(degree: Degree) -> str:
    """How well the degree does where it was not fitted."""
    held = degree.held or {}
    if held.get("auc") is None:
        return ""
    ranked, right = (
        _share(held, "auc", "low", "high", "of the pairs"),
        _share(held, "right", "right_low", "right_high", "of the cases that it judges"),
    )
    judgement = right and f"; the judgement by the nearest models is right in {right}"
    return (
        f" On held-out constructions the degree ranks a faithful model above an unfaithful one in {ranked}{judgement}. A faithful and an "
        "unfaithful model can leave the same trace."
    )


def _share(held: Mapping[str, Any], value: str, low: str, high: str, of: str) -> str:
    """With its interval, and whether it is shown to be better than a toss; empty where there is none."""
    if held.get(value) is None:
        return ""
    ends = interval({"low": held.get(low), "high": held.get(high)})
    shown = "" if (held.get(low) or 0.0) > 0.5 else ", which is not shown to be better than chance"
    return f"{figure(held[value])} {ends and f'{ends} '}{of}{shown}"

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
    if any((rows.instances(experiment, measure) or 0) < FEWEST for experiment, measure, _ in degree.measures):
        return None
    ends = {key: (row["low"], row["high"]) for key, row in rows.rows.items() if None not in (row["low"], row["high"])}
    found = standing(degree, {key: float(row["value"]) for key, row in rows.rows.items()}, ends)
    if found is None:
        return None
    row = {"value": found.degree, "low": found.low, "high": found.high, "experiment": "calibration", "measure": "degree"}
    return card_row(QUESTION, MEASURE, row, _between(found), f"{_judgement(found)}{_quality(degree)}")


def is_of_a_calibrated_kind(rows: SummaryRows, about: About) -> bool:
    """Whether the constructions are models like this one: classifiers of two classes with one attention a text. False where that is
    unknown."""
    one_a_text = rows.audited is None and all(row.get("texts") in (None, row["n"]) for row in rows.rows.values())
    return one_a_text and about.has_two_classes and not about.translates and not about.has_question


def _between(found: Standing) -> str:
    """The titles of the constructions next to it."""
    below, above = (CONSTRUCTIONS[name].title if name in CONSTRUCTIONS else name for name in (found.below, found.above))
    if below and above:
        return f"between “{below}” and “{above}”"
    return f"above all constructions; nearest: “{below}”" if below else f"below all constructions; nearest: “{above}”"


def _judgement(found: Standing) -> str:
    if found.truth is None:
        return f"No judgement: {found.reason}."
    return f"The nearest models are {found.truth} by construction."


def _quality(degree: Degree) -> str:
    """How well the degree does where it was not fitted."""
    held = degree.held or {}
    if held.get("auc") is None:
        return ""
    ends = interval(held)
    return (
        f" On held-out constructions the degree ranks a faithful model above an unfaithful one in {figure(held['auc'])} of the pairs"
        f"{ends and f' {ends}'}{_rightness(held)}. A faithful and an unfaithful model can leave the same trace."
    )


def _rightness(held: Mapping[str, Any]) -> str:
    """How often the judgement by the nearest models is right, and whether that is shown to be better than a toss."""
    right, low = held.get("right"), held.get("right_low")
    if right is None:
        return ""
    ends = interval({"low": low, "high": held.get("right_high")})
    shown = "" if low is not None and low > 0.5 else ", which is not shown to be better than chance"
    return f"; the judgement by the nearest models is right in {figure(right)} of the cases that it judges{ends and f' {ends}'}{shown}"

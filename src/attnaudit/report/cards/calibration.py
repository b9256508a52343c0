"""Place of a model among those of known truth, and how well measures tell these apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnaudit.calibration.degree import Degree, standing
from attnaudit.calibration.separation import Separation
from attnaudit.report.cards.card import CardRow, card_row
from attnaudit.report.words import figure, interval
from attnaudit.results.about import About
from attnaudit.results.summary import SummaryRows
from attnaudit.stats.inference import FEWEST

QUESTION = "Is it closer to models with faithful or with unfaithful attention?"
MEASURE = (
    "degree: 0 like the unfaithful constructions, 1 like the faithful ones; bracket: constructions "
    "drawn again, each measure at the ends of its own interval"
)
NOTE = (
    "AUC: the share of pairs in which the figure that decides a row ranks a model whose attention "
    "is faithful by construction above one whose attention is not, 0.5 by chance. It was measured "
    "on classifiers of two classes with one attention, of as many faithful × unfaithful "
    "constructions as have the measure; brackets: 95 % interval over constructions."
)


def is_of_a_calibrated_kind(rows: SummaryRows, about: About) -> bool:
    """Tell whether the constructions are models like this one; False if that is unknown.

    They are classifiers of two classes with one attention a text. Of others nothing is known.
    """
    # With several rows a text, or several attentions, the measures mean something else.
    one_a_text = rows.audited is None and all(
        row.get("texts") in (None, row["n"]) for row in rows.rows.values()
    )
    return one_a_text and about.has_two_classes and not about.translates and not about.has_question


def separates(known: Separation | None) -> str:
    """Say how well a measure tells faithful from unfaithful models; empty if unknown."""
    if known is None or known.auc is None:
        return ""
    auc = f"AUC {figure(known.auc)} [{figure(known.low)}, {figure(known.high)}]"
    pairs = f"({known.faithful} × {known.unfaithful})"
    return f"tells faithful from unfaithful models with {auc} {pairs}"


def standing_row(rows: SummaryRows, about: About, degree: Degree | None) -> CardRow | None:
    """Make the row of a model that is like the constructions, with enough texts; else None."""
    if degree is None or not is_of_a_calibrated_kind(rows, about):
        return None
    needed = [(experiment, measure) for experiment, measure, _ in degree.measures]
    if any((rows.instances(*key) or 0) < FEWEST for key in needed):
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
    judgement = f"The nearest models are {found.truth} by construction."
    if found.truth is None:
        judgement = f"No judgement: {found.reason}."
    return card_row(QUESTION, MEASURE, row, "", f"{judgement}{_quality(degree)}")


def _quality(degree: Degree) -> str:
    """Say how well the degree does on constructions that it was not fitted on."""
    held = degree.held or {}
    if held.get("auc") is None:
        return ""
    ranked = _share(held, "auc", ("low", "high"), "of the pairs")
    right = _share(held, "right", ("right_low", "right_high"), "of the cases that it judges")
    judgement = f"; the judgement by the nearest models is right in {right}" if right else ""
    return (
        " On held-out constructions the degree ranks a faithful model above an unfaithful one in "
        f"{ranked}{judgement}. A faithful and an unfaithful model can leave the same trace."
    )


def _share(held: Mapping[str, Any], value: str, ends: tuple[str, str], of: str) -> str:
    """Write a share with its interval, and say if it is not shown to be better than a toss."""
    if held.get(value) is None:
        return ""
    low, high = (held.get(end) for end in ends)
    shown = "" if (low or 0.0) > 0.5 else ", which is not shown to be better than chance"
    bracket = interval({"low": low, "high": high})
    return f"{figure(held[value])} {f'{bracket} ' if bracket else ''}{of}{shown}"

"""AUCs of measures on models of known truth, and a check that a model resembles these."""

from __future__ import annotations

from attnaudit.calibration.separation import Separation
from attnaudit.report.words import figure
from attnaudit.results.about import About
from attnaudit.results.summary import SummaryRows

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

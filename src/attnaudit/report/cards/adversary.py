"""How different can attention be while the output stays the same? (Jain & Wallace 2019)."""

from __future__ import annotations

from collections.abc import Iterator

from attnaudit.experiments.findings import FOR, furthest
from attnaudit.report.cards.card import Axis, Card, CardRow, Claim, card_row
from attnaudit.report.charts.specs import FigureSpec, Histogram, Scale, Violins
from attnaudit.report.words import difference, figure
from attnaudit.results.about import About
from attnaudit.results.summary import SummaryRows
from attnaudit.stats.measures import LN2

QUESTION = "How different can attention be with nearly the same output?"
_SEEN_GAP = 5e-4  # a bound closer than this has the same three decimals as the figure


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Word the divergence of the most different attention found."""
    row, upper = rows.get("adversary", "emax_jsd"), rows.value("adversary", "emax_jsd_upper")
    if row is None:
        return
    finding, differs = furthest(rows), difference(row["value"])
    loose = upper is not None and upper - row["value"] > _SEEN_GAP
    possible = "nearly the same output is possible"
    claim = Claim(
        finding,
        f"{possible} with weights that differ from its own {differs}",
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
        f"A search found attention weights that differ from the model's own {differs} on average "
        f"and keep the output {within_epsilon(about, 'adversary')} of the original. That they "
        "exist does not mean that training would find them (Wiegreffe & Pinter 2019).",
        axis=Axis(mark=upper if loose else LN2, ends=(0.0, LN2), places=3),
        claim=claim,
    )


def within_epsilon(about: About, experiment: str) -> str:
    """Say how much the output may change: ``within ε = 0.01``."""
    epsilon = about.setting(experiment, "epsilon")
    return f"within ε = {epsilon:g}" if isinstance(epsilon, int | float) else "within ε"


_CAPTION = (
    "Jensen–Shannon divergence from the model's own attention to the most different attention "
    "found whose output stays within ε, at most ln 2. The farther right, the less the output "
    "determines the weights; low values in the lower rows would mean that peaked attention cannot "
    "be replaced."
)
_AXIS = Scale("ε-max JSD", LN2)
_CHARTS = (
    Histogram("emax_jsd", _AXIS, upper="emax_jsd_upper"),
    Violins("emax_jsd", _AXIS, "By the largest weight"),
)
CARD = Card(QUESTION, card_rows, (FigureSpec("emax", QUESTION, _CHARTS, _CAPTION),))

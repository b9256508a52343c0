"""Does the output change when attention weights are shuffled? (Jain & Wallace 2019)."""

from __future__ import annotations

from collections.abc import Iterator

from attnaudit.experiments.findings import FOR, HIGH, LOW, POLICY, shuffling
from attnaudit.report.cards.card import Axis, Card, CardRow, Claim, card_row
from attnaudit.report.cards.wording import of_head
from attnaudit.report.charts.specs import FigureSpec, Scale, Violins
from attnaudit.report.words import amount, degree, figure
from attnaudit.results.about import About
from attnaudit.results.summary import SummaryRows

QUESTION = "How much does shuffling attention change the output?"
# Steps of about three; the third ends where the verdict says that weights matter.
_CHANGES = (
    (0.01, "hardly changes"),
    (0.05, "changes a little"),
    (0.15, "changes moderately"),
    (0.3, "changes clearly"),
)
_CAPTION = (
    "Median change of the output over random shuffles of the weights, by the largest weight of the "
    "instance. Peaked attention (lower rows) that can be "
    "shuffled without effect (left) would not point at what the output depends on."
)
_MEANINGS = {
    HIGH: "; the output depends on which token has which weight",
    LOW: (
        f"; below {POLICY.matters:g}, a limit chosen for this card, the output is said to depend "
        "little on which token has which weight"
    ),
}


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Word the change of the output."""
    row, finding = rows.get("permutation", "median_delta_y"), shuffling(rows)
    if row is None or finding is None:
        return
    change, limit = row["value"], POLICY.matters
    peak = rows.value("permutation", "max_alpha")
    meaning = _MEANINGS.get(finding.code, "")
    if finding.code == "flat":
        weights = "" if peak is None else f" (largest {figure(peak)} on average)"
        meaning = f"; with weights close to uniform{weights} any shuffle changes little"
        meaning += ": no conclusion"
    sentence = (
        f"When the attention weights{of_head(rows)} are shuffled among the tokens, the output "
        f"{degree(_CHANGES, change, 'changes strongly')} (mean change of probability "
        f"{figure(change, 3)}){meaning}."
    )
    large = finding.side == FOR
    changes = f"shuffling the weights{of_head(rows)} changes its output by"
    only = "" if large or change < 0.0005 else "only "
    general = f"{changes} {f'{limit:g} or more' if large else f'less than {limit:g}'}"
    peaked = "" if peak is None else f"mean largest weight {figure(peak)}; "
    yield card_row(
        QUESTION,
        "mean of the median Δŷ",
        row,
        f"{peaked}0: no change, 1: from one certain prediction to another",
        sentence,
        axis=Axis(places=3),
        claim=Claim(finding, f"{changes} {only}{amount(change, 3)}", general),
    )


_CHART = Violins("median_delta_y", Scale("median Δŷ under shuffling", None))
_TITLE = "Does the output change when attention is shuffled?"
CARD = Card(QUESTION, card_rows, (FigureSpec("permutation", _TITLE, (_CHART,), _CAPTION),))

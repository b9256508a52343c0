"""How much can attention change the output at all?"""

from attnaudit.experiments.findings import largest_change
from attnaudit.experiments.maximal_change.experiment import PROVEN_GAP
from attnaudit.report.cards.card import Card, CardRows, card_row
from attnaudit.report.cards.wording import heads, of_head
from attnaudit.report.charts.specs import FigureSpec, Histogram, Scale
from attnaudit.report.words import figure, name_head, percent, with_interval
from attnaudit.results import About, SummaryRows

QUESTION = "How much can attention change the output at all?"
_NAME = "maximal_change"


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word the largest change found."""
    row, shuffled = rows.get(_NAME, "max_delta_y"), rows.get("permutation", "median_delta_y")
    if row is None:
        return
    upper, flips = (rows.value(_NAME, name) for name in ("max_delta_y_upper", "flips"))
    matched = rows.value(_NAME, "matched_max_delta_y_upper")
    loose = upper is not None and upper - row["value"] > PROVEN_GAP
    bound = f" (mean upper bound {figure(upper, 3)})" if loose else ""
    flipped = "" if flips is None else f"; some weights flip {percent(flips)} of the predictions"
    if matched is not None:
        flipped += f". From 90 %, no weights change it by more than {figure(matched, 3)} on average"
    compared = "" if shuffled is None else f"shuffled weights {with_interval(shuffled, 3)}; "
    yield card_row(
        QUESTION,
        "mean largest Δŷ found",
        row,
        f"{compared}1: from one certain prediction to another",
        f"{_by_head(rows)}A search found weights{of_head(rows)} that change the output by "
        f"{figure(row['value'], 3)} on average{bound}{flipped}. A large change does not show "
        "that the model's own weights are right.",
        places=3,
        finding=largest_change(rows),
    )


def _by_head(rows: SummaryRows) -> str:
    """Count the heads that were found to flip a decision; others may be able to."""
    flips = rows.heads(_NAME, "flips")
    able = {head: row for head, row in flips.items() if row["value"] > 0}
    if not able:
        none = f"None of {heads(rows)} was found to flip the decision of any text. "
        return none if flips else ""
    head, row = max(able.items(), key=lambda one: one[1]["value"])
    ends = "" if row["low"] is None else f" [{percent(row['low'])}, {percent(row['high'])}]"
    return (
        f"{len(able)} of {heads(rows)} can flip the decision of some text; the strongest, "
        f"{name_head(head)}, flips {percent(row['value'])}{ends} of the texts. "
    )


_CAPTION = (
    "Largest total variation distance between the output and the output under another attention, "
    "found by a search: all attention on one token, or a mixture of few. Where it is small, the "
    "weights cannot matter much to the output."
)
_CHART = Histogram("max_delta_y", Scale("largest Δŷ found"))
_FIGURE = FigureSpec("maximal-change", QUESTION, (_CHART,), _CAPTION)
CARD = Card(QUESTION, card_rows, (_FIGURE,))

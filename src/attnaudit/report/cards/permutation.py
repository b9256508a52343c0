"""Does the output change when attention weights are shuffled? (Jain & Wallace 2019)."""

from attnaudit.experiments.findings import FOR, POLICY, shuffling
from attnaudit.report.cards.card import Card, CardRows, card_row
from attnaudit.report.cards.wording import left_out, of_head
from attnaudit.report.charts.specs import FigureSpec, Scale, Violins
from attnaudit.report.words import degree, figure, with_interval
from attnaudit.results import About, SummaryRows

QUESTION = "How much does shuffling attention change the output?"
_CHANGES = (
    (0.01, "hardly changes"),
    (0.05, "changes a little"),
    (POLICY.matters, "changes moderately"),
    (0.3, "changes clearly"),
)
_CAPTION = (
    "Median change of the output over random shuffles of the weights, by the largest weight of the "
    "text. If peaked attention (lower rows) can be shuffled without effect (left), it does not "
    "point at what the output depends on."
)


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word the change of the output, from 90 % confidence if that is known."""
    plain, matched = (rows.get("permutation", f"{name}_delta_y") for name in ("median", "matched"))
    row, finding = matched or plain, shuffling(rows)
    if row is None:
        return
    change, meaning = row["value"], ""
    if finding is not None and finding.code == "flat":
        meaning = "; with weights close to uniform any shuffle changes little: no conclusion"
    elif finding is not None and finding.side:
        depends = "depends" if finding.side == FOR else "depends little"
        meaning = f"; the output {depends} on which token has which weight"
    output = "a prediction of 90 %" if matched else "the output"
    sentence = (
        f"When the attention weights{of_head(rows)} are shuffled among the tokens, {output} "
        f"{degree(_CHANGES, change, 'changes strongly')} (mean change of probability "
        f"{figure(change, 3)}){meaning}.{left_out(rows)}"
    )
    as_it_is = (
        f"at the model's own confidence {with_interval(plain, 3)}; " if matched and plain else ""
    )
    yield card_row(
        QUESTION,
        f"mean of the median Δŷ{', from 90 % confidence' if matched else ''}",
        row,
        f"{as_it_is}0: no change, 1: from one certain prediction to another",
        sentence,
        places=3,
        finding=finding,
    )


_CHART = Violins("median_delta_y", Scale("median Δŷ under shuffling", None))
_TITLE = "Does the output change when attention is shuffled?"
CARD = Card(
    QUESTION,
    card_rows,
    (FigureSpec("permutation", _TITLE, (_CHART,), _CAPTION),),
    plain="Shuffled weights change the answer",
    shows={
        "matched_delta_y": "Change of a probability of 0.9 when the weights are shuffled among "
        f"the words; the limit is {POLICY.matters:g}.",
        "median_delta_y": "Change of the output when the weights are shuffled among the words, "
        "from 0 to 1.",
    },
)

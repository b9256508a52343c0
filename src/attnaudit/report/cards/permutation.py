"""Does the output change when the attention weights are shuffled? (Jain & Wallace 2019, Algorithm 2)"""

from __future__ import annotations

from collections.abc import Iterator

from attnaudit.report.cards.card import Card
from attnaudit.report.cards.wording import of_kept_words
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import FigureSpec, Scale, Violins
from attnaudit.results.words import amount, degree, figure, interval

QUESTION = "How much does shuffling attention change the output?"

MATTERS = 0.15  # a change of probability from which on the output is said to depend on which token has which weight


FLAT = 0.25  # a mean largest weight, the paper's lowest bin, below which shuffled attention is much like the model's own


_CHANGES = (
    (0.01, "hardly changes"),
    (0.05, "changes a little"),
    (0.15, "changes moderately"),
    (0.3, "changes clearly"),
)


_CAPTION = (
    "Median change of the output over random shuffles of the weights, by the largest weight of the instance. Dots are medians, bars "
    "quartiles. Peaked attention (lower rows) that can be shuffled without effect (left) would not point at what the output depends on."
)


def _claim(change: float, peak: float | None, of_head: str) -> Claim | None:
    if change < MATTERS and peak is not None and peak < FLAT:
        return None
    matters = change >= MATTERS
    only = "" if matters or change < 0.0005 else "only "
    changes, limit = (
        f"shuffling the weights{of_head} changes its output by",
        f"{MATTERS:g} or more" if matters else f"less than {MATTERS:g}",
    )
    return Claim(matters, f"{changes} {only}{amount(change, 3)}", f"{changes} {limit}")


def _meaning(change: float, peak: float | None) -> str:
    """What such a change of probability under shuffling means, where the largest weight is ``peak`` on average."""
    if change < MATTERS and peak is not None and peak < FLAT:
        return f"with weights this close to uniform (largest {peak:.2f} on average) any shuffle changes little: no conclusion"
    if change < MATTERS:
        return f"below {MATTERS:g}, a limit chosen for this card, the output is said to depend little on which token has which weight"
    return "the output depends on which token has which weight"


def _among_words(rows: SummaryRows) -> str:
    words = rows.value("permutation", "median_delta_y_words")
    return (
        ""
        if words is None
        else f" Where special tokens keep their weights the change is {figure(words, 3)}."
    )


def _retrained(rows: SummaryRows) -> str:
    """What a model retrained with uniform attention loses, where a study of that is there."""
    row = rows.get("uniform", "difference_f1_uniform")
    return (
        ""
        if row is None
        else f" Retrained with uniform attention, F1 changes by {figure(row['value'])} {interval(row)}."
    )


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    row, peak = (
        rows.get("permutation", "median_delta_y"),
        rows.value("permutation", "max_alpha"),
    )
    if row is None:
        return
    sentence = (
        f"When the attention weights{rows.of_head} are shuffled among the tokens, the output "
        f"{degree(_CHANGES, row['value'], 'changes strongly')} (mean change of probability {figure(row['value'], 3)}); "
        f"{_meaning(row['value'], peak)}."
        f"{_among_words(rows)}{rows.apart('permutation', 'median_delta_y', 'Mean change', 3)}{_retrained(rows)}{of_kept_words(rows)}"
    )
    peaked = "" if peak is None else f"mean largest weight {figure(peak)}; "
    yield card_row(
        QUESTION,
        "mean of the median Δŷ",
        row,
        f"{peaked}0: no change, 1: from one certain prediction to another",
        sentence,
        places=3,
        claim=_claim(row["value"], peak, rows.of_head),
    )


CARD = Card(
    question=QUESTION,
    rows=card_rows,
    figures=(
        FigureSpec(
            "permutation",
            "Does the output change when attention is shuffled?",
            (Violins("median_delta_y", Scale("median Δŷ under shuffling"), fit=True),),
            _CAPTION,
        ),
    ),
)

"""How much attention could, and how much must, each token have for nearly the same output?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attnaudit.report.cards.adversary import within_epsilon
from attnaudit.report.cards.card import Card, CardRow, card_row
from attnaudit.report.charts.specs import FigureSpec, Histogram, Scale, Violins
from attnaudit.report.words import figure, percent
from attnaudit.results.about import About
from attnaudit.results.summary import SummaryRows

QUESTION = "How much attention could, and must, each token have with nearly the same output?"
_SEEN_GAP = 5e-3  # a bound closer than this has the same two decimals as the figure


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Word the weights that tokens could have and must have."""
    row = rows.get("ranges", "mean_possible")
    upper = rows.value("ranges", "mean_possible_upper")
    if row is None or upper is None:
        return
    # With exact programs both ends are one number, and "at least" would be wrong.
    loose = upper - row["value"] > _SEEN_GAP
    some, most = (rows.value("ranges", f"any_necessary{end}") or 0.0 for end in ("", "_upper"))
    least, kept = (rows.value("ranges", f"top_necessary{end}") or 0.0 for end in ("_lower", ""))
    sentence = (
        f"With the output {within_epsilon(about, 'ranges')} of the original, the average token "
        f"can have {'at least ' if loose else ''}{figure(row['value'])} of the attention. In "
        f"{_between(some, most, percent)} of the {rows.unit}s some token must have a weight above "
        f"0; the most attended token must keep {_between(least, kept, figure)} on average."
    )
    yield card_row(
        QUESTION,
        f"mean possible weight{', found' if loose else ''}",
        row,
        (f"at most {figure(upper)} (upper bound); " if loose else "")
        + "1: any token could have all attention",
        sentence,
    )


def _between(low: float, high: float, text: Callable[[float], str]) -> str:
    """Write a number, or the ends between which it lies if these look different."""
    return text(low) if text(low) == text(high) else f"{text(low)} to {text(high)}"


_CAPTION = (
    "Share of the attention that a token could have with the output within ε, mean over the tokens "
    "of a text. At 1 the output says nothing about the weights; the farther left, the more it "
    "determines them."
)
_AXIS = Scale("mean possible weight")
_CHARTS = (
    Histogram("mean_possible", _AXIS, upper="mean_possible_upper"),
    Violins("mean_possible", _AXIS, "By the largest weight"),
)
CARD = Card(
    QUESTION,
    card_rows,
    (FigureSpec("ranges", QUESTION, _CHARTS, _CAPTION),),
    plain="The answer fixes the weights",
    shows={
        "mean_possible": "Attention that the average word can have with nearly the same answer."
    },
)

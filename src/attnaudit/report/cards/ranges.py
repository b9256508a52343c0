"""How much attention could, and how much must, each token have for nearly the same output?"""

from attnaudit.report.cards.adversary import within_epsilon
from attnaudit.report.cards.card import Card, CardRows, card_row
from attnaudit.report.charts.specs import FigureSpec, Histogram, Scale, Violins
from attnaudit.report.words import figure, percent
from attnaudit.results import About, SummaryRows

QUESTION = "How much attention could, and must, each token have with nearly the same output?"


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word the weights that tokens could have and must have."""
    known = rows.all_of("ranges", "mean_possible", "top_necessary", "any_necessary")
    if not known:
        return
    row, kept, some = known
    yield card_row(
        QUESTION,
        "mean possible weight",
        row,
        "1: any token could have all attention",
        f"With the output {within_epsilon(about, 'ranges')} of the original, the average token "
        f"can have {figure(row['value'])} of the attention. In {percent(some['value'])} of the "
        f"{rows.unit}s some token must have a weight above 0; the most attended token must keep "
        f"{figure(kept['value'])} on average.",
    )


_CAPTION = (
    "Share of the attention that a token could have with the output within ε, mean over the tokens "
    "of a text. At 1 the output says nothing about the weights; the farther left, the more it "
    "determines them."
)
_AXIS = Scale("mean possible weight")
_CHARTS = (
    Histogram("mean_possible", _AXIS),
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

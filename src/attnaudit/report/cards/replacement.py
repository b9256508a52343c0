"""Does the output follow the words that a heatmap marks when words are replaced?"""

from __future__ import annotations

from collections.abc import Iterator

from attnaudit.core.numbers import count
from attnaudit.experiments.replacement import LIMIT, SHARE
from attnaudit.experiments.verdict import follows, reference_of
from attnaudit.report.cards.card import Card, CardRow, Claim, card_row
from attnaudit.report.cards.wording import REFERENCES, of_head
from attnaudit.report.charts.specs import FigureSpec, Histogram, Scale
from attnaudit.report.words import figure, with_interval
from attnaudit.results.about import About
from attnaudit.results.measures import SCORES
from attnaudit.results.summary import TEXT, SummaryRows, texts
from attnaudit.trace.schema import SHOWN

QUESTION = "Does the output follow the attended words?"
_NAME = "replacement"
_CAPTION = (
    "For each text, the rank correlation of the weights on the replaced words with the change of "
    "the output, over the copies, given the number of words replaced. At 1 the output follows the "
    "words that they mark; at 0 they say no more than a count of words."
)


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Describe the heatmap's correlation with the output, beside the best other score's."""
    row, is_shown = rows.get(_NAME, f"{_NAME}_{rows.heatmap}"), rows.heatmap == SHOWN
    if row is None:
        return
    lead_name = f"{_NAME}_{rows.heatmap}_minus_{_NAME}_"
    others = [
        (measure.removeprefix(lead_name), score, lead)
        for (experiment, measure), lead in rows.rows.items()
        if experiment == _NAME and measure.startswith(lead_name)
        for score in (rows.get(_NAME, measure.replace(lead_name, f"{_NAME}_")),)
        if score is not None
    ]
    number = count(texts(row) or 0, TEXT)
    sentence = (
        f"When words of {number} are replaced by words of other texts, the "
        f"weights{'' if is_shown else of_head(rows)} on the replaced words correlate "
        f"{figure(row['value'])} with the change of the output"
    )
    weights = "the heatmap" if is_shown else "attention"
    yardstick = f"0: no better than a count of words, 1: the output follows {weights} exactly"
    if others:
        name, best, lead = max(others, key=lambda one: one[1]["value"])
        title = SCORES.get(name, name.replace("_", " "))
        yardstick = f"{title} {with_interval(best)}"
        better = lead["high"] is not None and lead["high"] < 0
        sentence += f"; {title} is a better guide to the words that matter" if better else ""
    found = follows(rows)
    measure = "rank correlation of the replaced weights with the change of the output"
    if found is not None and found.measure == SHARE and rows.get(*found.figure):
        row = rows.rows[found.figure]  # the figure that decides
        measure = (
            f"score: the correlation divided by that of {REFERENCES[reference_of(rows) or '']}"
        )
        yardstick = f"the limit, {LIMIT:g}; correlation of {yardstick}"
    yield card_row(
        "Does the output follow the words that the heatmap marks?" if is_shown else QUESTION,
        measure,
        row,
        yardstick,
        f"{sentence}.",
        claim=Claim(found),
    )


_CHARTS = tuple(
    Histogram(f"{_NAME}_{name}", Scale("correlation of a text", None))
    for name in ("attention", SHOWN)
)
CARD = Card(
    QUESTION,
    card_rows,
    (FigureSpec(_NAME, QUESTION, _CHARTS, _CAPTION),),
    plain="The answer follows the attended words",
    shows={
        SHARE: "The heatmap's power to predict the effect of replacing words, as a share of "
        f"leave-one-out's (or the gradient's); the limit is {LIMIT:g}.",
        **{
            f"{_NAME}_{name}": "Correlation of the heatmap with the effect of replacing words: 1 "
            "is perfect, 0 no better than counting words."
            for name in ("attention", SHOWN)
        },
    },
)

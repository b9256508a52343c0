"""Does the output follow the words that a heatmap marks when words are replaced?"""

from attnaudit.core import count
from attnaudit.experiments.replacement import LIMIT, SHARE
from attnaudit.experiments.verdict import follows, rank_scores, reference_of
from attnaudit.report.cards.card import Card, CardRows, card_row
from attnaudit.report.cards.wording import REFERENCES, name_score, of_head, other_heatmap
from attnaudit.report.charts.specs import FigureSpec, Histogram, Scale
from attnaudit.report.words import figure, with_interval
from attnaudit.results import TEXT, About, SummaryRows
from attnaudit.results.summary import texts
from attnaudit.trace import SHOWN

QUESTION = "Does the output follow the attended words?"
_NAME = "replacement"
_CAPTION = (
    "For each text, the rank correlation of the weights on the replaced words with the change of "
    "the output, over the copies, given the number of words replaced. At 1 the output follows the "
    "words that they mark; at 0 they say no more than a count of words."
)


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Describe the heatmap's correlation with the output, beside the best other score's."""
    row, is_shown = rows.get(_NAME, f"{_NAME}_{rows.heatmap}"), rows.heatmap == SHOWN
    if row is None:
        return
    ranking = rank_scores(rows)
    number = count(texts(row) or 0, TEXT)
    sentence = (
        f"When words of {number} are replaced by words of other texts, the "
        f"weights{'' if is_shown else of_head(rows)} on the replaced words correlate "
        f"{figure(row['value'])} with the change of the output"
    )
    weights = "the heatmap" if is_shown else "attention"
    yardstick = f"0: no better than a count of words, 1: the output follows {weights} exactly"
    if ranking is not None:
        best = next(name for name in ranking.scores if name not in (rows.heatmap, "random"))
        yardstick = f"{name_score(best)} {with_interval(ranking.scores[best])}"
        if is_shown:
            sentence += f"; {other_heatmap(rows)}"
        elif ranking.better is not None:
            sentence += f"; {name_score(best)} is a better guide to the words that matter"
    found = follows(rows)
    measure = "rank correlation of the replaced weights with the change of the output"
    if found is not None and found.measure == SHARE and rows.get(*found.figure):
        row = rows.rows[found.figure]  # the figure that decides
        measure = (
            f"score: the correlation divided by that of {REFERENCES[reference_of(rows) or '']}"
        )
        if is_shown and about.heatmap == reference_of(rows):
            measure += ", which is the heatmap itself"
        yardstick = f"the limit, {LIMIT:g}; correlation of {yardstick}"
    yield card_row(
        "Does the output follow the words that the heatmap marks?" if is_shown else QUESTION,
        measure,
        row,
        yardstick,
        f"{sentence}.",
        finding=found,
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

"""How much attention is on words that speak against the prediction?"""

from attnaudit.report.cards.card import Card, CardRows, card_row
from attnaudit.report.cards.wording import of_head
from attnaudit.report.charts.specs import FigureSpec, Histogram, Scale
from attnaudit.report.words import figure, percent, with_interval
from attnaudit.results import About, SummaryRows

QUESTION = "How much attention is on words against the prediction?"
_NAME = "class_evidence"
_WORDS = {
    "surrogate": "words that lower the predicted class in copies of the text",
    "erasure": "words whose removal from attention makes the predicted class more probable",
}
_CAPTION = (
    "Share of the attention to words that is on words against the predicted class. By surrogate: "
    "words that lower its log-odds in copies of the text. By erasure: words whose removal from "
    "attention raises them; so does removing neutral words if attended words are for the class."
)


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word the share of attention, beside that of the words, by copies if there are any."""
    score = next((one for one in _WORDS if rows.get(_NAME, f"words_against_{one}")), None)
    if score is None:
        return
    names = f"attention_against_{score}", f"words_against_{score}"
    row, gap = rows.get(_NAME, names[0]), rows.get(_NAME, "_minus_".join(names))
    words, tau = rows.value(_NAME, names[1]), rows.get(_NAME, f"tau_{score}")
    if row is None or words is None:
        return
    compared = "not shown to be more or less"
    if gap is not None and gap["low"] is not None and not gap["low"] <= 0 <= gap["high"]:
        compared = "more" if gap["value"] > 0 else "less"
    sentence = (
        f"{percent(row['value'])} of the attention{of_head(rows)} to words is on {_WORDS[score]}: "
        f"{compared} than the {percent(words)} that shuffled attention would have."
    )
    if tau is not None:
        effect = "effects in copies" if score == "surrogate" else "effects of removal"
        sentence += (
            f" The evidence of words, from weight and contribution, agrees with {effect} at a "
            f"Kendall τ of {with_interval(tau)}."
        )
    yield card_row(
        QUESTION,
        "share of attention on words against the predicted class",
        row,
        f"shuffled attention: {figure(words)}",
        sentence,
    )


_CHARTS = tuple(
    Histogram(f"attention_against_{score}", Scale("share of attention"), f"by {score}")
    for score in _WORDS
)
CARD = Card(QUESTION, card_rows, (FigureSpec(_NAME, QUESTION, _CHARTS, _CAPTION),))

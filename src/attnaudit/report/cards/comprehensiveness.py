"""Are the tokens that a score ranks first needed for the output, and enough for it? (ERASER: DeYoung et al. 2020)"""

from __future__ import annotations

from collections.abc import Iterator

from attnaudit.report.cards.card import Card
from attnaudit.report.cards.wording import of_kept_words
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.words import amount, figure, interval, percent
from attnaudit.stats.inference import FEWEST

QUESTION = "Are the most attended tokens needed for the prediction, and enough for it?"

NEARLY = 0.8  # of what a choice of as many tokens can do: from here on attention is supported


MATTERS = 0.15  # a fall of the probability from which on the output is said to need tokens


_FALL = "comprehensiveness_"  # begins the name of a score's mean fall


def _of_what_is_possible(place: float) -> str:
    return f"; from the smallest (0 %) to the largest (100 %) fall that as many tokens can cause, attention reaches {percent(place)}"


def _moves(fall: float) -> str:
    return f"{'rises' if fall < 0 else 'falls'} by {amount(abs(fall), 3)}"


def _nothing_falls(rows: SummaryRows) -> bool:
    """Whether attention, random tokens and all other rankings make the output fall by less than the limit; some other was measured."""
    falls = {
        name: row["value"]
        for (experiment, name), row in rows.rows.items()
        if experiment == "comprehensiveness"
    }
    falls = {
        name: fall
        for name, fall in falls.items()
        if name.startswith(_FALL) and "_minus_" not in name
    }
    return (
        max(falls.values()) < MATTERS
        and len(falls.keys() - {f"{_FALL}attention", f"{_FALL}random"}) > 0
    )


def _limit(fall: float, rows: SummaryRows) -> str:
    """What a ``fall`` below the limit means."""
    if _nothing_falls(rows):
        return f" No measured ranking makes the probability fall by {MATTERS:g}, a limit chosen for this card: no conclusion."
    return (
        f" Below {MATTERS:g}, a limit chosen for this card, tokens are not said to be needed."
        if fall < MATTERS
        else ""
    )


def _claim(rows: SummaryRows, place: float | None) -> Claim | None:
    """None where no score finds tokens that the output needs: then nothing tells which tokens attention should rank first."""
    gap = rows.get("comprehensiveness", f"{_FALL}attention_minus_{_FALL}random")
    if gap is None or gap["low"] is None or gap["n"] < FEWEST or _nothing_falls(rows):
        return None
    if gap["low"] <= 0:
        return Claim(
            False,
            f"the output is not shown to need the most attended tokens{rows.of_head} more than random ones",
        )
    fall = rows.value("comprehensiveness", "comprehensiveness_attention")
    needed = place is not None and place >= NEARLY and fall is not None and fall >= MATTERS
    return (
        Claim(
            True,
            f"the output needs the most attended tokens{rows.of_head} nearly as much as it needs any",
        )
        if needed
        else None
    )


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    row, chance = (
        rows.get("comprehensiveness", f"comprehensiveness_{name}")
        for name in ("attention", "random")
    )
    if row is None or chance is None:
        return
    place = rows.value("comprehensiveness", "normalised_comprehensiveness_attention")
    sentence = (
        f"With the weights{rows.of_head} of the most attended tokens (the top 1 to 50 %) set to 0 and the others rescaled, the "
        f"probability of the predicted class {_moves(row['value'])} on average; with those of random tokens, it "
        f"{_moves(chance['value'])}{'' if place is None else _of_what_is_possible(place)}.{_limit(row['value'], rows)}"
        f"{rows.apart('comprehensiveness', 'comprehensiveness_attention', 'Mean fall', 3)}{of_kept_words(rows)}"
    )
    yield card_row(
        "Does the output need the most attended tokens?",
        "fall without the most attended tokens",
        row,
        f"random tokens {figure(chance['value'], 3)} {interval(chance, 3)}".rstrip(),
        sentence,
        mark=float(chance["value"]),
        scale=(-1.0, 1.0) if round(row["value"], 3) < 0 else (0.0, 1.0),
        places=3,
        claim=_claim(rows, place),
    )


CARD = Card(question=QUESTION, rows=card_rows)

"""Does attention rank the tokens as measures of their importance do? (Jain & Wallace 2019, §4.1)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attnaudit.core.numbers import count
from attnaudit.report.cards.card import Card
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import FigureSpec, Histogram, Scale
from attnaudit.results.words import degree, figure, interval

QUESTION = "Does attention rank tokens as measures of their importance do?"

WEAK_YARDSTICK = (
    0.1  # below this τ two importance measures hardly agree, and a share of it means nothing
)


NEARLY = 0.85  # of the reference τ: from here on agreement supports attention


_SHARES = (
    (0.12, "hardly at all, compared with how"),
    (0.29, "about a quarter as well as"),
    (0.42, "about a third as well as"),
    (0.58, "about half as well as"),
    (0.71, "about two thirds as well as"),
    (0.85, "about three quarters as well as"),
    (0.95, "nearly as well as"),
    (1.05, "about as well as"),
)


_AXIS = Scale("Kendall τ", 1.0, (-1.0, -0.5, 0.0, 0.5, 1.0), low=-1.0)


_PAIRS = {
    "tau_gradient": "attention and gradient",
    "tau_loo": "attention and leave-one-out",
    "tau_gradient_loo": "gradient and leave-one-out",
}


_CAPTION = (
    "Kendall τ of each instance; ticks mark class means. 1: the same order of tokens, 0: unrelated, −1: reversed. The last panel is the "
    "reference: how far two measures of importance agree with each other."
)


def _over_seeds(rows: SummaryRows, name: str, words: str) -> str:
    """How far scores agree with themselves between seeds, where a study of seeds is there."""
    attention, itself = rows.value("seeds", "tau_alpha"), rows.value("seeds", f"tau_{name}")
    if attention is None or itself is None:
        return ""
    return f" Between training seeds, attention agrees with itself at τ {figure(attention)}, {words} at τ {figure(itself)}."


def _agreement(
    row: Mapping[str, Any],
    reference: Mapping[str, Any] | None,
    gap: Mapping[str, Any] | None,
    words: str,
    unit: str,
) -> tuple[str, Claim | None]:
    """The sentence, and what may be claimed."""
    undefined = (
        f" τ is undefined for {count(row['undefined'], unit)}, excluded here."
        if row["undefined"]
        else ""
    )
    if reference is None:
        return (
            f"Attention and {words} agree at τ {figure(row['value'])}; there is no reference value to compare that with.{undefined}",
            None,
        )
    value, against = float(row["value"]), float(reference["value"])
    claim = None
    if against < WEAK_YARDSTICK:
        said = f"The two importance measures hardly agree with each other (τ {figure(against)}), so they set no firm standard here."
    elif reference["low"] is not None and reference["low"] <= 0:
        apart = f"τ {figure(against)} {interval(reference)}"
        said = f"The two importance measures do not clearly agree with each other ({apart}), so they set no firm standard here."
    elif value <= 0 or (row["low"] is not None and row["low"] <= 0):
        said = f"No agreement of attention with {words} on average, while the two importance measures agree with each other."
        claim = Claim(
            False,
            f"attention does not rank tokens as {words} {'does' if words == 'leave-one-out' else 'do'}",
            _less(words),
        )
    elif gap and gap["low"] is not None and gap["low"] <= 0 <= gap["high"]:
        said = f"Attention agrees with {words} about as well as the two importance measures agree with each other."
        claim = Claim(
            True,
            f"attention agrees with {words} about as well as importance measures agree with each other",
            _as_well(words),
        )
    else:
        share = degree(_SHARES, value / against, "better than")
        said = f"Attention agrees with {words} {share} the two importance measures agree with each other."
        supports, clause = (
            value / against >= NEARLY,
            f"attention agrees with {words} {share} importance measures agree with each other",
        )
        claim = Claim(supports, clause, _as_well(words) if supports else _less(words))
    return said + undefined, claim


def _as_well(words: str) -> str:
    return f"attention agrees with {words} nearly as well as importance measures agree with each other, or better"


def _less(words: str) -> str:
    return f"attention agrees with {words} less well than importance measures agree with each other"


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Attention against gradient and against leave-one-out, with gradient against leave-one-out as the reference."""
    reference = rows.get("correlation", "tau_gradient_loo")
    for name, words, question in (
        ("gradient", "gradients", "Does attention rank tokens as gradients do?"),
        ("loo", "leave-one-out", "Does attention rank tokens as leave-one-out does?"),
    ):
        row = rows.get("correlation", f"tau_{name}")
        if row is None:
            continue
        sentence, claim = _agreement(
            row,
            reference,
            rows.get("correlation", f"tau_gradient_loo_minus_tau_{name}"),
            words,
            rows.unit,
        )
        sentence += rows.apart("correlation", f"tau_{name}", "τ") + _over_seeds(rows, name, words)
        known, mark = "no gradient–LOO τ is defined", None
        if reference is not None:
            known, mark = (
                f"gradient–LOO τ {figure(reference['value'])} {interval(reference)}",
                reference["value"],
            )
        label = f"mean Kendall τ, attention–{'LOO' if name == 'loo' else name}"
        yield card_row(
            question, label, row, known, sentence, mark=mark, scale=(-1.0, 1.0), claim=claim
        )


CARD = Card(
    question=QUESTION,
    rows=card_rows,
    figures=(
        FigureSpec(
            "tau",
            "Does attention rank tokens as importance measures do?",
            tuple(Histogram(column, _AXIS, pair.capitalize()) for column, pair in _PAIRS.items()),
            _CAPTION,
        ),
    ),
)

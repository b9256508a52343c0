"""Do the scores find the tokens known to matter? (ERASER: DeYoung et al. 2020; in planted corpora the rationale is the truth)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attnaudit.report.cards.card import Card
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, SummaryRows, card_row
from attnaudit.results.words import figure, percent

QUESTION = "Does attention find the tokens known to matter?"


def _best(others: Mapping[str, float | None]) -> float | None:
    return max((value for value in others.values() if value is not None), default=None)


def _found(
    kind: str,
    row: Mapping[str, Any],
    others: Mapping[str, float | None],
    gaps: Mapping[str, Mapping[str, Any] | None],
    chance: float | None,
) -> str:
    """Compared with the better of the others by the interval of their paired difference, or in older summaries by attention's own."""
    best = _best(others)
    what = (
        f"{percent(row['value'])} of attention's top tokens are known to matter"
        if kind == "precision"
        else (
            f"Ranked by attention, the known tokens reach an average precision of {figure(row['value'])}"
        )
    )
    against = (
        ""
        if chance is None
        else f", where a random order would give {percent(chance) if kind == 'precision' else figure(chance)}"
    )
    if best is None:
        return f"{what}{against}."
    name = next(name for name, value in others.items() if value == best)
    paired = gaps[name]
    gap, even = (row, best) if paired is None else (paired, 0.0)
    less, more = (
        (gap["value"], gap["value"])
        if gap["low"] is None or gap["high"] is None
        else (gap["low"], gap["high"])
    )
    than = (
        "about as well as"
        if less <= even <= more
        else "less well than"
        if more < even
        else "better than"
    )
    return f"{what}{against}: it finds them {than} {'leave-one-out' if name == 'loo' else 'gradients'} ({figure(best)})."


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    for kind, measure, question in (
        ("precision", "precision at the number of known tokens", QUESTION),
        ("auprc", "AUPRC", "Does attention rank them first?"),
    ):
        row = rows.get("plausibility", f"{kind}_attention")
        if row is None:
            continue
        others = {
            name: rows.value("plausibility", f"{kind}_{name}") for name in ("gradient", "loo")
        }
        chance = rows.value("plausibility", f"{kind}_chance")
        known = [
            f"{'LOO' if name == 'loo' else name} {figure(value)}"
            for name, value in others.items()
            if value is not None
        ]
        known += [f"random order {figure(chance)}"] if chance is not None else []
        gaps = {
            name: rows.get("plausibility", f"{kind}_attention_minus_{kind}_{name}")
            for name in others
        }
        sentence = _found(kind, row, others, gaps, chance) + rows.apart(
            "plausibility", f"{kind}_attention", f"Mean {measure}"
        )
        yield card_row(
            question, measure, row, ", ".join(known) or "–", sentence, mark=_best(others)
        )


CARD = Card(question=QUESTION, rows=card_rows)

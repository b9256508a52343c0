"""How far does attention move when only the seed does? The noise that every other comparison is read against."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from attnaudit.report.cards.card import StudyCard
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import Quartiles, StudyFigure, StudyPanel
from attnaudit.results.words import LN2, difference, figure
from attnaudit.studies.seeds import Seeds, _bins

_SCORES = {"alpha": "attention", "gradient": "gradient", "loo": "leave-one-out"}


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    row = rows.get("seeds", "jsd")
    if row is None:
        return
    taus = ", ".join(
        f"{word} {figure(tau['value'])}"
        for name, word in _SCORES.items()
        if (tau := rows.get("seeds", f"tau_{name}"))
    )
    sentence = (
        f"With another seed, attention differs {difference(row['value'])} from that of the first seed. Only larger differences, of an "
        "adversary or any other attention, are informative."
    )
    if taus:
        agreement = f"Agreement of each score with itself across seeds (τ): {taus}"
        sentence += f" {agreement}; this is the reference for its agreement with other scores."
    claim = (
        None
        if row["value"] < 0.25 * LN2
        else Claim(False, f"with another seed, attention differs {difference(row['value'])}")
    )
    yardstick = f"τ with itself: {taus or 'undefined'}"
    yield card_row(
        Seeds.question,
        "JSD to another seed's attention",
        row,
        yardstick,
        sentence,
        scale=(0.0, LN2),
        claim=claim,
    )


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterator[StudyFigure]:
    classes = table.sort("predicted").group_by("predicted", maintain_order=True)
    groups = [
        (f"max α {low:g} to {high:g}", table.filter(inside)["jsd"]) for low, high, inside in _bins()
    ]
    groups += [(f"predicted {name}", rows["jsd"]) for (name,), rows in classes]
    divergences = Quartiles(groups, "median JSD to another seed (at most ln 2)", (0.0, LN2))
    agreement = [(word, table[f"tau_{name}"].drop_nulls()) for name, word in _SCORES.items()]
    taus = Quartiles(agreement, "median τ with itself under another seed", (-1.0, 1.0))
    caption = (
        "Quartiles (bar), 5 to 95 % (line) and median over instances of each instance's median over seeds. Left: how far attention "
        "moves when only the seed changes. Right: how well each score agrees with itself under another seed, the reference for its "
        "agreement with other scores."
    )
    panels = (
        StudyPanel(
            "How far attention moves",
            divergences,
            "seeds-jsd",
            "Divergence to another seed's attention, by bin and class",
        ),
        StudyPanel(
            "How well scores agree with themselves",
            taus,
            "seeds-tau",
            "Kendall tau of each score with itself",
        ),
    )
    yield StudyFigure("seeds", "How much of attention is chance?", caption, panels)


CARD = StudyCard(rows=card_rows, figures=figures)

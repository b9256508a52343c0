"""How far does attention move when only the seed does?"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from attnaudit.experiments.verdict import AGAINST, POLICY, decide
from attnaudit.report.cards.card import Axis, CardRow, Claim, StudyCard, card_row
from attnaudit.report.charts.studies import quantile_chart
from attnaudit.report.charts.svg import Figure, drawn
from attnaudit.report.words import difference, figure
from attnaudit.results.about import About
from attnaudit.results.summary import SummaryRows
from attnaudit.stats.measures import LN2
from attnaudit.studies.seeds import Seeds, bins

_SCORES = {"alpha": "attention", "gradient": "gradient", "loo": "leave-one-out"}
_CAPTION = (
    "Quartiles (bar), 5 to 95 % (line) and median over instances of each instance's median over "
    "seeds. Left: how far attention moves when only the seed changes. Right: how well each score "
    "agrees with itself under another seed, the reference for its agreement with other scores."
)


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Word the divergence between seeds, and how well scores agree with themselves."""
    row = rows.get("seeds", "jsd")
    if row is None:
        return
    known = {word: rows.value("seeds", f"tau_{name}") for name, word in _SCORES.items()}
    taus = ", ".join(f"{word} {figure(tau)}" for word, tau in known.items() if tau is not None)
    differs = f"ith another seed, attention differs {difference(row['value'])}"
    agreement = (
        f" Agreement of each score with itself across seeds (τ): {taus}; this is the reference for "
        "its agreement with other scores."
    )
    yield card_row(
        Seeds.question,
        "JSD to another seed's attention",
        row,
        f"τ with itself: {taus or 'undefined'}",
        f"W{differs} from that of the first seed. Only larger differences, of an adversary or any "
        f"other attention, are informative.{agreement if taus else ''}",
        axis=Axis(ends=(0.0, LN2)),
        claim=Claim(decide(row, POLICY.close, AGAINST), f"w{differs}"),
    )


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterator[Figure]:
    """Draw how far attention moves, and how well scores agree with themselves."""
    groups = {f"max α {low:g} to {high:g}": table.filter(inside) for low, high, inside in bins()}
    groups |= {
        f"predicted {name}": part
        for (name,), part in table.sort("predicted").group_by("predicted", maintain_order=True)
    }
    moves = quantile_chart(
        {name: part["jsd"] for name, part in groups.items()},
        "median JSD to another seed (at most ln 2)",
        (0.0, LN2),
    )
    agrees = quantile_chart(
        {word: table[f"tau_{name}"].drop_nulls() for name, word in _SCORES.items()},
        "median τ with itself under another seed",
        (-1.0, 1.0),
    )
    label = "Divergence to another seed's attention, by bin and class"
    panels = (
        drawn("How far attention moves", moves, "seeds-jsd", label),
        drawn(
            "How well scores agree with themselves",
            agrees,
            "seeds-tau",
            "Kendall tau of each score with itself",
        ),
    )
    yield Figure("seeds", "How much of attention is chance?", _CAPTION, panels)


CARD = StudyCard(card_rows, figures)

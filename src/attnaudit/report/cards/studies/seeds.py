"""How far does attention move when only the seed does?"""

from collections.abc import Iterator

import polars as pl

from attnaudit.experiments.findings import AGAINST, POLICY, decide
from attnaudit.report.cards.card import CardRows, StudyCard, card_row
from attnaudit.report.charts.marks import Scale, box_chart
from attnaudit.report.charts.svg import Figure, drawn
from attnaudit.report.words import difference, figure
from attnaudit.results import About, SummaryRows
from attnaudit.stats.measures import LN2
from attnaudit.studies.seeds import Seeds, bins

_SCORES = {"alpha": "attention", "gradient": "gradient", "loo": "leave-one-out"}
_CAPTION = (
    "Quartiles (bar), 5 to 95 % (line) and median over texts of each text's median over "
    "seeds. Left: how far attention moves when only the seed changes. Right: how well each score "
    "agrees with itself under another seed, the reference for its agreement with other scores."
)


def card_rows(rows: SummaryRows, about: About) -> CardRows:
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
        f"other attention, tell something.{agreement if taus else ''}",
        finding=decide(row, POLICY.close, AGAINST),
        clause=f"w{differs}",
    )


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterator[Figure]:
    """Draw how far attention moves, and how well scores agree with themselves."""
    parts = [
        table.filter(inside).select("jsd", name=pl.lit(f"max α {low:g} to {high:g}"))
        for low, high, inside in bins()
    ]
    parts.append(table.sort("predicted").select("jsd", name=pl.format("predicted {}", "predicted")))
    moves = pl.concat(parts).rename({"jsd": "value"})
    taus = table.select(pl.col(f"tau_{name}").alias(word) for name, word in _SCORES.items())
    agrees = taus.unpivot(variable_name="name").drop_nulls()
    panels = tuple(
        drawn(title, box_chart(rows, scale, list(dict.fromkeys(rows["name"]))), name, title)
        for title, name, rows, scale in (
            ("How far attention moves", "seeds-jsd", moves, Scale("median JSD", LN2)),
            ("How well scores agree with themselves", "seeds-tau", agrees, Scale("τ", low=-1.0)),
        )
    )
    yield Figure("seeds", "How much of attention is chance?", _CAPTION, panels)


CARD = StudyCard(card_rows, figures)

"""Did it reproduce? How many numbers keep to the authors' own spread, and how many lie farther off."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from attnaudit.published.compare import ABOVE_SEARCH, FARTHER, NOT_MEASURED, PUBLISHED_ONCE, WITHIN_CELL, WITHIN_CORPUS, WITHIN_OURS
from attnaudit.report.reproduction.numbers import TAUS, corpora, score_measure
from attnaudit.results.words import count, percent

# Degrees of agreement as they are counted: (what the table says, the class that colours and marks it, the head of its column).
DEGREES = (
    (WITHIN_CELL, "cell", "within the spread of their two runs"),
    (WITHIN_CORPUS, "corpus", "within their spread on the corpus"),
    (WITHIN_OURS, "ours", "theirs is within our interval"),
    (ABOVE_SEARCH, "above", "above what their search found"),
    (FARTHER, "farther", "farther off"),
    (NOT_MEASURED, "unknown", "not measured"),
)
SYMBOLS = {"cell": "●", "corpus": "◐", "ours": "◑", "above": "△", "farther": "○", "unknown": "–", "once": "·"}
ONCE = "published once, not counted"
_DEGREE = {agreement: degree for agreement, degree, _ in DEGREES} | {PUBLISHED_ONCE: "once"}
INTERVAL_RULE = (
    "An interval over seeds is cut to what the measure can be. It counts as holding a published value only where it is over three seeds "
    "or more (or over the instances of a single run) and no wider than half of what the measure can be."
)


@dataclass(frozen=True)
class Tally:
    """How many numbers of one kind are in each degree of `DEGREES`."""

    kind: str
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def judged(self) -> int:
        return self.total - self.counts[-1]

    @property
    def parts(self) -> tuple[tuple[str, float], ...]:
        """(degree, per cent of what was judged), for a bar."""
        named = zip(DEGREES[:-1], self.counts, strict=False)
        return tuple((degree, 100 * number / self.judged) for (_, degree, _), number in named if number)


def degree(agreement: str) -> str:
    """The class that marks an agreement, a key of `SYMBOLS`; empty for none."""
    return _DEGREE.get(agreement, "unknown") if agreement else ""


def tallies(table: pl.DataFrame) -> list[Tally]:
    """A tally for each kind of number that both of the authors' runs have; numbers published once have no spread to keep to."""
    twice = table.filter(pl.col("spread").is_not_null())
    found = [tally(kind, twice.filter(chosen)) for kind, chosen in _kinds(table)]
    return [one for one in found if one.total]


def tally(kind: str, rows: pl.DataFrame) -> Tally:
    return Tally(kind, tuple(rows.filter(agreement=agreement).height for agreement, _, _ in DEGREES))


def main_means(table: pl.DataFrame) -> Tally:
    """Mean τ, mean ε-max JSD and prediction scores together."""
    kinds = pl.any_horizontal([chosen for _, chosen in _kinds(table)[:4]])
    return tally("all of these", table.filter(kinds, pl.col("spread").is_not_null()))


def verdict_sentences(table: pl.DataFrame) -> list[str]:
    """The answer in words that claim no more than the counts do."""
    means, once = main_means(table), table.filter(agreement=PUBLISHED_ONCE).height
    if not means.judged:
        return ["No published mean can be compared with a run: there is nothing to judge."]
    told = [_in_words(means)]
    few = table.filter(agreement=WITHIN_OURS)["seeds"].min()
    if isinstance(few, int) and 1 < few < 5:
        told.append(f"Intervals from {few} seeds are wide: that such an interval holds a published value says little.")
    if once:
        told.append(f"{count(once, 'further number')} had been published once only and can keep to no spread: in the tables, not counted.")
    if means.counts[-1]:
        told.append(f"{count(means.counts[-1], 'published mean')} could not be measured in the runs that were made.")
    return told


def short_count(tally: Tally) -> str:
    """A tally in one short sentence; empty where nothing was judged."""
    if not tally.judged:
        return ""
    shares = zip(DEGREES[:-1], tally.counts, strict=False)
    told = [f"{number} {SYMBOLS[degree]} {head}" for (_, degree, head), number in shares if number]
    return f"Of {count(tally.judged, 'number')} that both of the authors' runs have: {', '.join(told)}."


def _in_words(tally: Tally) -> str:
    cell, corpus, ours, above, farther, _ = tally.counts
    parts = [
        f"{cell} ({percent(cell / tally.judged)}) lie within the spread of their two runs of the same model",
        f"{corpus} more within the most that their two runs differ on the corpus" if corpus else "",
        f"of {ours} more a published value lies within our interval" if ours else "",
        f"{above} lie above what their search had found" if above else "",
        f"{farther} ({percent(farther / tally.judged)}) lie farther off" if farther else "none lies farther off",
    ]
    means = f"{count(tally.judged, 'mean')} that both runs of the authors have (prediction score, Kendall τ, ε-max JSD)"
    return f"Of {means}, " + "; ".join(filter(None, parts)) + "."


def _kinds(table: pl.DataFrame) -> list[tuple[str, pl.Expr]]:
    """Kinds of numbers and the rows of ``table`` that are of each; every row is of one kind."""
    mean, measure = pl.col("statistic") == "mean", pl.col("measure")
    scores = [(pl.col("corpus") == name) & (measure == score_measure(table.filter(corpus=name))) for name in corpora(table)]
    score = pl.any_horizontal(scores) if scores else pl.lit(False)
    kinds = [
        ("prediction score: F1, or accuracy where no F1 is published", mean & score),
        ("mean τ, attention – gradient", mean & (measure == TAUS[0])),
        ("mean τ, attention – leave-one-out", mean & (measure == TAUS[1])),
        ("mean ε-max JSD", mean & (measure == "emax_jsd")),
        ("share with p ≤ 0.05", pl.col("statistic") == "share"),
        ("median Δŷ by largest weight", (pl.col("statistic") == "median") & (measure == "median_delta_y")),
    ]
    named = pl.any_horizontal([chosen for _, chosen in kinds])
    return [*kinds, ("standard deviations and all others", ~named)]

"""Write the table of log-odds attention in docs/jain2019.md from the records: ``python docs/log_odds_table.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.published.compare import SEEDS_SCHEMA
from attnaudit.published.reproduction import ENCODERS
from attnaudit.report.reproduction.tables import markdown_table
from attnaudit.report.words import figure, interval

PAGE = Path(__file__).with_name("jain2019.md")
RECORDS = PAGE.parent / "records" / "jain2019"
BEGIN, END = "<!-- log-odds -->", "<!-- end of log-odds -->"
CORPORA = {"sst": "SST", "imdb": "IMDB", "20news_sports": "20News sports", "ag_news": "AG News"}
MEASURES, ATTENTIONS = (
    {"tau_gradient": "τ gradient", "tau_loo": "τ leave-one-out", "f1": "F1"},
    ("additive", "dot", "log_odds"),
)


def render() -> str:
    """The page, as Markdown."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.split(END)[1]
    columns = [(measure, attention) for measure in MEASURES for attention in ATTENTIONS]
    heads = [
        "corpus",
        "encoder",
        *(f"{MEASURES[measure]}, {attention.replace('_', '-')}" for measure, attention in columns),
    ]
    rows = [
        [
            title,
            encoder,
            *(_shown(numbers.get((encoder, attention, measure))) for measure, attention in columns),
        ]
        for corpus, title in CORPORA.items()
        for numbers in [_numbers(corpus)]
        for encoder in ENCODERS
        if (encoder, "log_odds", "f1") in numbers
    ]
    return f"{before}{BEGIN}\n\n{markdown_table(heads, rows)}\n\n{_compared()}\n\n{END}{after}"


def _compared() -> str:
    """Of how many models τ is below that of additive attention, and of how many the intervals over seeds lie apart."""
    parts: list[str] = []
    known = [_numbers(corpus) for corpus in CORPORA]
    for measure, name in (("tau_gradient", "gradients"), ("tau_loo", "leave-one-out")):
        pairs = [
            (numbers[encoder, "log_odds", measure], numbers[encoder, "additive", measure])
            for numbers in known
            for encoder in ENCODERS
            if (encoder, "log_odds", measure) in numbers
        ]
        below = sum(odds["ours"] < additive["ours"] for odds, additive in pairs)
        of_seeds = [
            (odds, additive)
            for odds, additive in pairs
            if min(odds["seeds"], additive["seeds"]) > 1
        ]
        apart = sum(odds["high"] < additive["low"] for odds, additive in of_seeds)
        parts.append(
            f"with {name} for {below} of {len(pairs)} models (intervals over seeds apart for {apart} of {len(of_seeds)})"
        )
    return f"Mean τ is lower with log-odds than with additive attention: {', '.join(parts)}."


def _numbers(corpus: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The means over all instances of a corpus, by encoder, attention and measure."""
    found = pl.read_csv(RECORDS / f"{corpus}.csv", schema=SEEDS_SCHEMA).filter(
        group="all", statistic="mean"
    )
    return {
        (row["encoder"], row["attention"], row["measure"]): row
        for row in found.iter_rows(named=True)
    }


def _shown(row: dict[str, Any] | None) -> str:
    return (
        "–"
        if row is None or row["ours"] is None
        else f"{figure(row['ours'])} {interval(row)}".strip()
    )


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")

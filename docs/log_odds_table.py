"""Write the table of log-odds attention in docs/research/jain2019.md from the records: ``python docs/log_odds_table.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnaudit.papers import PAPERS
from attnaudit.recipes.reproduction.records import records_of
from attnaudit.report.paper_page import markdown_table
from attnaudit.report.words import figure, interval

PAGE = Path(__file__).parent / "research" / "jain2019.md"
BEGIN, END = "<!-- log-odds -->", "<!-- end of log-odds -->"
CORPORA = {"sst": "SST", "imdb": "IMDB", "20news_sports": "20News sports", "ag_news": "AG News"}
MEASURES = {"tau_gradient": "τ gradient", "tau_loo": "τ leave-one-out", "f1": "F1"}
ATTENTIONS = ("additive", "dot", "log_odds")
ENCODERS = ("bilstm", "cnn", "average")
Numbers = dict[tuple[str, str, str, str], dict[str, Any]]


def render() -> str:
    """Return the page, as Markdown."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after, numbers = rest.split(END)[1], _numbers()
    columns = [(measure, attention) for measure in MEASURES for attention in ATTENTIONS]
    names = (f"{MEASURES[measure]}, {name.replace('_', '-')}" for measure, name in columns)
    rows = [
        [
            title,
            encoder,
            *(_shown(numbers.get((corpus, encoder, name, measure))) for measure, name in columns),
        ]
        for corpus, title in CORPORA.items()
        for encoder in ENCODERS
        if (corpus, encoder, "log_odds", "f1") in numbers
    ]
    table = markdown_table(["corpus", "encoder", *names], rows)
    return f"{before}{BEGIN}\n\n{table}\n\n{_compared(numbers)}\n\n{END}{after}"


def _compared(numbers: Numbers) -> str:
    """Count the models whose τ is below that of additive attention, and intervals that lie apart."""
    parts: list[str] = []
    for measure, name in (("tau_gradient", "gradients"), ("tau_loo", "leave-one-out")):
        pairs = [
            (
                numbers[corpus, encoder, "log_odds", measure],
                numbers[corpus, encoder, "additive", measure],
            )
            for corpus in CORPORA
            for encoder in ENCODERS
            if (corpus, encoder, "log_odds", measure) in numbers
        ]
        below = sum(odds["value"] < additive["value"] for odds, additive in pairs)
        of_seeds = [pair for pair in pairs if all(row.get("sd") is not None for row in pair)]
        apart = sum(odds["high"] < additive["low"] for odds, additive in of_seeds)
        of_them = f"intervals over seeds apart for {apart} of {len(of_seeds)}"
        parts.append(f"with {name} for {below} of {len(pairs)} models ({of_them})")
    return f"Mean τ is lower with log-odds than with additive attention: {', '.join(parts)}."


def _numbers() -> Numbers:
    """Return the means over all instances, by corpus, encoder, attention and measure."""
    paper = PAPERS["jain2019"]
    records = records_of(paper, PAGE.parent / "records" / paper.name)
    return {
        (cell.corpus, cell.encoder, cell.attention, row["measure"]): row
        for cell in paper.cells
        for row in records.get(cell.key, {"summary": []})["summary"]
        if row["group"] == "all"
    }


def _shown(row: dict[str, Any] | None) -> str:
    if row is None or row["value"] is None:
        return "–"
    return f"{figure(row['value'])} {interval(row)}".strip()


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")

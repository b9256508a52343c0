"""The numbers of a reproduction as text: a column for each measure and class; paper, re-run and ours are below each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from attnaudit.experiments import measure_label
from attnaudit.papers import Cell, Declaration
from attnaudit.published.compare import CELL, DEGREES, FARTHER, PUBLISHED_ONCE
from attnaudit.published.reference import MAX_ALPHA_BINS
from attnaudit.published.reproduction import (
    TAUS,
    Model,
    corpus_key,
    groups_of,
    models,
    score_measure,
)
from attnaudit.report.sections.numbers import group_label
from attnaudit.report.words import figure, interval, percent

# Degrees of agreement, in the order of `DEGREES`: the symbol in Markdown and captions, and the head of the column of counts.
MARKS = {
    "cell": ("●", "no farther from their two runs than these differ"),
    "corpus": ("◐", "within their spread on the corpus"),
    "ours": ("◑", "theirs is within our interval"),
    "above": ("△", "above what their search found"),
    "farther": ("○", "farther off"),
    "unknown": ("–", "not measured"),
    "once": ("·", "published once, not counted"),
}
SOURCES = (("paper", "paper"), ("rerun", "re-run"), ("ours", "ours"))
_HEADS = {"f1": "F1", "accuracy": "Accuracy", "roc_auc": "ROC-AUC", "tau_gradient": "τ attention – gradient",
          "tau_loo": "τ attention – leave-one-out", "emax_jsd": "ε-max JSD", "emax_jsd_upper": "ε-max JSD, upper bound",
          "median_delta_y": "Δŷ under permutation", "certified": "ε-max JSD proven", "tau_gradient_loo": "τ gradient – leave-one-out",
          "tau_gradient_loo_minus_tau_gradient": "the same less τ attention – gradient",
          "tau_gradient_loo_minus_tau_loo": "the same less τ attention – leave-one-out"}  # fmt: skip
Row = dict[str, Any]
_FINE = ("f1", "accuracy", "roc_auc", "emax_jsd", "emax_jsd_upper", "median_delta_y")
_MIDDLES = ("mean", "share", "median")
_BINS = (("median_delta_y", "Median Δŷ under permutation, by largest attention weight"),
         ("emax_jsd", "Median ε-max JSD, by largest attention weight"))  # fmt: skip


@dataclass(frozen=True)
class Column:
    """One kind of number: a measure of a group of instances, or of those whose largest weight is in a bin."""

    measure: str
    group: str
    max_alpha: str | None = None

    @property
    def head(self) -> str:
        return (
            group_label(self.group)
            if self.max_alpha
            else _HEADS.get(self.measure, measure_label(self.measure))
        )

    @property
    def title(self) -> str:
        return self.max_alpha or group_label(self.group)


@dataclass(frozen=True)
class Entry:
    """``text`` is the number with its spread over instances and its share; ours has an interval and a degree of agreement."""

    text: str = "–"
    interval: str = ""
    degree: str = ""
    agreement: str = ""


@dataclass(frozen=True)
class Block:
    """One model: (paper, re-run or ours, an entry for each column)."""

    model: Model
    lines: tuple[tuple[str, tuple[Entry, ...]], ...]


@dataclass(frozen=True)
class NumberTable:
    """``heads`` are (text, number of columns below it)."""

    caption: str
    heads: tuple[tuple[str, int], ...]
    columns: tuple[Column, ...]
    blocks: tuple[Block, ...]


def main_table(numbers: pl.DataFrame, name: str, has_question: bool = False) -> NumberTable:
    """Score, both τ and ε-max JSD of one corpus, by predicted class where they are reported so."""
    measures = (score_measure(numbers, has_question), *TAUS, "emax_jsd")
    columns = [
        Column(measure, group) for measure in measures for group in groups_of(numbers, measure)
    ]
    return _table(
        numbers,
        f"{name}: score, mean τ ± s.d. over instances · share with p ≤ 0.05, mean ε-max JSD ± s.d.",
        columns,
    )


def further_tables(numbers: pl.DataFrame, shown: Sequence[Column]) -> list[NumberTable]:
    """Everything else: medians by largest weight, what was published once, and what was measured and never published."""
    tables = [
        _table(numbers.filter(statistic="median"), caption, _bin_columns(numbers, measure))
        for measure, caption in _BINS
    ]
    published = pl.col("paper").is_not_null() | pl.col("rerun").is_not_null()
    for caption, rows in (
        ("Further published numbers", numbers.filter(published)),
        ("Ours alone: not published", numbers.filter(~published)),
    ):
        keys = rows.filter(
            pl.col("statistic").is_in(["mean", "share"])
            & ~pl.col("measure").str.starts_with("significant_")
        )
        columns = [
            Column(*key)
            for key in keys.select("measure", "group").unique(maintain_order=True).iter_rows()
        ]
        tables.append(_table(rows, caption, [column for column in columns if column not in shown]))
    return [table for table in tables if table.columns and table.blocks]


def reasons_of(paper: Declaration, corpus: str, numbers: pl.DataFrame) -> list[str]:
    """Why numbers of a corpus that are marked as farther off are so in the records of the documentation, with their models; at last those
    whose cause is not known. Other data, word vectors or settings may have other causes, so that each line names the record.
    """
    far = numbers.filter(
        pl.col("statistic").is_in(["mean", "median"]), agreement=FARTHER, corpus=corpus_key(corpus)
    )
    found: dict[str, dict[str, list[str]]] = {"": {}}
    for encoder, attention, measure in (
        far.select(*CELL[1:], "measure").unique(maintain_order=True).iter_rows()
    ):
        reason = paper.reason(Cell(corpus, encoder=encoder, attention=attention), measure)
        found.setdefault(reason, {}).setdefault(Column(measure, "").head, []).append(
            f"{encoder} + {attention}"
        )
    which = {
        reason: "; ".join(f"{measure} of {', '.join(names)}" for measure, names in models.items())
        for reason, models in found.items()
    }
    unknown = which.pop("")
    return [
        *(
            f"farther off, {names}. In the docs' record: {reason}"
            for reason, names in which.items()
        ),
        *([f"farther off, cause not known: {unknown}"] if unknown else []),
    ]


def _bin_columns(numbers: pl.DataFrame, measure: str) -> list[Column]:
    medians = numbers.filter(statistic="median", measure=measure)
    groups = medians["group"].unique(maintain_order=True)
    return [
        Column(measure, group, bin_)
        for group in groups
        for bin_ in MAX_ALPHA_BINS
        if (medians["max_alpha"] == bin_).any()
    ]


def _table(numbers: pl.DataFrame, caption: str, columns: Sequence[Column]) -> NumberTable:
    blocks = [_block(numbers.filter(encoder=encoder, attention=attention), (encoder, attention), columns)
              for encoder, attention in models(numbers)]  # fmt: skip
    heads: list[tuple[str, int]] = []
    for column in columns:
        before = heads.pop() if heads and heads[-1][0] == column.head else (column.head, 0)
        heads.append((before[0], before[1] + 1))
    return NumberTable(
        caption, tuple(heads), tuple(columns), tuple(block for block in blocks if block.lines)
    )


def _block(numbers: pl.DataFrame, model: Model, columns: Sequence[Column]) -> Block:
    """The lines that have a number; without a published one it is ours alone."""
    known = {
        (row["measure"], row["group"], row["max_alpha"], row["statistic"]): row
        for row in numbers.iter_rows(named=True)
    }
    lines = [
        (label, tuple(_entry(known.get, column, source) for column in columns))
        for source, label in SOURCES
    ]
    shown = [
        (label, entries)
        for label, entries in lines
        if label == "ours" or any(entry != Entry() for entry in entries)
    ]
    measured = any(entry != Entry() for _, entries in shown for entry in entries)
    return Block(model, tuple(shown) if measured else ())


def _entry(find: Callable[[tuple], Row | None], column: Column, source: str) -> Entry:
    key = (column.measure, column.group, column.max_alpha)
    middle = next(filter(None, (find((*key, statistic)) for statistic in _MIDDLES)), None)
    share = (
        find((column.measure.replace("tau_", "significant_"), *key[1:], "share"))
        if column.measure.startswith("tau_")
        else None
    )
    text = _text(source, column.measure, middle, find((*key, "std")), share)
    if source != "ours" or middle is None:
        return Entry(text)
    agreement = middle["agreement"]
    degree = "once" if agreement == PUBLISHED_ONCE else DEGREES.get(agreement, "unknown")
    return Entry(
        text,
        _interval(middle, column.measure),
        degree if agreement and middle["ours"] is not None else "",
        agreement,
    )


def _text(
    source: str, measure: str, middle: Row | None, spread: Row | None, share: Row | None
) -> str:
    """``0.40 ± 0.21 · 59 %``, as far as the numbers are there; a mean may be missing where its share is not."""
    value, around, part = (None if row is None else row[source] for row in (middle, spread, share))
    if middle is not None and middle["statistic"] == "share" and value is not None:
        return percent(value)
    text = "–" if value is None else figure(value, 3 if measure in _FINE else 2)
    text += "" if around is None else f" ± {figure(around)}"
    return text if part is None else f"{text} · {percent(part)}"


def _interval(row: Row, measure: str) -> str:
    if row["statistic"] != "share" or row["low"] is None:
        return interval(row, 3 if measure in _FINE else 2)
    return f"[{figure(100 * row['low'], 0)}, {figure(100 * row['high'], 0)}] %"


def as_markdown(content: Mapping[str, Any]) -> str:
    """The page's text and tables as Markdown, without its figures."""
    parts = [
        "# Reproduction of Jain & Wallace 2019",
        *map(plain, content["verdict"]),
        plain(content["extent"]),
        _tallies(content),
    ]
    parts += [
        plain(content["contrast_sentence"]),
        _contrasts(content),
        _not_run(content),
        plain(content["intervals"]),
    ]
    parts += [
        plain(content["interval_rule"] if content["tallies"] else ""),
        "\n".join(f"- {plain(note)}" for note in content["notes"]),
    ]
    for section in content["sections"]:
        parts += [
            f"## {plain(section['title'])}",
            *(f"- {plain(note)}" for note in section["notes"]),
        ]
        parts += [
            _markdown_numbers(table)
            for table in (section["table"], *section["further"])
            if table.columns
        ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _tallies(content: Mapping[str, Any]) -> str:
    heads = [
        "",
        *(f"{symbol} {head}" for _, symbol, head in content["degrees"]),
        "all",
        "between their two",
    ]
    return markdown_table(
        heads,
        [
            [tally.kind, *map(str, (*tally.counts, tally.total, tally.between))]
            for tally in content["tallies"]
        ],
    )


def _contrasts(content: Mapping[str, Any]) -> str:
    titles, pairs, words = content["titles"], content["pairs"], content["contrast_words"]
    rows = [
        [
            titles[one.corpus],
            one.attention,
            pairs[one.measure],
            *map(figure, (one.paper, one.rerun, one.ours)),
            words[one.degree],
        ]
        for one in content["contrasts"]
    ]
    return markdown_table(
        ["average less BiLSTM", "attention", "mean τ", "paper", "re-run", "ours", "ours is"], rows
    )


def _not_run(content: Mapping[str, Any]) -> str:
    if not content["not_run"]:
        return ""
    return "Not run:\n\n" + markdown_table(
        ["corpus", "models", "reason"], [[*row] for row in content["not_run"]]
    )


def _markdown_numbers(table: NumberTable) -> str:
    heads = [
        column.head if column.title == "all instances" else f"{column.head}, {column.title}"
        for column in table.columns
    ]
    rows = [
        [" + ".join(block.model), label, *map(_markdown_entry, entries)]
        for block in table.blocks
        for label, entries in block.lines
    ]
    return f"{plain(table.caption)}\n\n" + markdown_table(["model", "", *heads], rows)


def _markdown_entry(entry: Entry) -> str:
    return " ".join(
        filter(None, (MARKS[entry.degree][0] if entry.degree else "", entry.text, entry.interval))
    )


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(plain, line)) + " |" for line in lines)


def plain(text: str) -> str:
    """Text that stays text: one line, and no character that Markdown or HTML would take for its own."""
    return re.sub(r"([\\`*_<>\[\]|])", r"\\\1", " ".join(text.split()))
